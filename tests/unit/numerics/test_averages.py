"""The bound of a weighted average holds what softmax kernels do, for it knows what cancels and what is tied."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnspec.numerics import averages
from attnspec.numerics import primitives as p
from attnspec.numerics.formats import FLOAT32, rounded
from attnspec.numerics.grades import BF16, BF16_NAIVE, FP16, FP32, Grade
from attnspec.numerics.numbers import Number
from attnspec.numerics.streams import Stream

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # infinities and zeros are as in a run

grades = pytest.mark.parametrize("grade", [FP32, BF16, FP16, BF16_NAIVE], ids=str)


def exceeded(actual: Any, bounded: Number, bound: Any) -> float:
    """The largest error in units of a bound."""
    error = np.where(actual == bounded.value, 0.0, np.abs(actual - bounded.value))
    return float(np.max(error / np.maximum(bounded.full(bound), 1e-300), initial=0.0))


def regime(kind: str, seed: int, n: int) -> tuple[Any, Any, Any]:
    q, k, v = (Stream(kind, seed, name).normal((n, 8)) for name in "qkv")
    if kind == "ties":
        k = np.broadcast_to(k[:1], k.shape)
    if kind == "two values":
        k = np.where(np.arange(n)[:, None] % 2 == 0, k[:1], k[-1:])
    if kind == "peaked":
        q = 8 * q
    if kind == "offset":
        v = v + 50
    return q, k, v


def kernel(q: Any, k: Any, v: Any, grade: Grade, normalised: bool) -> Any:
    """Softmax attention in single precision, with weights and intermediates in the formats of the grade."""
    narrow, store = grade.weight or FLOAT32, grade.stored or FLOAT32

    def single(x: Any) -> Any:
        return rounded(rounded(np.float64(x), FLOAT32), store)

    q, k, v = (rounded(x, grade.operand or FLOAT32) for x in (q, k, v))
    scores = single(np.float32(q) @ np.float32(k).T)
    weights = single(np.exp(single(np.float32(scores) - np.float32(scores.max(-1, keepdims=True)))))
    sums = single(np.cumsum(np.float32(weights), -1)[:, -1:])
    if normalised:
        return single(np.float32(rounded(single(weights / sums), narrow)) @ np.float32(v))
    return single(single(np.float32(rounded(weights, narrow)) @ np.float32(v)) / sums)


@grades
@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("kind", ["normal", "ties", "two values", "peaked", "offset"])
@given(seed=st.integers(0, 10**6), n=st.sampled_from([1, 2, 3, 17, 40]))
def test_the_bound_of_an_average_holds_softmax_kernels(
    grade: Grade, normalised: bool, kind: str, seed: int, n: int
) -> None:
    q, k, v = (rounded(x, grade.operand or FLOAT32) for x in regime(kind, seed, n))
    scores = Number(q, grade=grade) @ np.ascontiguousarray(k.T)
    bounded = averages.average(p.exp(p.shift(scores)), Number(v, grade=grade))
    actual = kernel(q, k, v, grade, normalised)
    assert 1 >= exceeded(actual, bounded, bounded.radius)


def test_errors_of_the_weights_cancel_where_all_values_agree() -> None:
    weights = Number.within(np.ones((1, 8)), np.asarray(0.1), grade=FP32)
    apart, alike = np.arange(8.0)[:, None], np.full((8, 1), 7.0)
    spread = Number(np.ones((1, 8)), np.full((1, 8), 0.1), np.full((1, 8), 0.001), grade=FP32)
    assert averages.average(spread, alike).worst.item() < 1e-4
    assert averages.average(spread, apart).worst.item() > 0.1
    assert averages.average(weights, alike).worst.item() > 0.1


def test_weights_of_one_size_are_rounded_alike() -> None:
    n = 200
    values = 1 + 0.01 * np.abs(Stream("alike").normal((n, 1)))
    bounded = averages.average(Number(np.full((1, n), 0.3), grade=BF16), Number(values, grade=BF16))
    assert BF16.weight
    actual = np.sum(rounded(np.full(n, 0.3), BF16.weight) * values[:, 0]) / (0.3 * n)
    assert 1 >= exceeded(actual, bounded, bounded.radius)
    scattered = averages.average(
        Number(np.exp(Stream("scattered").normal((1, n))), grade=BF16), Number(values, grade=BF16)
    )
    assert scattered.radius.item() < bounded.radius.item() / 3


@pytest.mark.parametrize("n", [8, 300])
def test_multiplicity_counts_the_weights_of_one_size(n: int) -> None:
    weights = np.concatenate([2.0 ** -np.arange(n - 4), [0.25, 0.25, 0.0, 0.0]])
    expected = np.ones(n)
    expected[[2, n - 4, n - 3]] = 3
    assert expected.tolist() == np.broadcast_to(averages.multiplicity(weights[None], 0.1), (1, n))[0].tolist()


@pytest.mark.parametrize("shape", [(3, 5, 7), (2000, 200)])
def test_both_ways_of_counting_agree(shape: tuple[int, ...]) -> None:
    weights = np.floor(4 * Stream("ties").uniform(shape))
    bucket = np.where(weights > 0, weights, -1e15 - np.arange(shape[-1]))
    expected = np.stack([(bucket == bucket[..., i : i + 1]).sum(-1) for i in range(shape[-1])], -1)
    np.testing.assert_array_equal(expected, averages.multiplicity(weights, 0.1))


def test_an_average_of_no_weight_is_zero_and_what_has_none_may_hold_anything() -> None:
    weights = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    values = np.array([[3.0, 1.0], [np.inf, np.nan]])
    expected = [[0.0, 0.0], [3.0, 1.0], [np.inf, np.nan]]
    np.testing.assert_array_equal(expected, averages.average(weights, values))
    np.testing.assert_array_equal(expected, averages.average(Number(weights, grade=FP32), values).value)
    np.testing.assert_array_equal([[np.nan]], averages.average(np.array([[1.0, 1.0]]), np.array([[np.inf], [-np.inf]])))


def test_an_average_along_an_axis_is_entry_by_entry() -> None:
    weights, values = Stream("w").uniform((4, 3)), Stream("v").normal((4, 3))
    expected = np.sum(weights * values, 0) / np.sum(weights, 0)
    np.testing.assert_allclose(expected, averages.average(weights, values, 0), rtol=1e-13)
    bounded = averages.average(Number(weights, grade=FP32), values, 0)
    assert 1 >= exceeded(np.float32(expected), bounded, bounded.radius)
