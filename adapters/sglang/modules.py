"""Modules of SGLang with kernels in Triton, without the rest of it.

Source: https://github.com/sgl-project/sglang (python/sglang/kernels/ops)
Where kernels are compiled it is imported as it is, if all that it wants is there. Elsewhere kernels are told of a CUDA
device in the place of what it asks a machine, and that no variable of its environment is set.
"""

from __future__ import annotations

import functools
import importlib
import sys
from types import SimpleNamespace
from typing import Any

from ..triton.parts import hollow, in_parts

ATTENTION = "kernels.ops.attention"
EXPERTS = "kernels.ops.moe"
SPECULATIVE = "kernels.ops.speculative"
QUANTIZATION = "kernels.ops.quantization"
LAYERNORM = "kernels.ops.layernorm"
PRODUCTS = "kernels.ops.gemm"
LORA = "kernels.ops.lora.dense"
FOLDERS = (
    *("kernels", "kernels.ops", ATTENTION, EXPERTS, SPECULATIVE, QUANTIZATION, LAYERNORM, PRODUCTS),
    *("kernels.ops.lora", LORA),
    *("srt", "srt.platforms", "srt.lora"),
)
COMPILED: dict[str, dict[str, Any]] = {
    f"{QUANTIZATION}.fp8_kernel": {"sglang_per_token_group_quant_fp8": None},
    f"{SPECULATIVE}.tree": {"build_tree_kernel_efficient": None},
    "srt.platforms.interface": {"reject_out_of_tree_path": None},
    "srt.lora.utils": {"LoRABatchInfo": None},
    "srt.layers": {"deep_gemm_wrapper": None},
    "srt.runtime_context": {"get_platform": lambda: SimpleNamespace(is_sm90=True)},
    "srt.utils.custom_op": {"register_custom_op": lambda **_: lambda function: function},
}
"""What modules import of others, and their kernels in Triton do not use."""


class Unset:
    """The variables of SGLang's environment, none of which is set."""

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(get=lambda: 0)


def _whole() -> bool:
    """Whether SGLang can be imported as it is."""
    importlib.import_module(f"sglang.{PRODUCTS}.fp8_kernel")
    return True


@functools.cache
def module(name: str, folder: str = ATTENTION) -> Any:
    """A module of `sglang.kernels.ops.attention`, as in "decode_attention", or of another folder."""
    if in_parts("sglang", _whole):
        stubs: dict[str, Any] = {"srt.environ": {"envs": Unset()}}
        kept = {"get_device_name": lambda: "", "cached_triton_kernel": lambda _: lambda kernel: kernel}
        stubs["srt.utils"] = {"__getattr__": _asked, **kept}
        hollow("sglang", FOLDERS, stubs | COMPILED)
        sys.modules["sglang.srt.platforms"].current_platform = None  # type: ignore[attr-defined]
    return importlib.import_module(f"sglang.{folder}.{name}")


def _asked(name: str) -> Any:
    """What SGLang asks of a machine: it has a CUDA device, of four multiprocessors."""
    if name.startswith("__"):
        raise AttributeError(name)
    return lambda *_, **__: 4 if "count" in name else name == "is_cuda"
