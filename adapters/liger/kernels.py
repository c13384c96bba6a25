"""The kernels of Liger, which are written in Triton.

Documentation: https://linkedin.github.io/Liger-Kernel/Low-Level-APIs/
The backward pass of liger_softmax reckons in the dtype of its inputs.
That of liger_rms_norm writes over the cotangent unless it is told not to (`in_place`).
Rotary embeddings pair channels by halves and are handed the tables of a model, in the dtype of the inputs.
Losses of tokens are stored in the dtype of the logits, and added up in it.
"""

from __future__ import annotations

import functools
from typing import Any

from ..torch.gradients import differentiated
from ..triton.interpreter import declared as kernel

DTYPES = ("float32", "bfloat16", "float16")
declared = functools.partial(kernel, dtypes=DTYPES, package="liger_kernel", extra="liger")
LOSS: dict[str, Any] = {
    "conventions": {"no_tokens_left": "zeros"},
    "grade": {"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive"},
}


OUTSIDE = {"normalisation": "outside"}


def kernels() -> Any:
    """The functions of Liger."""
    from liger_kernel.transformers import functional

    return functional


@declared("softmax", conventions={"empty_row": "nans"})
def liger_softmax(x: Any) -> Any:
    """liger_softmax over the last axis."""
    return kernels().liger_softmax(x)


@declared("rotary", grade={"float16": "fp16_naive"}, limits={"length": range(1, 129)})
def liger_rotary(x: Any, positions: Any, *, base: float = 10000.0, rotary_dim: int | None = None) -> Any:
    """liger_rope of one array as queries and keys."""
    import torch

    width = rotary_dim or x.shape[-1]
    angles = positions[:, None] * base ** (-torch.arange(0, width, 2, device=x.device) / width)
    cos, sin = (table.repeat(1, 2).to(x.dtype)[None] for table in (angles.cos(), angles.sin()))
    return kernels().liger_rope(x, x.clone(), cos, sin, rotary_dim=rotary_dim)[0]


@declared("rms_norm", conventions={"eps_place": "inside", "weight_form": "plain"})
def liger_rms_norm(x: Any, weight: Any, *, eps: float) -> Any:
    """liger_rms_norm as for Llama."""
    return kernels().liger_rms_norm(x, weight, eps)


@declared("rms_norm", conventions={"eps_place": "inside", "weight_form": "one_plus"})
def liger_rms_norm_gemma(x: Any, weight: Any, *, eps: float) -> Any:
    """liger_rms_norm as for Gemma, whose weights are less by one."""
    return kernels().liger_rms_norm(x, weight, eps, offset=1.0, casting_mode="gemma")


@declared("residual_rms_norm", conventions={"eps_place": "inside", "weight_form": "plain"})
def liger_fused_add_rms_norm(x: Any, residual: Any, weight: Any, *, eps: float) -> Any:
    """liger_fused_add_rms_norm as for Llama."""
    return kernels().liger_fused_add_rms_norm(x, residual, weight, eps)


@declared("layer_norm", conventions={"eps_place": "inside", "variance": "biased"})
def liger_layer_norm(x: Any, weight: Any, bias: Any, *, eps: float) -> Any:
    """liger_layer_norm."""
    return kernels().liger_layer_norm(x, weight, bias, eps)


@declared("group_norm", layout="bcx", conventions={"grouping": "block"}, fixed={"silu": False})
def liger_group_norm(x: Any, weight: Any, bias: Any, *, groups: int, eps: float) -> Any:
    """liger_group_norm of maps of one axis."""
    return kernels().liger_group_norm(x, weight, bias, len(weight), groups, eps)


