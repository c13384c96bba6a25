"""Rows of a large case are compared with the definition, and some are chosen."""

from __future__ import annotations

import numpy as np
import pytest

from attnspec.judging.screening import ITEMS, chosen, screened
from attnspec.judging.settling import Settled, claimed
from attnspec.subjects.large import large_subject

from .test_large import attention, large


def seen_of(function, seconds=60.0):
    one = large(function)
    subject = large_subject(one.bench.subject)
    call = claimed(one.bench, one.sample, Settled(one.sample.values))
    assert subject.hold(call, one.portions.shapes).fault is None
    one.portions.orient()
    items = [*one.portions.items()]
    return one.portions, items, subject, screened(one.portions, subject, items, ["out"], seconds)


def kernel(q, k, v):
    out = attention(q, k, v)
    out[1, 2, 37, 5] += np.float32(0.25)
    return out


def test_every_row_is_compared():
    *_, found = seen_of(kernel)
    assert (2, 4, 70) == found.gaps.shape
    assert [[1, 2, 37]] == np.argwhere(found.gaps > 0.1).tolist()
    assert pytest.approx(0.25, abs=1e-4) == float(found.gaps.max())
    assert 2 * 4 * 70 == found.seen


def test_the_row_that_differs_most_is_first_and_is_chosen():
    portions, items, _, found = seen_of(kernel)
    gap, item, row = found.worst[0]
    assert pytest.approx(0.25, abs=1e-4) == gap
    assert ([2, 3], 37) == (items[item].positions["heads"].tolist(), row)
    rows = chosen(portions, found, len(items))
    assert 37 in rows[item]
    assert len(rows) <= ITEMS
    assert sum(map(len, rows.values())) > 8


def test_rows_that_there_was_no_time_for_are_not_known():
    *_, found = seen_of(kernel, seconds=0.0)
    assert 0 < found.seen < 2 * 4 * 70
    assert np.isnan(found.gaps).any()
