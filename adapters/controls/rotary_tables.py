"""Right, but different: tables of cosines and sines as people make them, none of which a law may accuse."""

from __future__ import annotations

from typing import Any

from .. import adapter
from .positions import by_repetition


def laid_out(x: Any, columns: str) -> Any:
    """A column of each pair [..., dim / 2] as a table has them: [..., dim], or as it is."""
    import torch

    if columns == "of_pairs":
        return x
    return torch.cat((x, x), -1) if columns == "in_halves" else x.repeat_interleave(2, -1)


def checked(dim: int, base: float, factor: float) -> None:
    """What has no tables is a `ValueError`."""
    if dim < 2 or dim % 2 or base <= 0 or factor <= 0:
        raise ValueError("channels come in pairs, and the base and the factor are above zero")


@adapter("rotary_tables", dtypes=("float32",))
def control_tables_complex(
    positions: Any,
    *,
    dim: int,
    base: float = 10000.0,
    columns: str = "in_halves",
    factor: float = 1.0,
    scaling: float = 1.0,
) -> Any:
    """In double precision, as the parts of complex numbers whose size is the scaling, rounded once."""
    import torch

    checked(dim, base, factor)
    frequency = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim) / factor
    angle = positions[..., None].double() * frequency
    turns = torch.polar(torch.full_like(angle, scaling), angle)
    return {name: laid_out(x.float(), columns) for name, x in (("cosines", turns.real), ("sines", turns.imag))}


@adapter("rotary_tables", dtypes=("float32",))
def control_tables_by_rows(
    positions: Any,
    *,
    dim: int,
    base: float = 10000.0,
    columns: str = "in_halves",
    factor: float = 1.0,
    scaling: float = 1.0,
) -> Any:
    """Row by row in single precision, with frequencies by repeated multiplication and divided positions."""
    import torch

    checked(dim, base, factor)
    frequency, batch = by_repetition(base, dim), len(positions)
    cosines, sines = (torch.empty(*positions.shape, dim // 2 if columns == "of_pairs" else dim) for _ in range(2))
    for item in range(batch):
        for place, position in enumerate(positions[item].tolist()):
            angle = frequency * (position / factor)
            cosines[item, place] = laid_out(angle.cos() * scaling, columns)
            sines[item, place] = laid_out(angle.sin() * scaling, columns)
    return {"cosines": cosines, "sines": sines}
