"""What the arguments of a function cost, by their sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..numerics.budget import (
    CARRIED,
    SINGLE,
    charge,
    charge_each,
)
from ..numerics.numbers import Number


def charge_each_of(values: Sequence[Any], work: int) -> None:
    """Account for all arguments of a function: what it makes of them is at most as large, or charged by itself."""
    sizes = []
    for x in values:
        kind = type(x)
        if kind is np.ndarray:
            sizes.append((x.size, work))
        elif kind in SINGLE:
            sizes.append((1, work))
        elif kind is Number:
            sizes.append((x.value.size, work * CARRIED))
        else:
            sizes.append((math.prod(getattr(x, "shape", ())), work))
    charge_each(sizes)


def charged(x: Any) -> Any:
    """The operand of a sign or of `not`, which is accounted for."""
    kind = type(x)
    if kind is np.ndarray:
        charge(x.size)
    elif kind is Number:
        charge(x.value.size, CARRIED)
    else:
        charge(math.prod(getattr(x, "shape", ())))
    return x
