"""Comparing numbers that carry an error: true, false or undecided, and how far from holding."""

import numpy as np
import pytest

from attnspec.numerics.comparing import recording
from attnspec.numerics.numbers import Number
from attnspec.numerics.truths import Truth

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # infinities are as in a run


def verdict(t: Truth) -> str:
    return {(True, True): "yes", (True, False): "maybe", (False, False): "no"}[bool(t.can), bool(t.must)]


@pytest.mark.parametrize(
    ("x", "y", "equal", "less", "at_most"),
    [
        (1.0, 2.0, "no", "yes", "yes"),
        (2.0, 1.0, "no", "no", "no"),
        (1.0, 1.1, "maybe", "maybe", "maybe"),
        (1.1, 1.0, "maybe", "maybe", "maybe"),
        (1.0, 1.0, "maybe", "maybe", "maybe"),
        (np.inf, np.inf, "yes", "no", "yes"),
        (-np.inf, np.inf, "no", "yes", "yes"),
        (1.0, np.inf, "no", "yes", "yes"),
        (np.nan, np.nan, "yes", "no", "no"),
        (np.nan, 1.0, "no", "no", "no"),
        (np.inf, np.nan, "no", "no", "no"),
    ],
)
def test_comparison_is_undecided_where_the_bounds_meet(x: float, y: float, equal: str, less: str, at_most: str) -> None:
    a, b = Number.within([x], np.array([0.1])), Number.within([y], np.array([0.1]))
    opposite = {"yes": "no", "no": "yes", "maybe": "maybe"}
    actual = [verdict(t) for t in (a == b, a != b, a < b, a <= b, b > a, b >= a)]
    assert [equal, opposite[equal], less, at_most, less, at_most] == actual


def test_exact_numbers_compare_as_plain_ones_do() -> None:
    a = Number([1.0, 1.0, np.nan])
    assert [True, False, True] == (a == np.array([1.0, 2.0, np.nan])).must.tolist()
    assert [True, False, False] == (a < np.array([2.0, 1.0, np.nan])).can.tolist()


def test_a_comparison_measures_its_gap_in_units_of_the_bound() -> None:
    a, b = Number.within([1.0, 1.0, 1.0], np.array([0.1, 0.1, 0.1])), Number.within([1.05, 1.5, 1.0], np.asarray(0.1))
    with recording() as records:
        claim = a == b
    assert pytest.approx([0.25, 2.5, 0.0]) == claim.excess.tolist()
    assert pytest.approx(2.5) == claim.worst
    assert [pytest.approx([0.2, 0.2, 0.2])] == [record.radius.tolist() for record in records]


def test_nothing_is_recorded_outside_and_an_inner_recording_is_apart() -> None:
    a = Number.within([1.0], np.asarray(0.1))
    with recording() as outer:
        with recording() as inner:
            assert (a == 1).can.all()
        assert (a == 1).can.all()
    assert (a == 1).can.all()
    assert (1, 1) == (len(outer), len(inner))
