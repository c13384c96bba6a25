"""Rotary positions from a table that is kept, and what goes wrong with the table and with what it turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import Unsupported
from .whole import Whole

_tables: dict[Any, Any] = {}


def key(length: int, width: int, base: float) -> Any:
    """What a table is kept by."""
    return length, width, base


def reach(positions: Any) -> int:
    """How many positions a table has to have, on each side of zero."""
    return int(positions.abs().max()) + 1


def frequencies(width: int, base: float) -> Any:
    import torch

    return base ** (-2 * torch.arange(width // 2, dtype=torch.float64) / width)


def angles(position: Any, frequency: Any) -> Any:
    return (position[:, None] * frequency).float()


def row(table: Any, positions: Any) -> Any:
    """The rows of the positions, zero being in the middle."""
    return table[positions + len(table) // 2]


def turned(first: Any, second: Any, angle: Any) -> tuple[Any, Any]:
    return first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()


def taken(x: Any) -> Any:
    return x.float()


def rotated(part: Any) -> Callable[..., Any]:
    def rotary(
        x: Any, positions: Any, *, base: float = 10000.0, interleaved: bool = False, rotary_dim: int | None = None
    ) -> Any:
        import torch

        width = x.shape[3] if rotary_dim is None else rotary_dim
        length = part.reach(positions)
        own = (id(part), part.key(length, width, base))
        if own not in _tables:
            position = torch.arange(-length, length + 1, dtype=torch.float64)
            _tables[own] = part.angles(position, part.frequencies(width, base))
        angle = part.row(_tables[own], positions)[:, : width // 2]
        angle = torch.nn.functional.pad(angle, (0, width // 2 - angle.shape[1]))  # of a table that is too narrow
        wide = part.taken(x)
        head, rest = wide[..., :width], wide[..., width:]
        if interleaved:
            out = torch.stack(part.turned(head[..., ::2], head[..., 1::2], angle), -1).flatten(-2)
        else:
            out = torch.cat(part.turned(head[..., : width // 2], head[..., width // 2 :], angle), -1)
        return torch.cat([out, rest], -1).to(x.dtype)

    return rotary


ROTARY = Whole("rotary", rotated, (key, reach, frequencies, angles, row, turned, taken), {"pair_place": "kept"})


@ROTARY.instead_of(key, seen="huggingface/transformers#46624, huggingface/transformers#27227")
def table_of_another_base(length: int, width: int, base: float) -> Any:
    """A table is kept by its length and width, and a later call with another base finds it."""
    return length, width


@ROTARY.instead_of(key)
def table_of_another_width(length: int, width: int, base: float) -> Any:
    """A table is kept by its length and base, and cut to a width that it was not made for."""
    return length, base


@ROTARY.instead_of(angles, seen="huggingface/transformers#29285")
def table_in_bfloat16(position: Any, frequency: Any) -> Any:
    """The angles are kept in bfloat16, and neighbouring positions have one."""
    return (position[:, None] * frequency).bfloat16().float()


@ROTARY.instead_of(angles, dtypes=("float32",))
def table_by_running_sum(position: Any, frequency: Any) -> Any:
    """The angles are added up from position to position in single precision, and drift."""
    steps = frequency.float().expand(len(position), -1)
    return steps.cumsum(0) - steps.cumsum(0)[len(position) // 2]


@ROTARY.instead_of(row)
def table_without_a_middle(table: Any, positions: Any) -> Any:
    """Rows are counted from the start of a table whose zero is in the middle, and negative ones from its end."""
    return table[len(table) // 2 :][positions.clamp_min(0)]


@ROTARY.instead_of(turned)
def second_from_turned_first(first: Any, second: Any, angle: Any) -> tuple[Any, Any]:
    """The first channels are overwritten before the second ones are computed from them."""
    left = first * angle.cos() - second * angle.sin()
    return left, second * angle.cos() + left * angle.sin()


@ROTARY.instead_of(turned, dtypes=("float32",))
def turned_in_half_precision(first: Any, second: Any, angle: Any) -> tuple[Any, Any]:
    """Sines and cosines are kept in float16."""
    cos, sin = angle.cos().half().float(), angle.sin().half().float()
    return first * cos - second * sin, second * cos + first * sin


@ROTARY.instead_of(turned, seen="ml-explore/mlx-lm#1003, unslothai/unsloth#5001", dtypes=("float32",))
def turned_in_place(first: Any, second: Any, angle: Any) -> tuple[Any, Any]:
    """What is turned is written over the input, where a conversion to float32 is no copy."""
    left, right = turned(first, second, angle)
    return first.copy_(left), second.copy_(right)


@ROTARY.instead_of(taken)
def read_as_contiguous(x: Any) -> Any:
    """Tokens are read by the strides of a contiguous array."""
    import torch

    whole = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())[x.storage_offset() :]
    return whole[torch.arange(x.numel()) % len(whole)].reshape(x.shape).float()


# Frequencies that change with the length


def grown(length: int, trained: int) -> float:
    """How many times as long as the trained length a sequence is, and one at least."""
    return max(length / trained, 1.0)


def powers(base: float, width: int) -> Any:
    import torch

    return base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


def stored(frequency: Any) -> Any:
    """How frequencies are kept with a model."""
    return frequency.float()


def scaled(part: Any) -> Callable[..., Any]:
    def rotary_frequencies(
        *, kind: str, dim: int, base: float = 10000.0, factor: float = 4.0, trained: int = 2048, length: int = 1
    ) -> Any:
        if kind not in ("default", "linear", "dynamic"):
            raise Unsupported("these are the kinds that need no bands")
        if dim % 2 or base <= 1:
            raise ValueError("channels come in pairs, and the base is above one")
        if kind == "dynamic":
            base *= (factor * part.grown(length, trained) - factor + 1) ** (dim / (dim - 2))
        frequency = part.stored(part.powers(base, dim)) / (factor if kind == "linear" else 1.0)
        return {"frequencies": frequency, "scaling": 1.0}

    return rotary_frequencies


SCALED = Whole("rotary_frequencies", scaled, (grown, powers, stored))
_longest: dict[int, int] = {}


@SCALED.instead_of(grown, dtypes=("float32",))
def never_shrunk(length: int, trained: int) -> float:
    """After a long sequence, shorter ones are turned by its frequencies as well."""
    _longest[trained] = max(_longest.get(trained, 0), length)
    return grown(_longest[trained], trained)


@SCALED.instead_of(powers, dtypes=("float32",))
def powers_in_half_precision(base: float, width: int) -> Any:
    """The exponents are kept in float16."""
    import torch

    return base ** -(torch.arange(0, width, 2, dtype=torch.float64) / width).half().double()


@SCALED.instead_of(stored, seen="huggingface/transformers#29285", dtypes=("float32",))
def frequencies_in_bfloat16(frequency: Any) -> Any:
    """The frequencies are converted with the weights of the model, to bfloat16."""
    return frequency.bfloat16().float()
