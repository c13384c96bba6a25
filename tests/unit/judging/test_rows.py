"""Rows of a large case in units of their bounds."""

from __future__ import annotations

import numpy as np
import pytest

from attnspec.judging.rows import exactly
from attnspec.numerics.grades import GRADES

from .test_large import attention
from .test_screening import seen_of


def verdict(function, rows, grade="fp32"):
    portions, items, subject, _ = seen_of(function)
    return exactly(portions, subject, items, rows, ["out"], GRADES[grade])


def kernel(q, k, v):
    out = attention(q, k, v)
    out[0, 1, 5, 3] += np.float32(1e-3)
    out[0, 1, 9] += np.float32(1e-3)
    return out


def test_rows_that_are_right_are_within_their_bounds():
    found = verdict(kernel, {0: [0, 6], 1: [5]})
    assert 0 < found.excess < 1
    assert (3, 0, 3 * 2 * 2 * 16, 0) == (found.rows, found.wrong, found.entries, found.spoiled)


def test_wrong_entries_and_rows_are_counted():
    found = verdict(kernel, {0: [5, 6, 9]})
    assert (3, 2, 17) == (found.rows, found.wrong, found.spoiled)
    assert (0, 1) == found.worst.where[:2]
    assert pytest.approx(1e-3, rel=1e-2) == found.worst.found - found.worst.expected
    assert found.excess == found.worst.units == pytest.approx(1e-3 / found.worst.bound, rel=1e-2)
    assert found.widest >= found.worst.bound


def test_a_looser_grade_has_wider_bounds():
    assert 1 > verdict(kernel, {0: [5]}, "tf32").excess
