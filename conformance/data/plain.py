"""What a run stores: data of exact types and safe texts, which any process can send and any file can hold."""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping
from typing import Any

from .texts import safe, safe_lines, told

LONGEST = 4000
"""Characters of one text that are kept."""
TRACE = 60
"""Lines of a trace that are kept."""
SEVERAL = ("trace", "holds")
"""Names of texts that have several lines."""


def storable(x: Any, name: str = "") -> Any:
    """The same data as JSON has it: no subclass of anything, no lone surrogate, no control character.

    Raises `ValueError` for a number that JSON lacks, and `TypeError` for what is not data.
    """
    if x is None or isinstance(x, bool):
        return x
    if isinstance(x, str):
        x = str.__str__(x)
        return safe_lines(x, TRACE, LONGEST) if name in SEVERAL else safe(x, LONGEST)
    if isinstance(x, int):
        return int(x)
    if isinstance(x, float):
        if not math.isfinite(x):
            raise ValueError(f"{name or 'a number'} is {x}, which JSON does not have")
        return float(x)
    if isinstance(x, Mapping):
        return {safe(str(key), LONGEST): storable(part, str(key)) for key, part in x.items()}
    if isinstance(x, list | tuple):
        return [storable(part, name) for part in x]
    raise TypeError(f"{name or 'a part'} of a record is a {type(x).__name__}")


def cause_of(error: BaseException) -> str:
    """What went wrong inside attnspec, in one line."""
    return f"{type(error).__name__}: {told(error)}"


def trace_of(error: BaseException) -> str:
    """Where it went wrong."""
    return safe_lines("".join(traceback.format_exception(error)), TRACE, LONGEST)
