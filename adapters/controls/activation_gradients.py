"""Right, but different: gradients of gated activations as kernels compute them, and that no law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .activations import DTYPES, NAIVE, ROOT, control_activation_step_by_step, limited, parted, share_of


def joined(gate: Any, up: Any, order: str) -> Any:
    """The gradients of gates and of their partners in one array, as `parted` finds them."""
    import torch

    if order == "interleaved":
        return torch.stack((gate, up), -1).flatten(-2)
    return torch.cat((up, gate) if order == "up_first" else (gate, up), -1)


@adapter("gated_activation_gradient", dtypes=("float64", *DTYPES), grade=NAIVE)
def control_activation_differentiated(
    x: Any,
    d_out: Any,
    *,
    activation: str = "silu",
    order: str = "gate_first",
    alpha: float = 1.0,
    beta: float = 0.0,
    limit: float | None = None,
    limit_opened: bool = False,
) -> Any:
    """Automatic differentiation of steps that are stored one after the other."""
    options = {"activation": activation, "order": order, "alpha": alpha, "beta": beta}
    limits = {"limit": limit, "limit_opened": limit_opened}

    def stepwise(x: Any) -> Any:
        return control_activation_step_by_step(x, **options, **limits)

    return differentiated(stepwise, d_out, x=x)["d_x"]


@adapter("gated_activation_gradient", dtypes=DTYPES)
def control_slopes_in_single_precision(
    x: Any,
    d_out: Any,
    *,
    activation: str = "silu",
    order: str = "gate_first",
    alpha: float = 1.0,
    beta: float = 0.0,
    limit: float | None = None,
    limit_opened: bool = False,
) -> Any:
    """In single precision throughout, a sigmoid by a tangent, a tangent by a sigmoid, and no gradient at a limit."""
    import torch

    full_gate, full_up = (part.float() for part in parted(x, order))
    d = d_out.float()
    if d.shape != full_gate.shape:
        raise ValueError("every gate has an entry of the cotangent")
    gate, up = limited(full_gate, full_up, limit, limit_opened)
    share = share_of(gate, activation, alpha)
    if activation == "silu":
        slope = share * (1 + alpha * gate * (1 - share))
    elif activation == "gelu":
        slope = share + gate * torch.exp(-gate * gate / 2) * (ROOT / 2)
    else:
        slope = share + 2 * ROOT * gate * share * (1 - share) * (1 + 3 * 0.044715 * gate * gate)
    opened = gate * share
    d_gate = d * (up + beta) * slope
    d_up = d * (opened.clamp(max=limit) if limit_opened else opened)
    if limit is not None:
        d_gate = torch.where((opened if limit_opened else full_gate) < limit, d_gate, 0)
        d_up = torch.where(full_up.abs() < limit, d_up, 0)
    return joined(d_gate, d_up, order).to(x.dtype)
