"""What arguments cost: their entries, and more for those that carry errors."""

from typing import Any

import numpy as np
import pytest

from attnspec.language.charging import charge_each_of, charged
from attnspec.numerics.budget import CARRIED, OPERATION, OverspentError, metered
from attnspec.numerics.numbers import Number
from attnspec.numerics.truths import Truth

PLAIN = np.ones((3, 5))
CARRYING = Number.within(PLAIN, np.asarray(0.1))
ARGUMENTS = [(PLAIN, 15), (CARRYING, 15 * CARRIED), (2.0, 1), (Truth(PLAIN > 0, PLAIN > 0), 15), (None, 1)]


@pytest.mark.parametrize(("x", "cost"), ARGUMENTS)
def test_an_operand_costs_its_entries_and_comes_back(x: Any, cost: int) -> None:
    with metered(100, cost + OPERATION):
        assert x is charged(x)
    with metered(100, cost + OPERATION - 1), pytest.raises(OverspentError):
        charged(x)


@pytest.mark.parametrize(("x", "cost"), ARGUMENTS)
def test_arguments_cost_their_entries_times_the_work_of_a_function(x: Any, cost: int) -> None:
    work = 2 * (3 * cost + OPERATION)
    with metered(100, work):
        charge_each_of([x, x], 3)
    with metered(100, work - 1), pytest.raises(OverspentError):
        charge_each_of([x, x], 3)
