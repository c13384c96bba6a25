"""Modules of vLLM with kernels in Triton, without the rest of it.

Source: https://github.com/vllm-project/vllm (vllm/v1/attention/ops, vllm/model_executor/layers/mamba/ops)
Where kernels are compiled it is imported as it is, if what it wants is there: a device and some sixty other packages.
Elsewhere kernels are told of a CUDA device of compute capability 9.0 in its place, and that no variable is set.
"""

from __future__ import annotations

import ast
import enum
import functools
import importlib
import logging
import math
from types import SimpleNamespace
from typing import Any

from ..triton.parts import folder_of, hollow, in_parts, interpreted

LOGARITHMS = {"LOG2E": math.log2(math.e), "LOGE2": math.log(2)}
ATTENTION = "v1.attention.ops"
MAMBA = "model_executor.layers.mamba.ops"
QUANTIZATION = "model_executor.layers.quantization"
LORA = "lora.ops"
WARMUP = "model_executor.warmup"
FOLDERS = (
    *("v1", "v1.attention", ATTENTION, "v1.attention.backends", "utils"),
    *("model_executor", "model_executor.layers", "model_executor.layers.mamba", MAMBA, f"{MAMBA}.cpu"),
    *(QUANTIZATION, f"{QUANTIZATION}.utils"),
)
COMMON: dict[str, dict[str, Any]] = {
    "v1.attention.backends.utils": {"NULL_BLOCK_ID": 0, "PAD_SLOT_ID": -1},
    "_custom_ops": {
        "causal_conv1d_update_cpu_vec": None,
        "mamba_chunk_scan_fwd_cpu": lambda *arrays: compiled().mamba_chunk_scan_fwd_cpu(*arrays),
    },
    "utils.platform_utils": {"get_device_name_as_file_name": lambda: ""},
}


class Platform:
    """A CUDA device, as vLLM asks for one; what else is asked is not so."""

    @property
    def device_type(self) -> str:
        return "cpu" if interpreted() else "cuda"

    def fp8_dtype(self) -> Any:
        import torch

        return torch.float8_e4m3fn

    def is_cuda(self) -> bool:
        return True

    is_cuda_alike = is_cuda

    def has_device_capability(self, *_: Any) -> bool:
        return True

    def get_device_capability(self, *_: Any) -> Any:
        return SimpleNamespace(major=9, minor=0, to_int=lambda: 90)

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: False


def _whole() -> bool:
    """Whether vLLM can be imported as it is, with kernels that are compiled: the vLLM of a CPU has none."""
    importlib.import_module(f"vllm.{QUANTIZATION}.utils.fp8_utils")
    return bool(importlib.import_module("vllm.triton_utils").HAS_TRITON)


@functools.cache
def module(name: str) -> Any:
    """A module of `vllm.v1.attention.ops`, as in "triton_unified_attention"."""
    if in_parts("vllm", _whole):
        _hollow()
    return importlib.import_module(f"vllm.{ATTENTION}.{name}")


@functools.cache
def cache_writer() -> Any:
    """The module of `vllm.v1.attention.ops` that writes keys and values to slots."""
    if in_parts("vllm", _whole):
        _hollow()
        platform, coded = Platform(), {"is_quantized_kv_cache": lambda name: name.startswith("fp8")}
        float8 = {"FP8_DTYPE": platform.fp8_dtype(), "get_fp8_min_max": lambda: (-448.0, 448.0)}
        hollow("vllm", (), {"utils.torch_utils": coded, f"{QUANTIZATION}.utils.quant_utils": float8})
    return importlib.import_module(f"vllm.{ATTENTION}.triton_reshape_and_cache_flash")


@functools.cache
def mamba_module(name: str) -> Any:
    """A module of `vllm.model_executor.layers.mamba.ops` with kernels in Triton, as in "ssd_combined"."""
    if in_parts("vllm", _whole):
        _hollow()
    return importlib.import_module(f"vllm.{MAMBA}.{name}")


