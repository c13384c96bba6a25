"""A call that is repeated while other threads make other calls, and the differences that appear."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

THREADS = 2
"""Threads that make other calls meanwhile."""
SWITCHING = 2e-5
"""Seconds after which another thread has its turn."""
PATIENCE = 10.0
"""Seconds in which a thread is to have made its last call."""


@dataclass(frozen=True, slots=True)
class Pressed:
    """What came of turns beside other threads."""

    result: Any
    """What the turn gave that differs most from the call by itself; that of the last one, if none differs."""
    says: str
    """How often which entries were others; nothing if none ever was."""


def pressed(
    turns: int,
    call: Callable[[], Any],
    beside: Callable[[], Any],
    entries: Callable[[Any], Mapping[str, Any] | None],
) -> Pressed:
    """Make a `call` so many times, while threads make one `beside` it.

    `entries` are those of a result by output, or None for a fault, which ends the turns.
    """
    alone = entries(call())
    worst, apart, changed = None, -1.0, 0
    ever: dict[str, Any] = {}
    for turn, result in _turns(turns, call, beside):
        found = entries(result)
        if alone is None or found is None:
            return Pressed(result, f"no result in turn {turn + 1} of {turns}")
        other = {name: _others(found[name], x) for name, x in alone.items() if name in found}
        changed += any(each.any() for each in other.values())
        ever = {name: each | ever.get(name, False) for name, each in other.items()}
        distance = max((_apart(found[name], x) for name, x in alone.items() if name in found), default=0.0)
        if distance > apart:
            worst, apart = result, distance
    counts = [f"{int(each.sum())} of {each.size} entries of {name!r}" for name, each in ever.items() if each.any()]
    says = f"others in {changed} of {turns} turns beside {THREADS} threads: {', '.join(counts)}" if changed else ""
    return Pressed(worst, says)


def _turns(turns: int, call: Callable[[], Any], beside: Callable[[], Any]) -> Iterator[tuple[int, Any]]:
    """The results of so many calls, each while threads make others."""
    with _threads(beside):
        for turn in range(turns):
            yield turn, call()


@contextmanager
def _threads(beside: Callable[[], Any]) -> Iterator[None]:
    over, interval = threading.Event(), sys.getswitchinterval()

    def work() -> None:
        while not over.is_set():
            with suppress(Exception):
                beside()

    workers = [threading.Thread(target=work, daemon=True) for _ in range(THREADS)]
    sys.setswitchinterval(SWITCHING)
    try:
        for worker in workers:
            worker.start()
        yield
    finally:
        over.set()
        for worker in workers:
            worker.join(PATIENCE)
        sys.setswitchinterval(interval)


def _others(x: Any, y: Any) -> Any:
    """Which entries have other bits; all of them where the shapes are others."""
    if x.shape != y.shape:
        return np.ones(y.shape, bool)
    return ~((x == y) | (np.isnan(x) & np.isnan(y))) if x.dtype.kind == "f" else x != y


def _apart(x: Any, y: Any) -> float:
    """How far entries are from those of the call by itself."""
    other = _others(x, y)
    if not other.any():
        return 0.0
    if x.shape != y.shape:
        return np.inf
    with np.errstate(all="ignore"):
        gaps = np.abs(x[other].astype(float) - y[other])
    return float(np.where(np.isnan(gaps), np.inf, gaps).max())
