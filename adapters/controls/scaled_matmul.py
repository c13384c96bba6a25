"""Right, but different, as in `controls_attention`: products of codes with scales."""

from __future__ import annotations

from typing import Any

from .. import adapter

FORMATS: dict[str, Any] = {
    "a_dtype": ("a_e4m3fn", "a_e5m2", "a_int8"),
    "b_dtype": ("b_e4m3fn", "b_e5m2", "b_int8"),
}


def stretched(scale: Any, axis: int, length: int, block: int | None) -> Any:
    """A scale for each place of an axis, of those of blocks."""
    if scale.shape[axis] == 1 or block is None:
        return scale
    return scale.repeat_interleave(block, axis).narrow(axis, 0, length)


@adapter("scaled_matmul", limits=FORMATS)
def control_product_of_what_codes_mean(
    a: Any,
    b: Any,
    a_scale: Any,
    b_scale: Any,
    bias: Any = None,
    *,
    inner_block: int | None = None,
    outs_block: int | None = None,
) -> Any:
    """Numbers first, in single precision."""
    columns = stretched(b_scale, 1, b.shape[1], outs_block)
    left = a.float() * stretched(a_scale, 1, a.shape[1], inner_block)
    right = b.float() * stretched(columns, 0, len(b), inner_block)
    out = left @ right
    return out if bias is None else out + bias


def by_stretches(
    a: Any, b: Any, a_scale: Any, b_scale: Any, inner_block: int | None = None, outs_block: int | None = None
) -> Any:
    """Sums of products of codes, stretch by stretch, and each times both scales."""
    import torch

    width = inner_block or a.shape[1]
    columns = stretched(b_scale, 1, b.shape[1], outs_block)
    out = torch.zeros(len(a), b.shape[1])
    for g, (left, right) in enumerate(zip(a.float().split(width, 1), b.float().split(width, 0), strict=True)):
        of_rows = a_scale[:, min(g, a_scale.shape[1] - 1)]
        out += left @ right * (of_rows[:, None] * columns[min(g, len(columns) - 1)])
    return out


@adapter("scaled_matmul", dtypes=("bfloat16",), limits=FORMATS)
def control_product_of_codes(
    a: Any,
    b: Any,
    a_scale: Any,
    b_scale: Any,
    bias: Any = None,
    *,
    inner_block: int | None = None,
    outs_block: int | None = None,
) -> Any:
    """Products of codes first, which are stored before the bias is added."""
    out = by_stretches(a, b, a_scale, b_scale, inner_block, outs_block).bfloat16()
    return out if bias is None else out + bias


@adapter("scaled_matmul", dtypes=("float16",), limits=FORMATS)
def control_product_from_the_last_stretch(
    a: Any,
    b: Any,
    a_scale: Any,
    b_scale: Any,
    bias: Any = None,
    *,
    inner_block: int | None = None,
    outs_block: int | None = None,
) -> Any:
    """Stretches from the last to the first, and a bias in single precision from which the sum starts."""
    import torch

    width = inner_block or a.shape[1]
    columns = stretched(b_scale, 1, b.shape[1], outs_block)
    out = torch.zeros(len(a), b.shape[1]) + (0 if bias is None else bias.float())
    for g in reversed(range(-(-a.shape[1] // width))):
        own = slice(g * width, (g + 1) * width)
        left = a[:, own].float() * a_scale[:, min(g, a_scale.shape[1] - 1), None]
        out += left @ b[own].float() * columns[min(g, len(columns) - 1)]
    return out.half()


@adapter("scaled_matmul", framework="numpy", dtypes=("float32",), limits=FORMATS)
def control_product_by_columns(
    a: Any,
    b: Any,
    a_scale: Any,
    b_scale: Any,
    bias: Any = None,
    *,
    inner_block: int | None = None,
    outs_block: int | None = None,
) -> Any:
    """Place after place of the sums in double precision, from the last to the first."""
    import numpy as np

    left, right = a.astype(np.float64), b.astype(np.float64)
    block = np.arange(b.shape[1]) // (outs_block or 1)
    columns = b_scale[:, np.minimum(block, b_scale.shape[1] - 1)].astype(np.float64)
    out = np.zeros((len(a), b.shape[1])) if bias is None else np.tile(bias.astype(np.float64), (len(a), 1))
    for place in reversed(range(len(b))):
        g = place // (inner_block or len(b))
        of_rows = a_scale[:, min(g, a_scale.shape[1] - 1)].astype(np.float64)
        out += np.outer(left[:, place] * of_rows, right[place] * columns[min(g, len(columns) - 1)])
    return out.astype(np.float32)


@adapter("scaled_matmul", limits=FORMATS, conventions={"output_scale": "divides"})
def control_product_in_codes(
    a: Any,
    b: Any,
    a_scale: Any,
    b_scale: Any,
    bias: Any = None,
    *,
    out_scale: Any,
    inner_block: int | None = None,
    outs_block: int | None = None,
) -> Any:
    """Codes of what is added up in single precision."""
    import torch

    out = by_stretches(a, b, a_scale, b_scale, inner_block, outs_block)
    out = (out if bias is None else out + bias) / out_scale
    return out.clamp(-448, 448).to(torch.float8_e4m3fn)


@adapter("scaled_matmul", dtypes=("bfloat16",), limits=FORMATS, conventions={"output_scale": "multiplies"})
def control_product_in_codes_in_a_second_step(
    a: Any,
    b: Any,
    a_scale: Any,
    b_scale: Any,
    bias: Any = None,
    *,
    out_scale: Any,
    inner_block: int | None = None,
    outs_block: int | None = None,
) -> Any:
    """A result in bfloat16, of which codes are made by a factor."""
    import torch

    out = by_stretches(a, b, a_scale, b_scale, inner_block, outs_block).bfloat16()
    out = (out if bias is None else out + bias).float() * out_scale
    return out.clamp(-448, 448).to(torch.float8_e4m3fn)
