"""The clock of searches."""

from __future__ import annotations

import time

from attnspec.diagnosis.clock import loading, now


def spend(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def test_the_clock_goes_with_the_cpu_time_of_the_process() -> None:
    start = now()
    spend(0.05)
    assert now() - start >= 0.05


def test_the_clock_stands_while_something_is_loaded() -> None:
    begin, start = time.process_time(), now()
    with loading():
        spend(0.05)
    passed = now() - start
    assert time.process_time() - begin - passed >= 0.05
