"""Reads outside an array: which array, on which side and how far, found by calls with less and less NaN around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..execution.calling import Call
from ..execution.large import ZONE
from ..subjects.large import LargeSubject


def reads_beyond(
    subject: LargeSubject,
    call: Call,
    shapes: Mapping[str, tuple[int, ...]],
    lost: Callable[[], bool],
    apart: int = 0,
) -> str:
    """Which array a call reads beyond, in words; nothing where NaN comes out whatever is around its arrays.

    Masks lie over so many entries of memory as are `apart`, if there are any.
    `lost` says whether there is NaN in what the last call gave.
    """
    nothing = dict.fromkeys(subject.names, (0, 0))

    def shows(around: Mapping[str, tuple[int, int]]) -> bool:
        return subject.hold(call, shapes, {**nothing, **around}, apart=apart, again=False).fault is None and lost()

    if shows({}):
        return ""
    for name in nothing:
        for side, says in ((0, "in front of"), (1, "behind")):
            if not shows({name: _aside(ZONE, side)}):
                continue
            low, high = 0, ZONE
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if shows({name: _aside(middle, side)}) else (middle, high)
            return f"the call reads {says} {name!r}, {high} entries beyond it"
    return "the call reads beyond its arrays"


def _aside(count: int, side: int) -> tuple[int, int]:
    return (0, count) if side else (count, 0)
