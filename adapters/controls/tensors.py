"""Right, but different: sums over letters and shapes, computed as others do, none of which a law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")


def letters(a: Any, b: Any, equation: str) -> tuple[Any, Any, str, str, str]:
    """The operands, their letters and those of the output, after leading axes and diagonals are dealt with."""
    import torch

    inputs, arrow, output = equation.partition("->")
    first, second = inputs.split(",")
    if not arrow:
        output = "".join(sorted(x for x in first + second if (first + second).count(x) == 1))
    if "..." in equation:
        shape = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = a.expand(*shape, *a.shape[-2:]), b.expand(*shape, *b.shape[-2:])
        first, second, output = (x.replace("...", "XYZ"[: len(shape)]) for x in (first, second, output))
    for letter in sorted(set(first)):
        if first.count(letter) == 2:  # its diagonal becomes the last axis
            i, j = (k for k, x in enumerate(first) if x == letter)
            if a.shape[i] != a.shape[j]:
                raise ValueError("a diagonal is that of a square")
            a, first = a.diagonal(0, i, j), first.replace(letter, "") + letter
    for letter in sorted(set(second)):
        if second.count(letter) == 2:
            i, j = (k for k, x in enumerate(second) if x == letter)
            b, second = b.diagonal(0, i, j), second.replace(letter, "") + letter
    return a, b, first, second, output


@adapter("einsum", dtypes=DTYPES)
def control_einsum_broadcast(a: Any, b: Any, *, equation: str) -> Any:
    """Every letter an axis of both operands, multiplied and then summed, in single precision."""
    a, b, first, second, output = letters(a, b, equation)
    everything = output + "".join(sorted({*first, *second} - {*output}))
    lengths = dict(zip(first, a.shape, strict=True))
    if any(lengths.setdefault(x, n) != n for x, n in zip(second, b.shape, strict=True)):
        raise ValueError("lengths differ")

    def spread(x: Any, own: str) -> Any:
        x = x.float().permute([own.index(letter) for letter in everything if letter in own])
        for axis, letter in enumerate(everything):
            if letter not in own:
                x = x.unsqueeze(axis)
        return x

    products = spread(a, first) * spread(b, second)
    inner = tuple(range(len(output), len(everything)))
    return (products.sum(inner) if inner else products).to(a.dtype)


@adapter("einsum", dtypes=DTYPES)
def control_einsum_summed_first(a: Any, b: Any, *, equation: str) -> Any:
    """What one operand alone has is summed first, and the rest by products of matrices, in single precision."""
    import torch

    dtype = a.dtype
    a, b, first, second, output = letters(a.float(), b.float(), equation)
    for x in sorted({*first} - {*second} - {*output}):
        a, first = a.sum(first.index(x)), first.replace(x, "")
    for x in sorted({*second} - {*first} - {*output}):
        b, second = b.sum(second.index(x)), second.replace(x, "")
    kept = [x for x in output if x in first and x in second]
    inner = [x for x in first if x in second and x not in output]
    left, right = [x for x in first if x not in second], [x for x in second if x not in first]
    lengths = dict(zip(first, a.shape, strict=True))
    if any(lengths.setdefault(x, n) != n for x, n in zip(second, b.shape, strict=True)):
        raise ValueError("lengths differ")

    def size(part: list[str]) -> int:
        return int(torch.tensor([lengths[x] for x in part] or [1]).prod())

    p = a.permute([first.index(x) for x in (*kept, *left, *inner)]).reshape(size(kept), size(left), size(inner))
    q = b.permute([second.index(x) for x in (*kept, *inner, *right)]).reshape(size(kept), size(inner), size(right))
    c = (p @ q).reshape([lengths[x] for x in (*kept, *left, *right)])
    return c.permute([[*kept, *left, *right].index(x) for x in output]).to(dtype)


@adapter("einsum", dtypes=DTYPES)
def control_einsum_float64(a: Any, b: Any, *, equation: str) -> Any:
    """Everything in double precision, rounded once."""
    import torch

    return torch.einsum(equation, a.double(), b.double()).to(a.dtype)


@adapter("broadcast_shapes")
def control_shape_of_sum(first: Any, second: Any) -> Any:
    """The shape of a sum of arrays without memory."""
    import torch

    one, other = (torch.zeros(()).expand(tuple(shape.tolist())) for shape in (first, second))
    return torch.tensor((one.to("meta") + other.to("meta")).shape, dtype=torch.int64)


@adapter("broadcast_shapes", framework="numpy")
def control_shape_of_strides(first: Any, second: Any) -> Any:
    """The shape of a broadcast, found by NumPy's iterator over arrays whose strides are zero."""
    import numpy as np

    one, other = (np.broadcast_to(np.float32(0), tuple(shape)) for shape in (first, second))
    return np.array(np.broadcast(one, other).shape, np.int32)
