"""Bounds of what definitions compute with: no rounding goes beyond them, and they stay close to what it does."""

import numpy as np
import pytest

from attnspec.numerics.formats import BFLOAT16, rounded
from attnspec.numerics.grades import BF16, FP32
from attnspec.numerics.numbers import Number
from attnspec.numerics.primitives import sigmoid, sqrt, stored

DRAW = np.random.default_rng(5)


@pytest.mark.parametrize("size", [0.0, 1e-12, 1e-6, 1.0])
def test_a_root_errs_as_much_as_its_argument_lets_it(size):
    error = 1e-6
    bound = sqrt(Number.within(np.array([size]), np.array([error]), grade=FP32)).radius
    ends = np.sqrt([max(size - error, 0.0), size + error])
    assert np.all(np.abs(ends - np.sqrt(size)) <= bound)
    assert bound <= 2.5 * max(np.abs(ends - np.sqrt(size))) + 1e-6


@pytest.mark.parametrize("x", [-30.0, -5.0, 0.0, 5.0])
def test_a_sigmoid_may_be_computed_by_a_tangent(x):
    bound = sigmoid(Number(np.array([x]), grade=FP32)).radius
    half = np.float32(0.5)
    by_tangent = float(half + half * np.tanh(np.float32(x) * half))
    assert abs(by_tangent - 1 / (1 + np.exp(-x))) <= bound


def test_the_slope_of_a_sigmoid_is_taken_where_it_is_steepest():
    bound = sigmoid(Number.within(np.array([-5.0]), np.array([3.0]), grade=FP32)).radius
    assert 1 / (1 + np.exp(2.0)) - 1 / (1 + np.exp(5.0)) <= bound


@pytest.mark.parametrize(
    "values", [DRAW.normal(size=64), np.full(64, 1.0013), 1.0013 * 2.0 ** DRAW.integers(-3, 3, 64)]
)
def test_a_sum_of_stored_numbers_errs_within_its_bound(values):
    exact = Number(values, grade=BF16)
    bound = (stored(exact, "bfloat16", BF16)[None] @ np.ones((64, 1))).radius
    assert abs(np.sum(rounded(values, BFLOAT16)) - np.sum(values)) <= bound


def test_what_is_stored_independently_adds_up_as_a_root():
    values = DRAW.normal(size=1024)
    held = stored(Number(values, grade=BF16), "bfloat16", BF16)
    assert (held[None] @ np.ones((1024, 1))).radius < 0.5 * np.sum(held.radius)


def test_a_stored_factor_of_a_product_is_not_rounded_again():
    x, w = Number(DRAW.normal(size=(3, 8)), grade=BF16), np.ones((8, 2))
    once = stored(x, "bfloat16", BF16)
    again = Number(once.value, once.worst, once.variance, once.shared, grade=BF16)
    assert np.all((once @ w).worst < (again @ w).worst)


def erring():
    return Number(np.array([1.0]), np.array([1.0]), np.array([1e-8]), grade=FP32)


def test_two_factors_that_err_have_the_product_of_their_likely_errors():
    product = erring() * erring()
    assert 3.0 <= product.worst
    assert product.radius == pytest.approx(6 * (2**0.5 * 1e-4 + 6e-4**2 / 6), rel=0.01)


def test_a_square_errs_twice_as_much_as_its_root():
    x = erring()
    assert (x * x).radius == pytest.approx(6 * (2e-4 + 6e-4**2 / 6), rel=0.01)


def test_a_divisor_that_may_be_zero_leaves_a_bound_that_can_be_reckoned_with():
    quotient = 1.0 / Number.within(np.array([1.0]), np.array([2.0]), grade=FP32)
    assert 1e20 < quotient.radius < 1e40
    assert 0.0 == (quotient * quotient * 0.0).value
    assert np.isfinite((quotient * quotient).radius)