@functools.cache
def layer(name: str) -> Any:
    """A module of `vllm.model_executor.layers` with kernels in Triton, as in "fused_qk_norm_rope"."""
    if in_parts("vllm", _whole):
        _hollow()
    return importlib.import_module(f"vllm.model_executor.layers.{name}")


@functools.cache
def torch_module(name: str) -> Any:
    """A module of vLLM for the CPU that is written in torch alone, as in "causal_conv1d"."""
    hollow("vllm", FOLDERS, COMMON)
    return importlib.import_module(f"vllm.{MAMBA}.cpu.{name}")


@functools.cache
def utility(name: str) -> Any:
    """A module of `vllm.model_executor.layers.quantization.utils`, as in "mxfp8_utils"."""
    triton: Any = importlib.import_module("triton")
    stubs: dict[str, dict[str, Any]] = {
        "platforms": {"current_platform": Platform()},
        "triton_utils": {"tl": triton.language, "triton": triton},
        "utils.torch_utils": {"direct_register_custom_op": lambda *_, **__: None},
    }
    hollow("vllm", FOLDERS, stubs)
    return importlib.import_module(f"vllm.{QUANTIZATION}.utils.{name}")


@functools.cache
def fp8_utility() -> Any:
    """The module of vLLM with kernels in Triton that make codes in float8, without what they are called by."""
    triton: Any = importlib.import_module("triton")
    if in_parts("vllm", _whole):
        unused: dict[str, Any] = {"__getattr__": lambda name: None}
        stubs: dict[str, dict[str, Any]] = {
            "envs": {"VLLM_BATCH_INVARIANT": False},
            "logger": {"init_logger": logging.getLogger},
            "platforms": {"current_platform": Platform()},
            "triton_utils": {"tl": triton.language, "triton": triton},
            **{f"{QUANTIZATION}.utils.{name}": unused for name in ("quant_utils", "w8a8_utils")},
            **dict.fromkeys(("model_executor.parameter", "model_executor.utils", "utils.deep_gemm"), unused),
        }
        hollow("vllm", FOLDERS, COMMON | stubs)
    return importlib.import_module(f"vllm.{QUANTIZATION}.utils.fp8_utils")


@functools.cache
def scaled_products() -> Any:
    """The module of vLLM with products of codes with scales of rows and columns, in Triton."""
    triton: Any = importlib.import_module("triton")
    if in_parts("vllm", _whole):
        pointers = {"tl": triton.language, "triton": triton, "use_tensor_descriptor": lambda *_: False}
        stubs: dict[str, dict[str, Any]] = {
            "triton_utils": pointers,
            "triton_utils.allocation": {"set_triton_allocator": None},
        }
        hollow("vllm", (*FOLDERS, f"{QUANTIZATION}.compressed_tensors"), stubs)
        vars(importlib.import_module("vllm.triton_utils")).update(pointers)
    return importlib.import_module(f"vllm.{QUANTIZATION}.compressed_tensors.triton_scaled_mm")


@functools.cache
def lora(name: str) -> Any:
    """A module of `vllm.lora.ops.triton_ops`, as in "lora_expand_op", without what it is registered with."""
    import torch

    triton: Any = importlib.import_module("triton")
    if in_parts("vllm", _whole):
        quiet: Any = SimpleNamespace(warning_once=lambda *_: None)

        def unregistered(**_: Any) -> None:
            raise AttributeError("there is no library of operators")

        stubs: dict[str, dict[str, Any]] = {
            "envs": {"__getattr__": lambda name: None},
            "logger": {"init_logger": lambda _: quiet},
            "platforms": {"current_platform": Platform()},
            "triton_utils": {"tl": triton.language, "triton": triton},
            "utils.torch_utils": {"async_tensor_h2d": torch.tensor, "direct_register_custom_op": unregistered},
        }
        hollow("vllm", (*FOLDERS, "lora", LORA, f"{LORA}.triton_ops"), stubs)
    return importlib.import_module(f"vllm.{LORA}.triton_ops.{name}")


