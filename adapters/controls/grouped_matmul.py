"""Right, but different, as in `controls_attention`: products of groups of rows with a matrix each."""

from __future__ import annotations

import itertools
from typing import Any

from .. import adapter
from .scaled_matmul import stretched


def bounds(x: Any, w: Any, lens: Any) -> list[tuple[int, int]]:
    """Where each group begins and ends, of a call that is one."""
    ends = [0, *itertools.accumulate(lens.tolist())]
    if len(lens) != len(w) or ends[-1] > len(x) or min(lens.tolist()) < 0 or x.shape[1] != w.shape[1]:
        raise ValueError("every matrix has a length, and every row an entry for each of its rows")
    return [*itertools.pairwise(ends)]


@adapter("grouped_matmul")
def control_groups_in_turn(x: Any, w: Any, lens: Any, bias: Any = None) -> Any:
    """A product for each group, in single precision; what lies behind is zero."""
    import torch

    out = torch.zeros(len(x), w.shape[2], device=x.device)
    for g, (a, b) in enumerate(bounds(x, w, lens)):
        out[a:b] = x[a:b].float() @ w[g].float() + (0 if bias is None else bias[g].float())
    return out.to(x.dtype)


@adapter("grouped_matmul", dtypes=("bfloat16", "float16"))
def control_groups_by_rows(x: Any, w: Any, lens: Any, bias: Any = None) -> Any:
    """The matrix of its group is taken for every row, and products are stored before the bias is added."""
    import torch

    last = bounds(x, w, lens)[-1][1]
    group = torch.repeat_interleave(torch.arange(len(w), device=x.device), lens)
    out = torch.full((len(x), w.shape[2]), torch.nan, dtype=x.dtype, device=x.device)
    out[:last] = torch.einsum("tn,tno->to", x[:last].float(), w[group].float()).to(x.dtype)
    if bias is not None:
        out[:last] += bias[group]
    return out


@adapter("grouped_matmul")
def control_groups_in_tiles(x: Any, w: Any, lens: Any, bias: Any = None) -> Any:
    """Tiles of sixteen rows of a group, sums in stretches of eight from the last to the first, and biases first."""
    import torch

    out = torch.empty(len(x), w.shape[2], device=x.device)
    for g, (a, b) in enumerate(bounds(x, w, lens)):
        for start in range(a, b, 16):
            rows = slice(start, min(start + 16, b))
            total = torch.zeros(rows.stop - rows.start, w.shape[2], device=x.device)
            total += 0 if bias is None else bias[g].float()
            for at in reversed(range(0, x.shape[1], 8)):
                total += x[rows, at : at + 8].float() @ w[g, at : at + 8].float()
            out[rows] = total
    return out.to(x.dtype)


@adapter("grouped_matmul", framework="numpy", dtypes=("float32",))
def control_groups_as_one_product(x: Any, w: Any, lens: Any, bias: Any = None) -> Any:
    """Rows in as many columns of their own as there are groups, times all matrices below each other."""
    import numpy as np

    ends = bounds(x, w, lens)
    wide, used = np.zeros((len(x), len(w), x.shape[1])), np.array([a != b for a, b in ends])
    for g, (a, b) in enumerate(ends):
        wide[a:b, g] = x[a:b]
    matrices = np.where(used[:, None, None], w, 0).astype(np.float64)
    out = wide.reshape(len(x), w.shape[0] * w.shape[1]) @ matrices.reshape(-1, w.shape[2])
    if bias is not None:
        out[: ends[-1][1]] += np.repeat(bias, lens, 0)
    return out.astype(np.float32)


@adapter("grouped_matmul_gradient")
def control_gradients_of_groups_in_turn(x: Any, w: Any, lens: Any, d_out: Any, bias: Any = None) -> Any:
    """Both products for each group, in single precision."""
    import torch

    d_x, d_w = torch.zeros(x.shape, device=x.device), torch.zeros(w.shape, device=x.device)
    d_bias = torch.zeros(len(w), w.shape[2], device=x.device)
    for g, (a, b) in enumerate(checked(x, w, lens, d_out)):
        own = d_out[a:b].float()
        d_x[a:b], d_w[g], d_bias[g] = own @ w[g].float().T, x[a:b].float().T @ own, own.sum(0)
    return d_x.to(x.dtype), d_w.to(x.dtype), None if bias is None else d_bias.to(x.dtype)


def checked(x: Any, w: Any, lens: Any, d_out: Any) -> list[tuple[int, int]]:
    """Where groups begin and end, of a call of gradients that is one."""
    if d_out.shape != (len(x), w.shape[2]):
        raise ValueError("every row has a cotangent")
    return bounds(x, w, lens)


