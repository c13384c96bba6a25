"""Gradients of gated feed-forward layers: what goes wrong with memory that is used again, blocks and precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .whole import Whole

ROWS = 4
"""Tokens of a block."""


def products(x: Any, w: Any) -> Any:
    """A product of the forward pass, as it was kept."""
    return x.float() @ w.float()


def cotangent(d_out: Any) -> Any:
    """The cotangent as it is read."""
    return d_out.float()


def opening(z: Any) -> Any:
    """What a gate becomes, and its slope there."""
    import torch

    share = torch.sigmoid(z)
    return z * share, share * (1 + z * (1 - share))


def blocks(tokens: Any) -> list[Any]:
    """Tokens, block by block."""
    return list(tokens.split(ROWS))


def summed(left: list[Any], right: list[Any]) -> Any:
    """The gradient of a matrix, from blocks of both of its sides."""
    return sum(a.mT @ b for a, b in zip(left, right, strict=True))


def by_blocks(part: Any) -> Callable[..., Any]:
    def swiglu_gradient(x: Any, w_gate: Any, w_up: Any, w_down: Any, d_out: Any) -> dict[str, Any]:
        tokens, d = (y.reshape(-1, y.shape[-1]) for y in (x, part.cotangent(d_out)))
        gate, up = part.products(tokens, w_gate), part.products(tokens, w_up)
        opened, slope = part.opening(gate)
        d_h = d @ w_down.float().mT
        d_up, d_gate = d_h * opened, d_h * up * slope
        rows = part.blocks(tokens.float())
        found = {
            "d_x": (d_gate @ w_gate.float().mT + d_up @ w_up.float().mT).reshape(x.shape),
            "d_w_gate": part.summed(rows, part.blocks(d_gate)),
            "d_w_up": part.summed(rows, part.blocks(d_up)),
            "d_w_down": part.summed(part.blocks(opened * up), part.blocks(d)),
        }
        return {name: gradient.to(x.dtype) for name, gradient in found.items()}

    return swiglu_gradient


LAYER = Whole("swiglu_gradient", by_blocks, (products, cotangent, opening, blocks, summed))
_kept: dict[tuple[int, ...], Any] = {}


@LAYER.instead_of(products)
def products_of_an_earlier_call(x: Any, w: Any) -> Any:
    """The products are those of the first call with arrays of these shapes."""
    key = (*x.shape, *w.shape)
    return products(_kept.setdefault(key, x.clone()), w)


@LAYER.instead_of(cotangent)
def cotangent_written_over(d_out: Any) -> Any:
    """The cotangent is scaled where it lies."""
    found = d_out.float()
    d_out.mul_(2)
    return found


@LAYER.instead_of(cotangent, dtypes=("float32",))
def cotangent_in_bfloat16(d_out: Any) -> Any:
    """The cotangent is read in bfloat16."""
    return d_out.bfloat16().float()


@LAYER.instead_of(cotangent)
def cotangent_by_its_memory(d_out: Any) -> Any:
    """The cotangent is read as it lies in memory, whatever its strides are."""
    if d_out.is_contiguous() or 0 in d_out.stride() or d_out.storage_offset():
        return d_out.float()
    return d_out.as_strided(d_out.shape, d_out.new_empty(d_out.shape).stride()).float()


@LAYER.instead_of(opening)
def slope_by_two_exponentials(z: Any) -> Any:
    """The slope is a quotient of exponentials, which overflow at large gates."""
    import torch

    grown = torch.exp(z)
    share = torch.sigmoid(z)
    return z * share, grown * (1 + z + grown) / (1 + grown) ** 2


@LAYER.instead_of(opening, dtypes=("float32",))
def slope_in_half_precision(z: Any) -> Any:
    """The slope is kept in float16."""
    opened, slope = opening(z)
    return opened, slope.half().float()


@LAYER.instead_of(opening)
def slope_by_a_difference(z: Any) -> Any:
    """The slope is a difference quotient of a thousandth."""
    import torch

    silu = torch.nn.functional.silu
    return silu(z), (silu(z + 1e-3) - silu(z)) * 1e3


@LAYER.instead_of(blocks)
def last_block_of_tokens_missing(tokens: Any) -> list[Any]:
    """A last block that is not full adds nothing to the gradients of the matrices."""
    found = list(tokens.split(ROWS))
    return found if len(found) < 2 or not len(tokens) % ROWS else found[:-1]


@LAYER.instead_of(summed)
def first_block_twice(left: list[Any], right: list[Any]) -> Any:
    """The sums begin with what the first block has left in them already."""
    return summed(left, right) + (left[0].mT @ right[0] if len(left) > 1 else 0)


@LAYER.instead_of(summed, dtypes=("float32",))
def sums_in_bfloat16(left: list[Any], right: list[Any]) -> Any:
    """What the blocks add up to is kept in bfloat16."""
    total = (left[0].mT @ right[0]).bfloat16()
    for a, b in zip(left[1:], right[1:], strict=True):
        total = total + (a.mT @ b).bfloat16()
    return total.float()