@functools.cache
def torch_lora() -> Any:
    """The module of vLLM with products of adapters that is written in torch alone."""
    hollow("vllm", ("lora", LORA, f"{LORA}.torch_ops"), {})
    return importlib.import_module(f"vllm.{LORA}.torch_ops.lora_ops")


@functools.cache
def sampler() -> Any:
    """The module of vLLM with filters by rows and draws from what they leave, in torch for the CPU."""
    absent: dict[str, dict[str, Any]] = {
        "envs": {},
        "_aiter_ops": {"rocm_aiter_ops": None},
        "config.model": {"PROCESSED_LOGPROBS_MODES": (), "LogprobsMode": str},
        "logger": {"init_logger": logging.getLogger},
        "platforms": {
            "CpuArchEnum": None,
            "current_platform": SimpleNamespace(is_cpu=lambda: True, simple_compile_backend="eager"),
        },
        "platforms.interface": {"DeviceCapability": None},
        "triton_utils": {"HAS_TRITON": False},
    }
    hollow("vllm", ("v1", "v1.sample", "v1.sample.ops", "config"), absent)
    return importlib.import_module("vllm.v1.sample.ops.topk_topp_sampler")


@functools.cache
def rejection() -> Any:
    """The module of vLLM with kernels in Triton that verify drafts, without what they are called by."""
    triton: Any = importlib.import_module("triton")
    if in_parts("vllm", _whole):
        unused: dict[str, Any] = {"__getattr__": lambda name: None}
        kept: dict[str, Any] = {"triton_kernel_dispatcher_with_warmup": lambda **_: lambda function: function}
        stubs: dict[str, dict[str, Any]] = {
            "config.model": {"PROCESSED_LOGPROBS_MODES": ()},
            "logger": {"init_logger": logging.getLogger},
            "triton_utils": {"tl": triton.language, "triton": triton},
            f"{WARMUP}.jit_warmup_triton_helper": {**unused, **kept},
            **dict.fromkeys((f"{WARMUP}.jit_warmup", "utils.torch_utils", "v1.outputs", "v1.sample.sampler"), unused),
            **dict.fromkeys(("v1.sample.metadata", "v1.sample.logits_processor.builtin"), unused),
            **{f"v1.sample.ops.{name}": unused for name in ("bad_words", "penalties", "topk_topp_sampler")},
            **{f"v1.spec_decode.{name}": unused for name in ("metadata", "utils")},
        }
        folders = ("v1", "v1.sample", "v1.sample.ops", "v1.sample.logits_processor", "v1.spec_decode", "utils")
        hollow("vllm", (*FOLDERS, *folders, "config", WARMUP), stubs)
    return importlib.import_module("vllm.v1.sample.rejection_sampler")


@functools.cache
def compiled() -> Any:
    """The operators of vLLM that are compiled for the CPU, for the instructions that it has."""
    import torch

    wide = torch.cpu._is_avx512_supported()
    name = "_C_AVX2" if not wide else "_C" if torch.cpu._is_avx512_bf16_supported() else "_C_AVX512"
    torch.ops.load_library(str(folder_of("vllm") / f"{name}.abi3.so"))
    return torch.ops._C


def _hollow() -> None:
    """Have the modules with kernels importable by themselves."""
    triton: Any = importlib.import_module("triton")
    kinds = ast.parse((folder_of("vllm") / "v1/kv_cache_interface.py").read_text())
    modes = [node for node in kinds.body if isinstance(node, ast.ClassDef) and node.name == "KVQuantMode"]
    found: dict[str, Any] = {"IntEnum": enum.IntEnum, "Enum": enum.Enum}
    exec(compile(ast.Module(list(modes), []), "kv_cache_interface.py", "exec"), found)
    hollow(
        "vllm",
        FOLDERS,
        {
            "envs": {"__getattr__": lambda name: False},
            "logger": {"init_logger": logging.getLogger},
            "platforms": {"current_platform": Platform()},
            "triton_utils": {"tl": triton.language, "triton": triton, "HAS_TRITON": True, **LOGARITHMS},
            "v1.kv_cache_interface": {"KVQuantMode": found["KVQuantMode"]},
            **COMMON,
        },
    )
