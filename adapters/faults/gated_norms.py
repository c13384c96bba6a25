"""Gated normalisation in groups, tile by tile as kernels take it, and what goes wrong with tiles, strides and sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.norms import gate_of
from .whole import Whole

LANES = 16
"""Channels that a program reads at a time, whatever the size of a group is."""


def rows(x: Any) -> Any:
    """All tokens one below the other: [batch * length, n]."""
    return x.float().reshape(-1, x.shape[-1])


def gates(gate: Any, activation: str) -> Any:
    return gate_of(rows(gate), activation)


def of_group(y: Any, first: int, members: int) -> Any:
    """The channels of a group: [batch * length, members]."""
    return y[:, first : first + members]


def mean_square(part: Any) -> Any:
    """[batch * length, 1], summed in stretches of lanes."""
    return sum(lanes.square().sum(-1, keepdim=True) for lanes in part.split(LANES, -1)) / part.shape[-1]


def root(square: Any, eps: float) -> Any:
    return (square + eps).sqrt()


def gated_norm(part: Any) -> Callable[..., Any]:
    def gated_rms_norm(
        x: Any,
        gate: Any,
        weight: Any,
        *,
        groups: int = 1,
        norm_before_gate: bool = False,
        activation: str = "silu",
        eps: float = 1e-5,
    ) -> Any:
        import torch

        opened = part.gates(gate, activation)
        y = part.rows(x) if norm_before_gate else part.rows(x) * opened
        members = x.shape[-1] // groups
        normed = [
            part.of_group(y, first, members)[:, :members]
            / part.root(part.mean_square(part.of_group(y, first, members)), eps)
            for first in range(0, x.shape[-1], members)
        ]
        out = torch.cat(normed, -1) * weight.float()
        return (out * opened if norm_before_gate else out).to(x.dtype).reshape(x.shape)

    return gated_rms_norm


GATED_NORM = Whole("gated_rms_norm", gated_norm, (rows, gates, of_group, mean_square, root))


@GATED_NORM.instead_of(of_group)
def lanes_of_the_next_group(y: Any, first: int, members: int) -> Any:
    """A tile is as wide as a power of two, and what is beyond a group is that of the next one."""
    return y[:, first : first + (1 << (members - 1).bit_length())]


@GATED_NORM.instead_of(rows)
def rows_by_their_width(x: Any) -> Any:
    """Tokens are read one after the other, whatever lies between them."""
    import torch

    whole = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())[x.storage_offset() :]
    return whole[torch.arange(x.numel()) % len(whole)].reshape(-1, x.shape[-1]).float()


@GATED_NORM.instead_of(gates)
def gates_of_the_first_item(gate: Any, activation: str) -> Any:
    """Gates are read without the stride of the batch."""
    return gates(gate[:1].expand_as(gate), activation)


@GATED_NORM.instead_of(gates, dtypes=("float32",))
def gates_in_half_precision(gate: Any, activation: str) -> Any:
    """The function of the gate is stored in bfloat16."""
    return gates(gate, activation).bfloat16().float()


@GATED_NORM.instead_of(gates)
def gates_by_a_quotient(gate: Any, activation: str) -> Any:
    """The sigmoid is exp(z) / (1 + exp(z)), and infinity is divided by infinity."""
    z = rows(gate)
    passed = z.exp() / (1 + z.exp())
    return z * passed if activation == "silu" else passed


@GATED_NORM.instead_of(mean_square)
def first_lanes_alone(part: Any) -> Any:
    """A program sums the channels that it reads at once, and leaves the rest out."""
    return part[:, :LANES].square().sum(-1, keepdim=True) / part.shape[-1]


@GATED_NORM.instead_of(mean_square, dtypes=("float16",))
def squares_of_groups_overflow(part: Any) -> Any:
    """Squares are taken in the dtype of the inputs, where those of large entries are infinite."""
    return mean_square(part).half().float()


_roots: dict[tuple[int, ...], Any] = {}


@GATED_NORM.instead_of(root)
def roots_of_an_earlier_call(square: Any, eps: float) -> Any:
    """The roots of the first call of a shape serve later ones."""
    return _roots.setdefault(tuple(square.shape), root(square, eps))
