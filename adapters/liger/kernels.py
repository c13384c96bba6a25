"""The kernels of Liger, which are written in Triton.

Documentation: https://linkedin.github.io/Liger-Kernel/Low-Level-APIs/
Without a CUDA device they run in Triton's interpreter, row by row, whose documentation excludes bfloat16.
It hands a kernel's numbers on as they are in Python, and not as tensors as the compiler does, so that the kernels of
the norms and of SwiGLU, which convert theirs, cannot be interpreted; those of the norms also call a function of CUDA.
The backward pass of liger_softmax reckons in the dtype of its inputs.
That of liger_rms_norm writes over the cotangent unless it is told not to (`in_place`).
Rotary embeddings pair channels by halves and are handed the tables of a model, in the dtype of the inputs.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from .. import Unsupported, adapter
from ..torch.gradients import differentiated

DTYPES = ("float32", "bfloat16", "float16")
declared = functools.partial(adapter, dtypes=DTYPES, package="liger_kernel", extra="liger")


def kernels(x: Any) -> Any:
    """The functions of Liger, interpreted unless `x` is on a CUDA device."""
    if x.device.type == "cpu":
        if str(x.dtype) == "torch.bfloat16":
            raise Unsupported("Triton's interpreter has no bfloat16")
        os.environ.setdefault("TRITON_INTERPRET", "1")  # read when the kernels are imported
    from liger_kernel.transformers import functional

    return functional


@declared("softmax", conventions={"empty_row": "nans"}, slow=True)
def liger_softmax(x: Any) -> Any:
    """liger_softmax over the last axis."""
    return kernels(x).liger_softmax(x)


@declared("rotary", slow=True)
def liger_rotary(x: Any, positions: Any, *, base: float = 10000.0, rotary_dim: int | None = None) -> Any:
    """liger_rope of one array as queries and keys."""
    import torch

    width = rotary_dim or x.shape[-1]
    angles = positions[:, None] * base ** (-torch.arange(0, width, 2, device=x.device) / width)
    cos, sin = (table.repeat(1, 2).to(x.dtype)[None] for table in (angles.cos(), angles.sin()))
    return kernels(x).liger_rope(x, x.clone(), cos, sin, rotary_dim=rotary_dim)[0]


@declared("rms_norm", conventions={"eps_place": "inside", "weight_form": "plain"}, devices=("cuda",))
def liger_rms_norm(x: Any, weight: Any, *, eps: float) -> Any:
    """liger_rms_norm as for Llama."""
    return kernels(x).liger_rms_norm(x, weight, eps)


@declared("rms_norm", conventions={"eps_place": "inside", "weight_form": "one_plus"}, devices=("cuda",))
def liger_rms_norm_gemma(x: Any, weight: Any, *, eps: float) -> Any:
    """liger_rms_norm as for Gemma, whose weights are less by one."""
    return kernels(x).liger_rms_norm(x, weight, eps, offset=1.0, casting_mode="gemma")


@declared("layer_norm", conventions={"eps_place": "inside", "variance": "biased"}, devices=("cuda",))
def liger_layer_norm(x: Any, weight: Any, bias: Any, *, eps: float) -> Any:
    """liger_layer_norm."""
    return kernels(x).liger_layer_norm(x, weight, bias, eps)


@declared("swiglu", devices=("cuda",))
def liger_swiglu(x: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
    """liger_swiglu between the products of a layer."""
    return kernels(x).liger_swiglu(x @ w_gate, x @ w_up) @ w_down


@declared("rms_norm_gradient", conventions={"eps_place": "inside", "weight_form": "plain"}, devices=("cuda",))
def liger_rms_norm_gradient(x: Any, weight: Any, d_out: Any, *, eps: float) -> dict[str, Any]:
    """The backward pass of liger_rms_norm as for Llama."""

    def rms_norm(x: Any, weight: Any) -> Any:
        return kernels(x).liger_rms_norm(x, weight, eps, in_place=False)

    return differentiated(rms_norm, d_out, x=x, weight=weight)


@declared("rms_norm_gradient", conventions={"eps_place": "inside", "weight_form": "one_plus"}, devices=("cuda",))
def liger_rms_norm_gemma_gradient(x: Any, weight: Any, d_out: Any, *, eps: float) -> dict[str, Any]:
    """The backward pass of liger_rms_norm as for Gemma."""

    def rms_norm(x: Any, weight: Any) -> Any:
        return kernels(x).liger_rms_norm(x, weight, eps, offset=1.0, casting_mode="gemma", in_place=False)

    return differentiated(rms_norm, d_out, x=x, weight=weight)


@declared("layer_norm_gradient", conventions={"eps_place": "inside", "variance": "biased"}, devices=("cuda",))
def liger_layer_norm_gradient(x: Any, weight: Any, d_out: Any, *, eps: float) -> dict[str, Any]:
    """The backward pass of liger_layer_norm."""

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        return kernels(x).liger_layer_norm(x, weight, bias, eps)

    return differentiated(layer_norm, d_out, x=x, weight=weight, bias=0 * weight)


@declared(
    "softmax_gradient",
    conventions={"empty_row": "nans"},
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive"},
    slow=True,
)
def liger_softmax_gradient(x: Any, d_out: Any) -> dict[str, Any]:
    """The backward pass of liger_softmax over the last axis."""
    return differentiated(lambda x: kernels(x).liger_softmax(x), d_out, x=x)
