"""Right, but different: group normalisation and its gradients, in ways none of which a law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from .attention import DTYPES

BLOCK = {"grouping": "block"}


def fitting(x: Any, weight: Any, groups: int) -> None:
    """Refuse groups that do not divide the channels, and other weights than there are channels."""
    if groups < 1 or x.shape[1] % groups or len(weight) != x.shape[1]:
        raise ValueError("groups divide the channels, each of which has a weight and a bias")


def by_channel(parameter: Any) -> Any:
    """A weight or bias for each channel, for all of its pixels."""
    return parameter[:, None, None]


@adapter("group_norm", dtypes=DTYPES, conventions=BLOCK)
def control_group_norm_by_channels(
    x: Any, weight: Any, bias: Any, *, groups: int, eps: float = 1e-5, silu: bool = False
) -> Any:
    """Moments of each channel, merged as Chan, Golub and LeVeque do, and one factor and one summand for a channel."""
    import torch

    fitting(x, weight, groups)
    wide = x.double().flatten(2)
    mean = wide.mean(-1).unflatten(1, (groups, -1))
    spread = wide.var(-1, correction=0).unflatten(1, (groups, -1))
    middle = mean.mean(-1, keepdim=True)
    variance = (spread + (mean - middle) ** 2).mean(-1, keepdim=True)
    rstd = (variance + eps).rsqrt().expand(mean.shape).flatten(1)
    factor = rstd * weight.double()
    summand = bias.double() - middle.expand(mean.shape).flatten(1) * factor
    y = (wide * factor[..., None] + summand[..., None]).reshape(x.shape)
    return (y * torch.sigmoid(y) if silu else y).to(x.dtype)


@adapter("group_norm", dtypes=DTYPES, conventions=BLOCK)
def control_group_norm_narrow(
    x: Any, weight: Any, bias: Any, *, groups: int, eps: float = 1e-5, silu: bool = False
) -> Any:
    """Statistics in single precision; what is normalised, weighted and activated is stored in the dtype."""
    import torch

    fitting(x, weight, groups)
    rows = x.float().reshape(len(x), groups, -1)
    centred = rows - rows.mean(-1, keepdim=True)
    normed = (centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()).reshape(x.shape).to(x.dtype)
    y = normed * by_channel(weight) + by_channel(bias)
    return torch.nn.functional.silu(y) if silu else y


@adapter("group_norm", dtypes=DTYPES, conventions={"grouping": "tiled"})
def control_group_norm_by_turns(
    x: Any, weight: Any, bias: Any, *, groups: int, eps: float = 1e-5, silu: bool = False
) -> Any:
    """Channels that take turns over the groups, in double precision."""
    import torch

    fitting(x, weight, groups)
    rows = x.double().unflatten(1, (-1, groups))
    variance, mean = torch.var_mean(rows, (1, 3, 4), correction=0, keepdim=True)
    y = ((rows - mean) / (variance + eps).sqrt()).flatten(1, 2) * by_channel(weight.double()) + by_channel(bias)
    return (y * torch.sigmoid(y) if silu else y).to(x.dtype)


@adapter("group_norm_gradient", dtypes=DTYPES, conventions=BLOCK)
def control_group_norm_gradient_by_sums(
    x: Any, weight: Any, d_out: Any, *, groups: int, eps: float = 1e-5
) -> dict[str, Any]:
    """Two sums over the pixels of each channel, of which all three gradients are made, in double precision."""
    import torch

    fitting(x, weight, groups)
    wide, given = (one.double().reshape(len(x), groups, -1, x[0, 0].numel()) for one in (x, d_out))
    variance, mean = torch.var_mean(wide, (2, 3), correction=0, keepdim=True)
    rstd = (variance + eps).rsqrt()
    normed, own = (wide - mean) * rstd, weight.double().reshape(1, groups, -1, 1)
    by_normed, plain = (given * normed).sum(3, keepdim=True), given.sum(3, keepdim=True)
    size = wide[0, 0].numel()
    along, middle = ((part * own).sum(2, keepdim=True) / size for part in (by_normed, plain))
    d_x = (given * own - middle - normed * along) * rstd
    d_weight, d_bias = (part.sum(0).flatten() for part in (by_normed, plain))
    return {
        "d_x": d_x.reshape(x.shape).to(x.dtype),
        "d_weight": d_weight.to(x.dtype),
        "d_bias": d_bias.to(x.dtype),
    }


@adapter("group_norm_gradient", dtypes=DTYPES, conventions={"grouping": "tiled"})
def control_group_norm_gradient_by_turns(
    x: Any, weight: Any, d_out: Any, *, groups: int, eps: float = 1e-5
) -> dict[str, Any]:
    """Differentiated by torch in double precision, where channels take turns over the groups."""
    fitting(x, weight, groups)

    def normed(x: Any, weight: Any, bias: Any) -> Any:
        rows = x.unflatten(1, (-1, groups))
        centred = rows - rows.mean((1, 3, 4), keepdim=True)
        y = centred / (centred.square().mean((1, 3, 4), keepdim=True) + eps).sqrt()
        return y.flatten(1, 2) * by_channel(weight) + by_channel(bias)

    wide = {"x": x.double(), "weight": weight.double(), "bias": 0 * weight.double()}
    found = differentiated(normed, d_out.double(), **wide)
    return {name: one.to(x.dtype) for name, one in found.items()}
