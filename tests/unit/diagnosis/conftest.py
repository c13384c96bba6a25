"""A clock for tests of searches by which the load of a machine decides nothing."""

import pytest

from attnspec.diagnosis import clock, parting
from attnspec.judging import shrinking

STEP = 0.0001
"""Seconds that pass whenever the clock is read: fewer than searches take between two readings."""


class Steady:
    """Time that passes by being read alone."""

    def __init__(self):
        self.seconds = 0.0

    def process_time(self):
        self.seconds += STEP
        return self.seconds

    monotonic = process_time


@pytest.fixture
def steady(monkeypatch):
    """The limits of searches, and of the search for a small case, by a clock that is the same on every machine."""
    time = Steady()
    for module in (clock, parting, shrinking):
        monkeypatch.setattr(module, "time", time)