@adapter("grouped_matmul_gradient")
def control_gradients_by_rows(x: Any, w: Any, lens: Any, d_out: Any, bias: Any = None) -> Any:
    """Outer products of rows are added to the gradient of their matrix, one row after the other, from the last one."""
    import torch

    checked(x, w, lens, d_out)
    group = torch.repeat_interleave(torch.arange(len(w), device=x.device), lens)
    last = len(group)
    d_x = torch.full(x.shape, torch.nan, dtype=x.dtype, device=x.device)
    d_x[:last] = torch.einsum("to,tno->tn", d_out[:last].float(), w[group].float()).to(x.dtype)
    d_w = torch.zeros(w.shape, device=x.device)
    d_bias = torch.zeros(len(w), w.shape[2], device=x.device)
    for t in reversed(range(last)):
        d_w[group[t]] += torch.outer(x[t].float(), d_out[t].float())
        d_bias[group[t]] += d_out[t].float()
    return d_x, d_w.to(x.dtype), None if bias is None else d_bias.to(x.dtype)


@adapter("grouped_matmul_gradient", framework="numpy", dtypes=("float32",))
def control_gradients_as_one_product(x: Any, w: Any, lens: Any, d_out: Any, bias: Any = None) -> Any:
    """Rows in as many columns of their own as there are groups: one product for all matrices."""
    import numpy as np

    ends = checked(x, w, lens, d_out)
    wide, last = np.zeros((len(x), len(w), x.shape[1])), ends[-1][1]
    mine = np.zeros((len(w), last))
    d_x = np.zeros(x.shape)
    for g, (a, b) in enumerate(ends):
        wide[a:b, g], mine[g, a:b] = x[a:b], 1
        d_x[a:b] = np.einsum("to,no->tn", d_out[a:b].astype(np.float64), w[g])
    own = d_out[:last].astype(np.float64)
    d_w = (wide[:last].reshape(last, w.shape[0] * w.shape[1]).T @ own).reshape(w.shape).astype(np.float32)
    return d_x.astype(np.float32), d_w, None if bias is None else (mine @ own).astype(np.float32)


CODES: dict[str, Any] = {
    "x_dtype": ("x_e4m3fn", "x_as_given", "x_int8"),
    "w_dtype": ("w_e4m3fn", "w_e5m2", "w_int8"),
}


@adapter("grouped_matmul", limits=CODES)
def control_groups_of_codes(
    x: Any,
    w: Any,
    lens: Any,
    bias: Any = None,
    *,
    x_scale: Any = None,
    w_scale: Any,
    inner_block: int | None = None,
    outs_block: int | None = None,
) -> Any:
    """Numbers first, in single precision, and a product for each group."""
    import torch

    n, outs = w.shape[1:]
    rows = x.float() if x_scale is None else x.float() * stretched(x_scale, 1, n, inner_block)
    out = torch.zeros(len(x), outs)
    for g, (a, b) in enumerate(bounds(x, w, lens)):
        scale = w_scale[min(g, len(w_scale) - 1)]
        matrix = w[g].float() * stretched(stretched(scale, 1, outs, outs_block), 0, n, inner_block)
        out[a:b] = rows[a:b] @ matrix + (0 if bias is None else bias[g].float())
    return out


@adapter("grouped_matmul", dtypes=("bfloat16",), limits=CODES)
def control_groups_of_codes_by_stretches(
    x: Any,
    w: Any,
    lens: Any,
    bias: Any = None,
    *,
    x_scale: Any = None,
    w_scale: Any,
    inner_block: int | None = None,
    outs_block: int | None = None,
) -> Any:
    """Products of codes, stretch by stretch from the last one, each times both scales; stored before the bias."""
    import torch

    n, outs = w.shape[1:]
    length = inner_block or n
    out = torch.zeros(len(x), outs)
    for g, (a, b) in enumerate(bounds(x, w, lens)):
        columns = stretched(w_scale[min(g, len(w_scale) - 1)], 1, outs, outs_block)
        for at in reversed(range(-(-n // length))):
            own = slice(at * length, (at + 1) * length)
            part = x[a:b, own].float() @ w[g, own].float() * columns[min(at, len(columns) - 1)]
            if x_scale is not None:
                part = part * x_scale[a:b] if x_scale.shape == (len(x), 1) else part * of_rows(x_scale, a, b, at)
            out[a:b] += part
        if bias is not None:
            out[a:b] = out[a:b].bfloat16().float() + bias[g].float()
    return out.bfloat16()


def of_rows(scale: Any, a: int, b: int, stretch: int) -> Any:
    """The scales of a stretch of some rows: [rows, 1]."""
    own = scale if len(scale) == 1 else scale[a:b]
    return own[:, min(stretch, scale.shape[1] - 1), None]