@declared("swiglu")
def liger_swiglu(x: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
    """liger_swiglu between the products of a layer."""
    return kernels().liger_swiglu(x @ w_gate, x @ w_up) @ w_down


HALVES: dict[str, Any] = {"order": "gate_first", "alpha": 1.0, "beta": 0.0, "limit": None, "limit_opened": False}


@declared("gated_activation", fixed={"activation": "silu", **HALVES})
def liger_silu_mul(x: Any) -> Any:
    """liger_swiglu of two halves."""
    return kernels().liger_swiglu(*(half.contiguous() for half in x.tensor_split(2, -1)))


@declared("gated_activation", fixed={"activation": "gelu_tanh", **HALVES})
def liger_geglu(x: Any) -> Any:
    """liger_geglu of two halves."""
    return kernels().liger_geglu(*(half.contiguous() for half in x.tensor_split(2, -1)))


@declared("gated_activation_gradient", fixed={"activation": "silu", **HALVES})
def liger_silu_mul_gradient(x: Any, d_out: Any) -> Any:
    """The backward pass of liger_swiglu of copies of two halves, which it writes over."""

    def silu_mul(x: Any) -> Any:
        return kernels().liger_swiglu(*(half.clone() for half in x.tensor_split(2, -1)))

    return differentiated(silu_mul, d_out, x=x)["d_x"]


@declared("gated_activation_gradient", fixed={"activation": "gelu_tanh", **HALVES})
def liger_geglu_gradient(x: Any, d_out: Any) -> Any:
    """The backward pass of liger_geglu of copies of two halves, which it writes over."""

    def geglu(x: Any) -> Any:
        return kernels().liger_geglu(*(half.clone() for half in x.tensor_split(2, -1)))

    return differentiated(geglu, d_out, x=x)["d_x"]


@declared("rms_norm_gradient", conventions={"eps_place": "inside", "weight_form": "plain"})
def liger_rms_norm_gradient(x: Any, weight: Any, d_out: Any, *, eps: float) -> dict[str, Any]:
    """The backward pass of liger_rms_norm as for Llama."""

    def rms_norm(x: Any, weight: Any) -> Any:
        return kernels().liger_rms_norm(x, weight, eps, in_place=False)

    return differentiated(rms_norm, d_out, x=x, weight=weight)


@declared("rms_norm_gradient", conventions={"eps_place": "inside", "weight_form": "one_plus"})
def liger_rms_norm_gemma_gradient(x: Any, weight: Any, d_out: Any, *, eps: float) -> dict[str, Any]:
    """The backward pass of liger_rms_norm as for Gemma."""

    def rms_norm(x: Any, weight: Any) -> Any:
        return kernels().liger_rms_norm(x, weight, eps, offset=1.0, casting_mode="gemma", in_place=False)

    return differentiated(rms_norm, d_out, x=x, weight=weight)


@declared("residual_rms_norm_gradient", conventions={"eps_place": "inside", "weight_form": "plain"})
def liger_fused_add_rms_norm_gradient(
    x: Any, residual: Any, weight: Any, d_out: Any, *, d_summed: Any = None, eps: float
) -> dict[str, Any]:
    """The backward pass of liger_fused_add_rms_norm as for Llama."""

    def fused(x: Any, residual: Any, weight: Any) -> dict[str, Any]:
        out, summed = kernels().liger_fused_add_rms_norm(x, residual, weight, eps, in_place=False)
        return {"out": out, "summed": summed}

    return differentiated(fused, d_out, further={"summed": d_summed}, x=x, residual=residual, weight=weight)


@declared("layer_norm_gradient", conventions={"eps_place": "inside", "variance": "biased"})
def liger_layer_norm_gradient(x: Any, weight: Any, d_out: Any, *, eps: float) -> dict[str, Any]:
    """The backward pass of liger_layer_norm."""

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        return kernels().liger_layer_norm(x, weight, bias, eps)

    return differentiated(layer_norm, d_out, x=x, weight=weight, bias=0 * weight)


@declared("group_norm_gradient", layout="bcx", conventions={"grouping": "block"}, dtypes=("float32",))
def liger_group_norm_gradient(x: Any, weight: Any, d_out: Any, *, groups: int, eps: float) -> dict[str, Any]:
    """The backward pass of liger_group_norm, of maps of one axis, with sums in the dtype of the inputs."""

    def group_norm(x: Any, weight: Any, bias: Any) -> Any:
        return kernels().liger_group_norm(x, weight, bias, len(weight), groups, eps)

    return differentiated(group_norm, d_out, x=x, weight=weight, bias=0 * weight)


@declared(
    "softmax_gradient",
    conventions={"empty_row": "nans"},
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive"},
)
def liger_softmax_gradient(x: Any, d_out: Any) -> dict[str, Any]:
    """The backward pass of liger_softmax over the last axis."""
    return differentiated(lambda x: kernels().liger_softmax(x), d_out, x=x)


@declared("cross_entropy", **LOSS)
def liger_cross_entropy(
    logits: Any,
    targets: Any,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    softcap: float | None = None,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """liger_cross_entropy."""
    return kernels().liger_cross_entropy(
        logits,
        targets,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        lse_square_scale=z_loss,
        softcap=softcap,
        reduction=reduction,
    )


@declared("linear_cross_entropy", **LOSS)
def liger_fused_linear_cross_entropy(
    hidden: Any,
    weight: Any,
    targets: Any,
    *,
    bias: Any = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    softcap: float | None = None,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """liger_fused_linear_cross_entropy."""
    return kernels().liger_fused_linear_cross_entropy(
        hidden,
        weight,
        targets,
        bias,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        lse_square_scale=z_loss,
        softcap=softcap,
        reduction=reduction,
    )


@declared("distillation_loss", fixed={"reduction": "averaged"}, conventions=OUTSIDE, grade=LOSS["grade"])
def liger_jsd(
    log_probs: Any,
    teacher: Any,
    labels: Any = None,
    *,
    beta: float = 0.5,
    ignore_index: int = -100,
    reduction: str = "batchmean",
) -> Any:
    """liger_jsd."""
    return kernels().liger_jsd(log_probs, teacher, labels, beta, ignore_index)


@declared("distillation_loss_gradient", fixed={"reduction": "averaged"}, conventions=OUTSIDE, grade=LOSS["grade"])
def liger_jsd_gradient(
    log_probs: Any,
    teacher: Any,
    d_out: Any,
    labels: Any = None,
    *,
    beta: float = 0.5,
    ignore_index: int = -100,
    reduction: str = "batchmean",
) -> dict[str, Any]:
    """The backward pass of liger_jsd."""

    def jsd(log_probs: Any) -> Any:
        return kernels().liger_jsd(log_probs, teacher, labels, beta, ignore_index)

    return differentiated(jsd, d_out, log_probs=log_probs)


@declared("linear_distillation_loss", grade=LOSS["grade"])
def liger_fused_linear_jsd(
    hidden: Any,
    weight: Any,
    teacher_hidden: Any,
    teacher_weight: Any,
    labels: Any = None,
    *,
    beta: float = 0.5,
    temperature: float = 1.0,
    ignore_index: int = -100,
) -> Any:
    """liger_fused_linear_jsd."""
    given = (hidden, weight, teacher_hidden, teacher_weight)
    return kernels().liger_fused_linear_jsd(*given, labels, beta, ignore_index, temperature)


@declared("linear_distillation_loss_gradient", grade=LOSS["grade"])
def liger_fused_linear_jsd_gradient(
    hidden: Any,
    weight: Any,
    teacher_hidden: Any,
    teacher_weight: Any,
    d_out: Any,
    labels: Any = None,
    *,
    beta: float = 0.5,
    temperature: float = 1.0,
    ignore_index: int = -100,
) -> dict[str, Any]:
    """The backward pass of liger_fused_linear_jsd."""

    def jsd(hidden: Any, weight: Any) -> Any:
        given = (hidden, weight, teacher_hidden, teacher_weight)
        return kernels().liger_fused_linear_jsd(*given, labels, beta, ignore_index, temperature)

    return differentiated(jsd, d_out, hidden=hidden, weight=weight)
