"""The time that an explanation takes: CPU seconds of this process, without what is loaded once in it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

GRACE = 1.2
"""CPU time in which what was found in time may be confirmed still."""
_loaded = [0.0]


def now() -> float:
    """The clock of all limits of a search, in seconds."""
    return time.process_time() - _loaded[0]


@contextmanager
def loading() -> Iterator[None]:
    """For what is loaded at first, such as a framework: the clock stands."""
    start = time.process_time()
    try:
        yield
    finally:
        _loaded[0] += time.process_time() - start
