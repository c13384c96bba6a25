"""Operators: what counts as a number or a boolean, and what is exact where a precision is claimed."""

import ast
from typing import Any

import numpy as np
import pytest

from attnspec.errors import SpecError
from attnspec.numerics.grades import BF16_NAIVE, FP32
from attnspec.numerics.numbers import Number
from attnspec.numerics.operations import (
    BINARY,
    COMPARE,
    both,
    claimed,
    either,
    is_single,
    negated,
    numeric,
    single_truth,
)
from attnspec.numerics.truths import Truth

DOUBT = Truth(np.array([True, True, False]), np.array([True, False, False]))
PLAIN = np.array([True, False, True])


@pytest.mark.parametrize(
    ("x", "expected", "kind"),
    [
        (True, 1, int),
        (np.True_, 1, int),
        (np.int64(3), 3, int),
        (0.5, 0.5, float),
        (PLAIN, [1, 0, 1], np.ndarray),
        (Truth(PLAIN, PLAIN), [1, 0, 1], np.ndarray),
    ],
)
def test_truths_count_as_zero_and_one(x: Any, expected: Any, kind: type) -> None:
    assert (expected, kind) == (np.asarray(numeric(x)).tolist(), type(numeric(x)))


def test_an_undecided_truth_counts_as_a_number_in_doubt() -> None:
    x = numeric(DOUBT)
    assert ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]) == (x.value.tolist(), x.worst.tolist())


@pytest.mark.parametrize(
    ("x", "expected"),
    [(True, True), (np.False_, False), (0, False), (PLAIN, None), (DOUBT, None), (DOUBT[0], True), (DOUBT[1], None)],
)
def test_a_single_truth_is_one_that_is_decided(x: Any, expected: Any) -> None:
    assert expected is single_truth(x)


@pytest.mark.parametrize(
    ("x", "shown"), [(None, "none"), ("zeros", "'zeros'"), (Number([1.0]), "a number"), (Number(1.0), "a number")]
)
def test_what_cannot_be_asked_for_its_truth_is_refused(x: Any, shown: str) -> None:
    with pytest.raises(SpecError, match=f"^{shown} is not a boolean$"):
        claimed(x)


def test_logic_works_on_plain_truths_and_on_doubt() -> None:
    assert [True, False, False] == both(PLAIN, np.array([True, True, False])).tolist()
    assert ([True, False, False], [True, False, False]) == _parts(both(DOUBT, PLAIN))
    assert ([True, True, True], [True, False, True]) == _parts(either(PLAIN, DOUBT))
    assert ([False, True, True], [False, False, True]) == _parts(negated(DOUBT))


def _parts(t: Truth) -> tuple[Any, Any]:
    return t.can.tolist(), t.must.tolist()


@pytest.mark.parametrize("operate", [both, either, *COMPARE.values()])
def test_shapes_have_to_fit(operate: Any) -> None:
    with pytest.raises(SpecError, match=r"shapes \(3,\) and \(2,\) do not fit"):
        operate(PLAIN, np.array([True, False]))


@pytest.mark.parametrize(
    ("op", "x", "y", "expected"),
    [
        (ast.Eq, np.nan, np.nan, True),
        (ast.NotEq, np.nan, np.nan, False),
        (ast.Eq, "zeros", "zeros", True),
        (ast.NotEq, "zeros", None, True),
        (ast.Eq, None, 0, False),
        (ast.Eq, None, np.zeros(2), False),
        (ast.LtE, True, 1, True),
    ],
)
def test_equality_is_of_anything_with_anything(op: type, x: Any, y: Any, expected: bool) -> None:
    assert expected == COMPARE[op](x, y)


def test_truths_are_equal_where_both_hold_or_neither() -> None:
    assert ([True, True, False], [True, False, False]) == _parts(COMPARE[ast.Eq](DOUBT, PLAIN))
    assert ([False, True, True], [False, False, True]) == _parts(COMPARE[ast.NotEq](DOUBT, PLAIN))


@pytest.mark.parametrize("op", [ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.Pow])
@pytest.mark.parametrize(("x", "y"), [(7, 2), (np.arange(5), 2), (True, np.arange(1, 3))])
def test_whole_numbers_are_exact_under_a_grade(op: type, x: Any, y: Any) -> None:
    np.testing.assert_array_equal(BINARY[op](x, y, None), BINARY[op](x, y, BF16_NAIVE))
    assert not isinstance(BINARY[op](x, y, BF16_NAIVE), Number)


@pytest.mark.parametrize(
    ("op", "x", "y"), [(ast.Div, 1, 3), (ast.Add, 0.125, 1), (ast.Pow, 64, -0.5), (ast.Pow, 3, -1)]
)
def test_fractions_are_rounded_under_a_grade(op: type, x: Any, y: Any) -> None:
    plain, graded = BINARY[op](x, y, None), BINARY[op](x, y, FP32)
    assert plain == graded.value
    assert pytest.approx(abs(plain) * 2.0**-24) == graded.worst


def test_a_product_of_plain_matrices_is_graded() -> None:
    x = np.ones((2, 3))
    assert 0 < BINARY[ast.MatMult](x, x.T, FP32).worst.max()
    assert [[3.0, 3.0], [3.0, 3.0]] == BINARY[ast.MatMult](x, x.T, None).tolist()
    with pytest.raises(SpecError, match=r"cannot multiply matrices of shapes \(2, 3\) and \(2, 3\)"):
        BINARY[ast.MatMult](x, x, None)


def test_a_value_is_single_or_an_array() -> None:
    assert [True, True, True, False, False] == [is_single(x) for x in (1, None, np.float64(1), PLAIN, DOUBT)]
