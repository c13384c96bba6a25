"""What the entries of a matrix product may err, against products in the arithmetic itself."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnspec.numerics.formats import FLOAT32, rounded
from attnspec.numerics.grades import BF16, BF16_NAIVE, FP32, Grade
from attnspec.numerics.numbers import Number
from attnspec.numerics.streams import Stream

from .test_numbers import arithmetic, every_grade, exceeded, singles

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # infinities and zeros are as in a run


def test_the_product_of_matrices_is_that_of_float64_from_either_side() -> None:
    x, y = Stream(1).normal((2, 3, 4)), Stream(2).normal((4, 5))
    np.testing.assert_array_equal(x @ y, (Number(x, grade=FP32) @ y).value)
    np.testing.assert_array_equal(x @ y, (x @ Number(y, grade=FP32)).value)


def in_order(terms: Any) -> Any:
    result = np.float32(0)
    for term in terms:
        result = np.float32(result + term)
    return float(result)


def in_pairs(terms: Any) -> Any:
    while len(terms) > 1:
        terms = np.float32(terms[: len(terms) // 2]) + np.float32(terms[len(terms) // 2 :])
    return float(terms[0])


def dot(x: Any, y: Any, grade: Grade, add: Callable[[Any], Any]) -> Any:
    """A row times a column with factors in the format of the grade and single-precision accumulation."""
    if grade.operand:
        x, y = rounded(x, grade.operand), rounded(y, grade.operand)
    return arithmetic(add(np.float32(x) * np.float32(y)), grade)


@every_grade
@pytest.mark.parametrize("add", [in_order, in_pairs])
@given(seed=st.integers(0, 10**6), n=st.sampled_from([1, 2, 8, 64]), kind=st.sampled_from(["normal", "same", "steps"]))
def test_the_worst_case_holds_products_added_in_any_order(
    grade: Grade, add: Callable[[Any], Any], seed: int, n: int, kind: str
) -> None:
    x, y = (rounded(Stream(seed, i).normal((n,)), FLOAT32) for i in range(2))
    if kind == "same":
        x, y = np.full(n, x[0]), np.full(n, y[0])
    if kind == "steps":
        x = x * 2.0 ** np.arange(n).clip(0, 10)
    bounded = Number(x[None], grade=grade) @ Number(y[:, None], grade=grade)
    assert 1 >= exceeded(dot(x, y, grade, add), bounded)


@given(x=st.lists(st.tuples(singles, singles), min_size=1, max_size=20))
def test_the_worst_case_of_double_precision_holds_float64_itself(x: list[tuple[float, float]]) -> None:
    exact = sum(Fraction(a) * Fraction(b) for a, b in x)
    bounded = Number([[a for a, _ in x]]) @ Number([[b] for _, b in x])
    assert abs(exact - Fraction(bounded.value.item())) <= Fraction(bounded.worst.item())


def test_a_factor_costs_nothing_where_the_format_of_the_operands_holds_it() -> None:
    held, other = Number([[1.0, 0.5]], grade=BF16), Number([[0.1, 0.3]], grade=BF16)
    assert (held @ held.value.T).worst.item() < 1e-6
    assert BF16.operand
    assert (other @ held.value.T).worst.item() >= BF16.operand.unit * 0.25
    naive = Number(held.value, grade=BF16_NAIVE)
    assert (naive @ held.value.T).worst.item() >= 3 * BF16.operand.unit * 1.25


@pytest.mark.parametrize("grade", [FP32, BF16], ids=str)
@pytest.mark.parametrize("n", [4, 64, 512])
def test_the_likely_error_holds_random_products_and_is_far_below_the_worst(grade: Grade, n: int) -> None:
    x, y = (rounded(Stream("likely", n, i).normal((40, n)), FLOAT32) for i in range(2))
    bounded = Number(x, grade=grade) @ Number(y.T, grade=grade)
    if grade.operand:
        x, y = rounded(x, grade.operand), rounded(y, grade.operand)
    actual = np.zeros((40, 40), np.float32)
    for i in range(n):
        actual = actual + np.float32(x[:, i, None]) * np.float32(y[:, i])
    assert 1 >= exceeded(actual, bounded, bounded.radius)
    assert n < 512 or np.median(bounded.worst / bounded.radius) > (6 if grade is FP32 else 2)
