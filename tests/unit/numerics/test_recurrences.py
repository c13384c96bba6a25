"""States that go from step to step: their bounds hold what steps round, and what chunks do."""

from typing import Any

import numpy as np
import pytest

from attnspec.numerics.formats import FLOAT32, rounded
from attnspec.numerics.grades import BF16, FP32, Grade
from attnspec.numerics.numbers import Number
from attnspec.numerics.recurrences import recurred
from attnspec.numerics.streams import Stream


def exceeded(actual: Any, bounded: Number) -> Any:
    """The error in units of the bound."""
    return np.max(np.abs(actual - bounded.value) / bounded.radius)


@pytest.mark.parametrize("grade", [FP32, BF16], ids=str)
def test_the_bound_of_states_holds_what_each_step_rounds(grade: Grade) -> None:
    a, b, start = (Stream(name).normal(shape) for name, shape in (("a", (9, 3, 3)), ("b", (9, 3, 2)), ("c", (3, 2))))
    a, b, start = (rounded(0.7 * x, FLOAT32) for x in (a, b, start))
    bounded = recurred(*(Number(x, grade=grade) for x in (a, b, start)))
    state, steps = np.float32(start), []
    for t in range(9):
        factor = np.float32(rounded(state, grade.operand) if grade.operand else state)
        state = np.float32(rounded(a[t], grade.operand) if grade.operand else a[t]) @ factor + np.float32(b[t])
        steps.append(state)
    np.testing.assert_allclose(recurred(a, b, start), bounded.value, rtol=1e-14)
    assert 1 >= exceeded(np.array(steps, float), bounded)


def test_an_error_of_the_start_goes_on_into_every_state() -> None:
    a, b = Number(np.full((3, 1, 1), 2.0)), Number(np.ones((3, 1, 1)))
    found = recurred(a, b, Number.within([[1.0]], np.array([[0.5]])))
    np.testing.assert_allclose([1, 2, 4], found.radius.ravel(), rtol=1e-9)


SHARE = 0.875


def one_key(length: int, keep: float) -> tuple[Any, Any, Any]:
    """Random values, of which each replaces a share of what is there, under one key of unit length."""
    values = rounded(Stream("values").normal((length, 1, 400)), FLOAT32)
    return np.full((length, 1, 1), (1 - SHARE) * keep), SHARE * values, np.full((length, 1, 1), keep)


def in_a_chunk(b: Any, keep: float) -> Any:
    """The last state in single precision, as the sum of what solves the triangular system of the chunk."""
    n = len(b)
    fades = np.tril(np.float32(keep) ** np.subtract.outer(np.arange(n), np.arange(n)).clip(0)).astype(np.float32)
    system = np.eye(n, dtype=np.float32) + np.float32(SHARE) * np.tril(fades, -1)
    written = np.zeros((n, b.shape[-1]), np.float32)
    for t in range(n):
        total = np.zeros(b.shape[-1], np.float32)
        for j in range(t):
            total = total + system[t, j] * written[j]
        written[t] = np.float32(b[t, 0]) - total
    total = np.zeros(b.shape[-1], np.float32)
    for j in range(n):
        total = total + fades[-1, j] * written[j]
    return np.float64(total)


@pytest.mark.parametrize("keep", [1.0, 31 / 32])
def test_the_bound_of_states_in_a_chunk_holds_roundings_that_do_not_fade(keep: float) -> None:
    a, b, kept = one_key(400, keep)
    start = Number(np.zeros((1, 400)), grade=FP32)
    steps = recurred(Number(a, grade=FP32), Number(b, grade=FP32), start)
    chunk = recurred(Number(a, grade=FP32), Number(b, grade=FP32), start, Number(kept, grade=FP32))
    actual = in_a_chunk(b, keep)
    assert exceeded(actual, steps[-1]) > 1 > exceeded(actual, chunk[-1])
    assert steps.value.tolist() == chunk.value.tolist()


def test_a_bound_of_the_worst_case_is_beyond_the_likely_one() -> None:
    a, b, kept = one_key(64, 1.0)
    found = recurred(*(Number(x, grade=FP32) for x in (a, b, np.zeros((1, 400)), kept)))
    assert (found.worst[-1] > found.radius[-1]).all()


def test_the_error_of_what_is_kept_is_that_of_all_terms_but_the_last() -> None:
    a, b = Number(np.ones((2, 1, 1)), grade=FP32), Number(np.ones((2, 1, 1)), grade=FP32)
    start = Number(np.zeros((1, 1)), grade=FP32)
    kept = Number.within(np.ones((2, 1, 1)), np.full((2, 1, 1), 1e-3), grade=FP32)
    found = recurred(a, b, start, kept)
    assert 1e-5 > found.worst[0].item()
    np.testing.assert_allclose(1e-3, found.worst[1].item(), rtol=1e-2)
