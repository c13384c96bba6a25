"""Numbers carry their rounding error: the value is that of float64, and the bound holds what narrow arithmetic does."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnspec.numerics.formats import FLOAT32, rounded
from attnspec.numerics.grades import BF16, BF16_NAIVE, FP16, FP16_NAIVE, FP32, FP64, TF32, Grade
from attnspec.numerics.numbers import Number, aligned, common, flushed, number, value
from attnspec.numerics.parts import K
from attnspec.numerics.primitives import total

OPERATIONS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # infinities and zeros are as in a run

GRADES = (FP32, TF32, BF16, FP16, BF16_NAIVE, FP16_NAIVE)
every_operation = pytest.mark.parametrize("operate", OPERATIONS.values(), ids=OPERATIONS.keys())
every_grade = pytest.mark.parametrize("grade", GRADES, ids=str)
singles = st.floats(-1000, 1000, width=32)
entries = st.lists(st.tuples(singles, singles.filter(lambda y: abs(y) > 1e-3)), min_size=1, max_size=8)


def arithmetic(x: Any, grade: Grade) -> Any:
    """A result of float64 as an operation of that grade leaves it."""
    y = rounded(np.asarray(x, float), grade.arithmetic)
    return y if grade.stored is None else rounded(y, grade.stored)


def exceeded(actual: Any, bounded: Number, bound: Any = None) -> float:
    """The largest error in units of the bound, the worst-case one unless another is given."""
    bound = bounded.full(bounded.worst if bound is None else bound)
    error = np.where(np.isinf(bound), 0.0, np.abs(actual - bounded.value))
    return float(np.max(error / np.maximum(bound, 1e-300), initial=0.0))


@every_operation
@pytest.mark.parametrize("grade", [FP64, *GRADES], ids=str)
def test_the_value_is_that_of_float64(operate: Callable[..., Any], grade: Grade) -> None:
    x, y = np.array([0.1, -2.0, 3.5]), np.array([[1.7], [-0.3]])
    a, b = Number.within(x, np.asarray(0.01), grade=grade), Number(y, grade=grade)
    for expected, actual in (
        (operate(x, y), operate(a, b)),
        (operate(x, 3), operate(a, 3)),
        (operate(3.0, x), operate(3.0, a)),
        (np.power(np.abs(x), 1.5), abs(a) ** 1.5),
        (np.power(2.0, x), 2.0**a),
        (-x, -a),
        (np.abs(x), abs(a)),
    ):
        np.testing.assert_array_equal(expected, actual.value)
        assert grade is actual.grade


# The worst case, against arithmetic as it is done


@every_grade
@every_operation
@given(pairs=entries)
def test_the_worst_case_holds_one_operation(
    grade: Grade, operate: Callable[..., Any], pairs: list[tuple[float, float]]
) -> None:
    x, y = np.array(pairs).T
    bounded = operate(Number(x, grade=grade), Number(y, grade=grade))
    assert 1 >= exceeded(arithmetic(operate(x, y), grade), bounded, bounded.radius)


@every_operation
@given(pairs=entries, shares=st.lists(st.floats(-1, 1), min_size=2, max_size=2), radius=st.floats(1e-6, 9e-4))
def test_the_worst_case_holds_what_its_terms_may_err(
    operate: Callable[..., Any], pairs: list[tuple[float, float]], shares: list[float], radius: float
) -> None:
    x, y = np.array(pairs).T
    a, b = Number.within(x, np.asarray(radius), grade=FP32), Number.within(y, np.asarray(radius), grade=FP32)
    moved = arithmetic(operate(x + shares[0] * radius, y + shares[1] * radius), FP32)
    assert 1 >= exceeded(moved, operate(a, b))


def test_the_errors_of_two_factors_multiply() -> None:
    x = Number.within([0.0], np.asarray(2.0)) * Number.within([0.0], np.asarray(3.0))
    assert (pytest.approx(6.0), pytest.approx(6.0)) == (x.worst.item(), x.radius.item())


@pytest.mark.parametrize("power", [2, 3, 0.5, -0.5, 1.5])
@given(x=st.floats(2.0**-7, 100, width=32), share=st.floats(-1, 1))
def test_the_worst_case_holds_powers(power: float, x: float, share: float) -> None:
    bounded = Number.within(np.array([x]), np.asarray(1e-6), grade=FP32) ** power
    assert 1 >= exceeded(arithmetic((x + share * 1e-6) ** power, FP32), bounded)


@pytest.mark.parametrize("x", [0.0, 1e-5, 4e-4, 9e-4, 0.1])
def test_the_worst_case_holds_a_root_of_what_may_be_zero(x: float) -> None:
    bounded = Number.within(np.array([x]), np.asarray(4e-4), grade=FP32) ** 0.5
    for moved in np.linspace(max(x - 4e-4, 0.0), x + 4e-4, 9):
        assert 1 >= exceeded(np.sqrt(moved), bounded)
    assert 0.021 > bounded.worst.item()


@given(x=st.floats(2.0**-100, 2.0**-60, width=32), y=st.floats(2.0**-100, 2.0**-30, width=32))
def test_the_worst_case_holds_results_flushed_to_zero(x: float, y: float) -> None:
    product = arithmetic(x * y, FP32)
    kept = product if product >= 2.0**FLOAT32.least else 0.0
    assert 1 >= exceeded(kept, Number([x], grade=FP32) * Number([y], grade=FP32))


def test_a_stored_result_that_may_overflow_is_without_bound() -> None:
    near = Number([65000.0, 1000.0], grade=FP16_NAIVE) + Number([600.0, 600.0], grade=FP16_NAIVE)
    assert [True, False] == np.isinf(near.radius).tolist()


# The likely error


def test_independent_errors_add_as_squares_and_common_ones_linearly() -> None:
    n = 400
    apart = total(Number(np.zeros(n), np.full(n, 1.0), np.full(n, 0.01)))
    alike = total(Number(np.zeros(n), np.full(n, 1.0), 0.0, np.full(n, 0.1)))
    assert pytest.approx(K * 0.1 * np.sqrt(n)) == apart.radius.item()
    assert pytest.approx(K * 0.1 * n) == alike.radius.item()


@pytest.mark.parametrize("operate", [lambda a, b: a + b, lambda a, b: b + a, lambda a, b: a * b, lambda a, b: b - a])
def test_an_independent_error_that_is_broadcast_is_a_common_one(operate: Callable[..., Any]) -> None:
    n = 400
    one = Number(np.ones((1, 1)), np.full((1, 1), 1.0), np.full((1, 1), 0.01))
    rows = total(operate(one, np.ones((1, n))))
    assert pytest.approx(K * 0.1 * n) == rows.radius.item()


def test_an_error_stays_independent_where_nothing_is_broadcast() -> None:
    x = Number(np.zeros(3), np.full(3, 1.0), np.full(3, 0.01))
    assert 0.01 == pytest.approx((x + np.ones(3)).variance[0])
    assert 0.01 == pytest.approx((x * 1.0).variance[0])
    assert aligned(x, 2.0)[0] is x


def test_copies_err_alike() -> None:
    x = common(Number(np.zeros(2), np.full(2, 1.0), np.full(2, 0.04), np.full(2, 0.1)))
    assert (0.0, [0.1 + 0.2] * 2, [1.0, 1.0]) == (x.variance, x.shared.tolist(), x.worst.tolist())


def test_the_radius_is_the_lesser_of_the_worst_and_the_likely() -> None:
    worst, variance, shared = np.array([1.0, 100.0]), np.array([4.0, 4.0]), np.array([1.0, 1.0])
    assert [1.0, K * (2 + 1)] == Number(np.zeros(2), worst, variance, shared).radius.tolist()
    assert 0.0 == Number(np.zeros(2)).radius


def test_a_number_within_a_radius_has_that_radius() -> None:
    assert [0.25, 0.5] == Number.within(np.zeros(2), np.array([0.25, 0.5])).radius.tolist()
    assert [0.5, 0.5] == (Number.within(np.zeros(2), 0.5) * 1.0).radius.round(9).tolist()
    assert (True, False) == (Number.within(1.0, 0.0).exact, Number.within(1.0, 0.5).exact)


# What becomes a number


@pytest.mark.parametrize(
    ("x", "grade", "radius"),
    [
        (0.1, FP32, 0.1 * 2.0**-24),
        (0.5, FP32, 0.0),
        (3, FP32, 0.0),
        (0.1, FP64, 0.0),
        (np.inf, FP32, 0.0),
        (np.array([0.1]), FP32, 0.0),
    ],
)
def test_a_constant_carries_its_rounding_where_the_arithmetic_does_not_hold_it(
    x: Any, grade: Grade, radius: float
) -> None:
    assert radius == number(x, grade).radius


def test_the_value_of_a_number_is_a_plain_array_and_of_anything_else_itself() -> None:
    x = Number([1.0, 2.0])
    assert [1.0, 2.0] == value(x).tolist()
    assert "word" == value("word")


def test_rearranging_moves_errors_with_their_entries() -> None:
    x = Number(np.arange(4.0).reshape(2, 2), np.array([[0.1, 0.2]]), np.array([[1.0], [2.0]]))
    y = x.map(np.transpose)
    assert ([[0.1, 0.1], [0.2, 0.2]], [[1.0, 2.0], [1.0, 2.0]]) == (y.worst.tolist(), y.variance.tolist())
    assert (2.0, 0.1, 2.0) == (x[1, 0].value, x[1, 0].worst, x[1, 0].variance)


def test_an_infinite_or_absent_value_has_no_rounding_error() -> None:
    x = Number([np.inf, np.nan, 1.0], grade=FP32) * Number([2.0, 2.0, 2.0], grade=FP32)
    assert pytest.approx([flushed(FP32), flushed(FP32), 2 * 2.0**-24]) == x.worst.tolist()
