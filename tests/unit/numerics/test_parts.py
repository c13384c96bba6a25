"""The parts of an error, most of which are absent."""

import numpy as np
import pytest

from attnspec.numerics.parts import MANY, absent, added, all_finite, finite

PART = np.array([1.0, 2.0])


def test_an_absent_error_adds_nothing_and_is_not_computed_with():
    assert (True, False, False) == (absent(0.0), absent(PART), absent(np.float64(0)))
    assert PART is added(0.0, PART) is added(PART, 0.0)
    assert 0.0 == added(0.0, 0.0)
    assert [2.0, 4.0] == added(PART, PART).tolist()


def test_what_is_not_finite_counts_as_zero():
    assert [1.0, 0.0, 0.0, 0.0] == finite(np.array([1.0, np.inf, -np.inf, np.nan])).tolist()
    assert PART is finite(PART)


@pytest.mark.parametrize("size", [3, MANY + 1])
@pytest.mark.parametrize(("entry", "expected"), [(1.0, True), (np.inf, False), (np.nan, False), (1e308, True)])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the sum of large entries is over the largest
def test_one_entry_decides_whether_all_are_finite_and_a_sum_that_overflows_does_not(size, entry, expected):
    x = np.ones(size)
    x[-2:] = entry
    assert expected is bool(all_finite(x))
