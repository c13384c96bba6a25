"""Low-rank adapters of the tokens of a batch in vLLM, in Triton and in torch for the CPU.

Source: https://github.com/vllm-project/vllm (vllm/lora/ops and vllm/lora/punica_wrapper)
Adapters have slots with room for the greatest rank, whose rest is zero, and all are scaled by one number: an engine
multiplies the second matrices by the scale of their adapter when it loads them. What kernels find of a slot they keep
by its address alone, as slots stay where they are, so that it is forgotten here before every call.
"""

from __future__ import annotations

from typing import Any

from .. import adapter as adapter_of
from ..controls.lora import fitting, held
from ..triton.interpreter import declared
from .modules import lora, torch_lora

DECLARED: dict[str, Any] = {
    "package": "vllm",
    "requires": ("single(scales) or all(scales == scales[0])",),
}


def slots(a: Any, b: Any, ranks: Any, widths: list[int]) -> tuple[list[Any], list[Any]]:
    """Both matrices of all adapters, slice by slice, with zeros behind the ranks of an adapter."""
    if ranks is not None:
        own = held(ranks, a.shape[2])
        a, b = a.where(own[:, None, :, None], 0), b.where(own[:, None], 0)
    return [a[:, s].contiguous() for s in range(len(widths))], [part.contiguous() for part in b.split(widths, 1)]


def scale(scales: Any) -> float:
    """The scale of all adapters."""
    return 1.0 if scales is None else float(scales[0])


@declared("lora_matmul", dtypes=("bfloat16", "float16"), **DECLARED)
def vllm_lora_shrink_expand(
    x: Any,
    a: Any,
    b: Any,
    adapter: Any,
    base: Any = None,
    scales: Any = None,
    ranks: Any = None,
    *,
    widths: Any = None,
) -> Any:
    """lora_shrink and lora_expand, which adds to an output or writes to one of zeros."""
    import torch

    found = fitting(x, a, b, adapter, widths)
    first, second = slots(a, b, ranks, found)
    meta = lora("lora_kernel_metadata").LoRAKernelMeta.make(len(a), len(x), x.device)
    meta.prepare_tensors(adapter)
    given = meta.meta_args(len(x), False)
    pointers = lora("utils")
    pointers._LORA_A_PTR_DICT.clear()
    pointers._LORA_B_PTR_DICT.clear()
    low = torch.empty(len(first), len(x), a.shape[2], device=x.device)
    out = torch.zeros(len(x), b.shape[1], dtype=x.dtype, device=x.device) if base is None else base.clone()
    out = out.contiguous()
    lora("lora_shrink_op").lora_shrink(x, first, low, *given, scale(scales))
    lora("lora_expand_op").lora_expand(low, second, out, *given, add_inputs=base is not None)
    return out


@adapter_of(
    "lora_matmul",
    dtypes=("float32", "bfloat16", "float16"),
    package="vllm",
    extra="interpreters",
    requires=DECLARED["requires"],
)
def vllm_bgmv_torch(
    x: Any,
    a: Any,
    b: Any,
    adapter: Any,
    base: Any = None,
    scales: Any = None,
    ranks: Any = None,
    *,
    widths: Any = None,
) -> Any:
    """bgmv_shrink and bgmv_expand_slice in torch, as the CPU calls them."""
    import torch

    found = fitting(x, a, b, adapter, widths)
    operators = torch_lora()
    out = torch.zeros(len(x), b.shape[1], dtype=x.dtype, device=x.device) if base is None else base.clone()
    start = 0
    for first, second in zip(*slots(a, b, ranks, found), strict=True):
        low = torch.empty(len(x), a.shape[2], device=x.device)
        operators.bgmv_shrink(x, first, low, adapter.long(), scale(scales))
        operators.bgmv_expand_slice(low, second, out, adapter.long(), start, second.shape[1], add_inputs=True)
        start += second.shape[1]
    return out
