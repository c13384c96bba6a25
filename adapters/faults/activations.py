"""Gated activations, a vector of entries at a time as kernels take them, and what goes wrong with reads and types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.activations import ROOT, parted
from .whole import Whole, in_memory

VECTOR = 8
"""Entries that a thread reads at a time."""


def rows(x: Any) -> Any:
    """All tokens one below the other: [tokens, 2 n]."""
    return x.reshape(-1, x.shape[-1])


def read(x: Any, order: str) -> Any:
    """Gates and their partners [tokens, n], in single precision."""
    gate, up = parted(x, order)
    return gate.float(), up.float()


def cut(gate: Any, up: Any, limit: float | None, limit_opened: bool) -> Any:
    if limit is None:
        return gate, up
    return gate if limit_opened else gate.clamp(max=limit), up.clamp(-limit, limit)


def cube(gate: Any) -> Any:
    """What the tangent of the approximate GELU is taken of."""
    return ROOT * (gate + 0.044715 * gate * gate * gate)


def share(bent: Any, gate: Any, activation: str, alpha: float) -> Any:
    import torch

    if activation == "silu":
        return torch.sigmoid(alpha * gate)
    return 0.5 * (1 + (torch.erf(gate * 0.5**0.5) if activation == "gelu" else torch.tanh(bent)))


def vectors(opened: Any, up: Any) -> Any:
    """The products, so many entries at a time, the last ones with the lanes that are left."""
    import torch

    return torch.cat([a * b for a, b in zip(opened.split(VECTOR, -1), up.split(VECTOR, -1), strict=True)], -1)


def activated(part: Any) -> Callable[..., Any]:
    def gated_activation(
        x: Any,
        *,
        activation: str = "silu",
        order: str = "gate_first",
        alpha: float = 1.0,
        beta: float = 0.0,
        limit: float | None = None,
        limit_opened: bool = False,
    ) -> Any:
        gate, up = part.read(part.rows(x), order)
        gate, up = part.cut(gate, up, limit, limit_opened)
        opened = gate * part.share(part.cube(gate), gate, activation, alpha)
        if limit is not None and limit_opened:
            opened = opened.clamp(max=limit)
        return part.vectors(opened, up + beta).to(x.dtype).reshape(*x.shape[:-1], -1)

    return gated_activation


ACTIVATED = Whole("gated_activation", activated, (rows, read, cut, cube, share, vectors))


@ACTIVATED.instead_of(rows)
def activation_rows_by_their_width(x: Any) -> Any:
    """Tokens are read one after the other, whatever lies between them."""
    return in_memory(x, x.shape).reshape(-1, x.shape[-1])


@ACTIVATED.instead_of(vectors)
def whole_vectors_alone(opened: Any, up: Any) -> Any:
    """Entries beyond the last whole vector are left as they were in a buffer of zeros."""
    import torch

    out, n = torch.zeros_like(opened), max(opened.shape[-1] // VECTOR * VECTOR, min(VECTOR, opened.shape[-1]))
    out[..., :n] = vectors(opened[..., :n], up[..., :n])
    return out


@ACTIVATED.instead_of(vectors)
def last_vector_reads_on(opened: Any, up: Any) -> Any:
    """The last vector reads the partners of the first entries, for those that are left are fewer than its lanes."""
    import torch

    left = opened.shape[-1] % VECTOR if opened.shape[-1] > VECTOR else 0
    wrong = torch.cat((up[..., : up.shape[-1] - left], up[..., :left]), -1)
    return vectors(opened, wrong)


@ACTIVATED.instead_of(share)
def activation_by_a_quotient(bent: Any, gate: Any, activation: str, alpha: float) -> Any:
    """The sigmoid is exp(z) / (1 + exp(z)), and infinity is divided by infinity."""
    power = (alpha * gate).exp()
    return power / (1 + power) if activation == "silu" else share(bent, gate, activation, alpha)


@ACTIVATED.instead_of(share, dtypes=("float32",))
def opening_in_half_precision(bent: Any, gate: Any, activation: str, alpha: float) -> Any:
    """What a gate lets through is stored in bfloat16."""
    return share(bent, gate, activation, alpha).bfloat16().float()


@ACTIVATED.instead_of(cube)
def tangent_by_exponentials(gate: Any) -> Any:
    """The tangent is (exp(2 z) - 1) / (exp(2 z) + 1), and infinity is divided by infinity."""
    power = (2 * cube(gate)).exp()
    return ((power - 1) / (power + 1)).atanh()


@ACTIVATED.instead_of(cube, dtypes=("float16",))
def cubes_overflow(gate: Any) -> Any:
    """Cubes are taken in half precision, where those of large gates are infinite, and infinity is taken off itself."""
    narrow = gate.half()
    return cube(gate) + (narrow * narrow * narrow - narrow * narrow * narrow).float()


_opened: dict[tuple[int, ...], Any] = {}


@ACTIVATED.instead_of(read)
def gates_of_an_earlier_call(x: Any, order: str) -> Any:
    """The gates of the first call of a shape serve later ones."""
    gate, up = read(x, order)
    return _opened.setdefault(tuple(x.shape), gate), up
