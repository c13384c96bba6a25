"""The gated norms of flash-linear-attention, whose kernels are written in Triton.

Source: https://github.com/fla-org/flash-linear-attention (fla/modules/norm): `layernorm_gated`, which is Mamba 2's and
normalises in groups, and `fused_norm_gate`, which normalises first and knows SiLU and a sigmoid.
No kernel looks whether its arrays fit, so that adapters refuse what does not.
"""

# Decorators of the package hide the parameters of its functions, and some of its types leave out None.
# pyright: reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import functools
from typing import Any

from ..torch.gradients import differentiated
from ..triton.interpreter import declared

gated = functools.partial(declared, dtypes=("float32", "bfloat16", "float16"), package="fla.modules")
NORM_FIRST = {"groups": 1, "norm_before_gate": True}


def fitting(x: Any, weight: Any, *others: Any) -> None:
    if weight.shape != x.shape[-1:] or any(other.shape != x.shape for other in others):
        raise ValueError("arrays differ in their channels")


def in_groups(groups: int, norm_before_gate: bool, eps: float, x: Any, gate: Any, weight: Any) -> Any:
    from fla.modules.norm.layernorm_gated import rmsnorm_fn

    return rmsnorm_fn(x, weight, None, gate, eps, x.shape[-1] // groups, norm_before_gate)


def norm_first(activation: str, eps: float, x: Any, gate: Any, weight: Any) -> Any:
    from fla.modules.norm.fused_norm_gate import rms_norm_gated

    return rms_norm_gated(x, gate, weight, None, activation="swish" if activation == "silu" else activation, eps=eps)


@gated("gated_rms_norm", fixed={"activation": "silu"})
def fla_rmsnorm_fn(
    x: Any, gate: Any, weight: Any, *, groups: int = 1, norm_before_gate: bool = True, eps: float = 1e-6
) -> Any:
    """rmsnorm_fn of Mamba 2, in groups."""
    fitting(x, weight, gate)
    return in_groups(groups, norm_before_gate, eps, x, gate, weight)


@gated("gated_rms_norm", fixed=NORM_FIRST)
def fla_rms_norm_gated(x: Any, gate: Any, weight: Any, *, activation: str = "silu", eps: float = 1e-6) -> Any:
    """rms_norm_gated."""
    fitting(x, weight, gate)
    return norm_first(activation, eps, x, gate, weight)


@gated("gated_rms_norm_gradient", fixed={"activation": "silu"})
def fla_rmsnorm_fn_gradient(
    x: Any, gate: Any, weight: Any, d_out: Any, *, groups: int = 1, norm_before_gate: bool = True, eps: float = 1e-6
) -> dict[str, Any]:
    """The backward pass of rmsnorm_fn, in groups."""
    fitting(x, weight, gate, d_out)
    call = functools.partial(in_groups, groups, norm_before_gate, eps)
    return differentiated(call, d_out, x=x, gate=gate, weight=weight)


@gated("gated_rms_norm_gradient", fixed=NORM_FIRST)
def fla_rms_norm_gated_gradient(
    x: Any, gate: Any, weight: Any, d_out: Any, *, activation: str = "silu", eps: float = 1e-6
) -> dict[str, Any]:
    """The backward pass of rms_norm_gated."""
    fitting(x, weight, gate, d_out)
    call = functools.partial(norm_first, activation, eps)
    return differentiated(call, d_out, x=x, gate=gate, weight=weight)
