"""What is computed from a sample and kept for the next subject, all samples together within a budget of bytes.

Each sample has a cache of its own; where all of them outgrow the budget, those are emptied that have not grown for
longest.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from .numbers import Number
from .truths import Truth

BUDGET = 400 << 20
"""Bytes that all caches may hold together."""
OVERHEAD = 200
"""Bytes of a thing beside its arrays."""

_grown: OrderedDict[int, weakref.ref[Kept]] = OrderedDict()
"""The caches that hold something, last those that have grown last."""
_total = 0


class Kept(dict[Any, Any]):
    """The cache of one sample. What is put in may be gone as soon as another cache grows, but never before."""

    __slots__ = ("__weakref__", "size")

    def __init__(self) -> None:
        super().__init__()
        self.size = 0

    def __setitem__(self, key: Any, x: Any) -> None:
        global _total
        size = 0 if key in self else size_of(x)
        super().__setitem__(key, x)
        self.size += size
        _total += size
        if id(self) not in _grown:
            _grown[id(self)] = weakref.ref(self)
        _grown.move_to_end(id(self))
        while _total > BUDGET and len(_grown) > 1:
            oldest = next(iter(_grown.values()))()
            if oldest is not None:
                oldest.clear()

    def clear(self) -> None:
        super().clear()
        self._forgotten()

    def __del__(self) -> None:
        self._forgotten()

    def _forgotten(self) -> None:
        global _total
        _total -= self.size
        self.size = 0
        _grown.pop(id(self), None)


def size_of(x: Any) -> int:
    """About how many bytes something holds; what says so itself, by `nbytes`, is asked."""
    if isinstance(x, Number):
        return OVERHEAD + sum(np.size(part) * 8 for part in (x.value, x.worst, x.variance, x.shared))
    if isinstance(x, Truth):
        return OVERHEAD + sum(np.size(part) * 8 for part in (x.can, x.must, x.excess))
    if hasattr(x, "nbytes"):
        return OVERHEAD + int(x.nbytes)
    if isinstance(x, Mapping):
        return OVERHEAD + sum(map(size_of, x.values()))
    if isinstance(x, tuple | list):
        return OVERHEAD + sum(map(size_of, x))
    if is_dataclass(x):
        return OVERHEAD + sum(size_of(getattr(x, f.name)) for f in fields(x))
    return OVERHEAD
