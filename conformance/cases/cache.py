"""Results that are computed from a sample and kept for the next subject, within a budget of bytes for all samples.

Each sample has a cache of its own, and another one for what is large and soon computed again, which has its own budget;
where all of a kind outgrow their budget, those are emptied that have not grown for longest.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from ..numerics.numbers import Number
from ..numerics.truths import Truth

BUDGET = 250 << 20
"""Bytes that all caches of results may hold together."""
PASSING_BUDGET = 150 << 20
"""Bytes that all caches of what is soon computed again may hold together."""
OVERHEAD = 200
"""Bytes of a thing beside its arrays."""

PLAIN = frozenset((bool, int, float, str, bytes, type(None)))
"""Types of things without arrays."""


class Ledger:
    """The caches that hold something, last those that have grown last, with what they hold together."""

    def __init__(self, budget: int) -> None:
        self.budget, self.total = budget, 0
        self._grown: OrderedDict[int, weakref.ref[Kept]] = OrderedDict()

    def grown(self, kept: Kept, size: int) -> None:
        """Take note of what a cache has taken in; it is the last one to be emptied."""
        kept.size += size
        self.total += size
        self._grown.setdefault(id(kept), weakref.ref(kept))
        self._grown.move_to_end(id(kept))
        while self.total > self.budget and len(self._grown) > 1:
            oldest = next(iter(self._grown.values()))()
            if oldest is not None:
                oldest.clear()

    def emptied(self, kept: Kept) -> None:
        self.total -= kept.size
        kept.size = 0
        self._grown.pop(id(kept), None)


class Kept(dict[Any, Any]):
    """The cache of one sample. What is in it may be gone as soon as another cache grows, and not before."""

    __slots__ = ("__weakref__", "later", "ledger", "looked_at", "outcomes", "renewed", "saved", "size")

    def __init__(self, ledger: Ledger | None = None) -> None:
        super().__init__()
        self.size, self.ledger = 0, ledger or LEDGER
        self.saved = self.outcomes = 0
        """Values and outcomes that are kept on disk."""
        self.renewed = False
        """Whether an outcome is another one than was kept."""
        self.later: Callable[[], Mapping[Any, Any]] | None = None
        """How values are read from disk, which is left until one is needed."""
        self.looked_at = 0
        """How many things it had when it was last asked what of them is to be kept on disk."""

    def __setitem__(self, key: Any, x: Any) -> None:
        size = size_of(x) - size_of(self[key]) if key in self else size_of(x)
        super().__setitem__(key, x)
        self.ledger.grown(self, size)

    def restore(self, outcomes: Mapping[Any, Any], later: Callable[[], Mapping[Any, Any]]) -> None:
        """Take in the outcomes that are kept on disk, and `later` the values; see `load`."""
        for key, x in outcomes.items():
            self[key] = x
        self.outcomes, self.later = len(outcomes), later

    def load(self) -> None:
        """Take in the values that are kept on disk, for who is about to look for one."""
        if self.later is not None:
            values, self.later = self.later(), None
            for key, x in values.items():
                self[key] = x
            self.saved = len(values)

    def clear(self) -> None:
        super().clear()
        self.ledger.emptied(self)

    def __del__(self) -> None:
        self.ledger.emptied(self)


LEDGER = Ledger(BUDGET)
PASSING = Ledger(PASSING_BUDGET)


def size_of(x: Any) -> int:
    """About how many bytes something holds; what says so itself, by `nbytes`, is asked."""
    kind = type(x)
    if kind is np.ndarray:
        return OVERHEAD + x.nbytes
    if kind in PLAIN:
        return OVERHEAD
    if kind is tuple or kind is list:
        return OVERHEAD + sum(map(size_of, x))
    if kind is Number:
        return OVERHEAD + sum(np.size(part) * 8 for part in (x.value, x.worst, x.variance, x.shared))
    if kind is Truth:
        return OVERHEAD + sum(np.size(part) * 8 for part in (x.can, x.must, x.excess))
    if hasattr(x, "nbytes"):
        return OVERHEAD + int(x.nbytes)
    if isinstance(x, Mapping):
        return OVERHEAD + sum(map(size_of, x.values()))
    if is_dataclass(x):
        return OVERHEAD + sum(size_of(getattr(x, f.name)) for f in fields(x))
    return OVERHEAD
