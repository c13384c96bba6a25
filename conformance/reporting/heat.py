"""Arrays as shaded tables: errors by size, and weights next to the expected ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STEPS = (1.0, 1e3, 1e6)
"""Errors in units of the bound beyond which a field is shaded more."""
SHADES = 5
"""Shades of weights beside that of none."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a table: its text, and how it is shaded."""

    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class Grid:
    """A table with a heading for each row and each column."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Field, ...]], ...]


@dataclass(frozen=True, slots=True)
class Heat:
    """What was expected and what was returned, and the error of each entry in units of its bound."""

    at: str
    grids: tuple[Grid, ...]


def heat(field: Mapping[str, Any]) -> Heat:
    """Both sides of a comparison and its errors, as a witness has them."""
    row, column = field["first"]
    kinds = [[_level(x) for x in own] for own in field["units"]]
    columns = tuple(str(column + i) for i in range(max(map(len, kinds), default=0)))
    sides = {"expected": field["expected"], "returned": field["found"]}
    told = {name: [[_number(x) for x in own] for own in rows] for name, rows in sides.items()}
    told["error over bound"] = [[_units(x) for x in own] for own in field["units"]]
    plane = ", ".join([*map(str, field["plane"]), "rows", "columns"])
    plain = [["" for _ in own] for own in kinds]
    grids = tuple(
        _grid(name, columns, row, texts, plain if name == "expected" else kinds) for name, texts in told.items()
    )
    return Heat(f"in {field['case']}, at [{plane}]", grids)


def weights(seen: Mapping[str, Any]) -> tuple[Grid, ...]:
    """The weights of a subject beside those that they should be; nothing where they were not kept."""
    own = {"as they should be": seen.get("definition", ()), "as they are": seen.get("subject", ())}
    if not all(own.values()):
        return ()
    most = max((abs(x) for rows in own.values() for row in rows for x in row if _finite(x)), default=0.0) or 1.0
    grids = []
    for name, rows in own.items():
        kinds = [[_shade(x, most) for x in row] for row in rows]
        columns = tuple(map(str, range(len(rows[0]))))
        grids.append(_grid(name, columns, seen["first"], [[_weight(x) for x in row] for row in rows], kinds))
    return tuple(grids)


def _grid(
    name: str, columns: Sequence[str], first: int, texts: Sequence[Sequence[str]], kinds: Sequence[Sequence[str]]
) -> Grid:
    rows = (
        (str(first + i), tuple(map(Field, own, shades)))
        for i, (own, shades) in enumerate(zip(texts, kinds, strict=True))
    )
    return Grid(name, tuple(columns), tuple(rows))


def _finite(x: Any) -> bool:
    return isinstance(x, int | float) and math.isfinite(x)


def _level(units: float | None) -> str:
    return f"h{sum(units > step for step in STEPS) if units is not None else len(STEPS)}"


def _shade(x: Any, most: float) -> str:
    return "h3" if not _finite(x) else f"p{math.ceil(SHADES * min(1.0, abs(x) / most) - 0.02) if x else 0}"


def _number(x: Any) -> str:
    return f"{x:.4g}" if isinstance(x, float) else str(x).lower() if isinstance(x, bool) else str(x)


def _units(x: float | None) -> str:
    return "∞" if x is None else "0" if x == 0 else f"{x:.2g}" if x < 100 else f"{x:.0e}".replace("e+0", "e")


def _weight(x: Any) -> str:
    return f"{x:.2f}".replace("0.", ".", 1) if _finite(x) and x else "0" if _finite(x) else str(x)
