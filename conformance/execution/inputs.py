"""The arrays that are passed to a subject: made once for all of its calls, each with a copy that reveals changes.

A subject may keep what it was handed, and write to it in a later call. So no two subjects are handed the same array,
and an array is compared with its twin after its call, now and then later, and before it is handed out again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..frameworks.framework import Framework

SMALL = 1 << 10
"""Entries up to which an array is known by them."""
LARGEST = 1 << 14
"""Entries up to which an array is kept for later calls."""
ROOM = 256
"""Arrays that are kept at a time."""
WATCHED = 1 << 20
"""Entries up to which an array is looked at after the next call as well."""
LOOKS = 4
"""Kept arrays that are looked at after each call, in turn."""


@dataclass(slots=True, eq=False)
class Made:
    """An array of the framework, and its untouched twin."""

    key: tuple[Any, ...]
    source: NDArray[Any]
    array: Any
    pristine: Any
    name: str
    """The input as which it was handed out last."""
    dropped: bool = False
    """Whether it was changed, and is never handed out again."""


class Inputs:
    """The arrays of one subject by their source.

    Small sources are known by their entries, so that they are found again in a worker, which gets copies; larger ones
    by their identity.
    """

    def __init__(self, framework: Framework) -> None:
        self.framework = framework
        self._kept: OrderedDict[tuple[Any, ...], Made] = OrderedDict()
        self._last: tuple[Made, ...] = ()
        self._turn: list[Made] = []
        self._overwritten: list[str] = []

    def make(self, name: str, source: NDArray[Any], dtype: str, device: str, layout: str, index: int) -> Made:
        """The array for an input; `index` is its position."""
        small = source.size <= SMALL
        own = (source.tobytes(), source.dtype.char, source.shape) if small else id(source)
        key = (own, dtype, device, layout, index)
        found = self._kept.get(key)
        if found is not None and self._intact(found):
            found.name = name
            return found
        array = self.framework.make(source, dtype, device, layout, index)
        made = Made(key, source, array, self.framework.make(source, dtype, device, "contiguous", index), name)
        if source.size <= LARGEST:
            self._kept[key] = made
            if len(self._kept) > ROOM:
                self._kept.popitem(last=False)
        return made

    def changed(self, made: Mapping[str, Made]) -> list[str]:
        """The inputs that the call which was handed them has changed."""
        return [name for name, item in made.items() if not self._as_made(item)]

    def overwritten(self, made: Mapping[str, Made]) -> list[str]:
        """The inputs of earlier calls that were changed after those calls had returned, as far as that was seen.

        `made` are those of the call that was made just now.
        """
        own = {id(item) for item in made.values()}
        for item in (*self._last, *self._next()):
            if id(item) not in own:
                self._intact(item)
        found, self._overwritten = self._overwritten, []
        self._last = tuple(item for item in made.values() if item.source.size <= WATCHED)
        return list(dict.fromkeys(found))

    def forget(self) -> None:
        """Let go of all arrays."""
        self._kept.clear()
        self._last, self._turn = (), []

    def _next(self) -> Iterator[Made]:
        for _ in range(min(LOOKS, len(self._kept))):
            self._turn = self._turn or [*self._kept.values()]
            yield self._turn.pop()

    def _intact(self, item: Made) -> bool:
        """Whether an array of an earlier call is as it was made."""
        if not item.dropped and not self._as_made(item):
            self._overwritten.append(item.name)
        return not item.dropped

    def _as_made(self, item: Made) -> bool:
        try:
            same = self.framework.same(item.array, item.pristine)
        except Exception:  # its memory was taken away
            same = False
        if not same:
            item.dropped = True
            self._kept.pop(item.key, None)
        return same


def has_arrays(option: Any) -> bool:
    """Whether an option is an object or a tuple with arrays, which come as lists from other processes."""
    parts = option.values() if isinstance(option, Mapping) else option if isinstance(option, tuple | list) else ()
    return any(isinstance(x, np.ndarray | list) for x in parts)
