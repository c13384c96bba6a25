"""Rows of a large case are compared with the definition, and some are chosen."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnspec.judging import quick
from attnspec.judging.screening import ITEMS, Row, _most, chosen, screened
from attnspec.judging.settling import Settled, claimed
from attnspec.subjects.large import large_subject

from .test_large import SIZES, attention, large


def seen_of(function, seconds=60.0):
    return seen_in(large(function), seconds)


def seen_in(one, seconds=60.0):
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
    worst = found.worst[0]
    assert pytest.approx(0.25, abs=1e-4) == worst.gap
    assert ([2, 3], 37) == (items[worst.item].positions["heads"].tolist(), worst.row)
    rows = chosen(portions, found, len(items))
    assert 37 in rows[worst.item]
    assert len(rows) <= ITEMS
    assert sum(map(len, rows.values())) > 8


def test_rows_that_there_was_no_time_for_are_not_known():
    *_, found = seen_of(kernel, seconds=0.0)
    assert 0 < found.seen < 2 * 4 * 70
    assert np.isnan(found.gaps).any()


def test_what_was_compared_coarsely_is_compared_once_more(monkeypatch):
    def half(q, k, v):
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        out[1, 2, 37] *= 1.1
        return out

    monkeypatch.setattr(quick, "SCORES", 1)
    calls, outputs = [], quick.Quick.outputs
    monkeypatch.setattr(
        quick.Quick, "outputs", lambda *a, **k: calls.append(k.get("coarse", False)) or outputs(*a, **k)
    )
    _, _, _, found = seen_in(large(half, framework="torch", dtype="bfloat16"))
    assert {True, False} == set(calls)
    assert 37 == found.worst[0].row


def test_a_small_row_that_differs_by_much_of_its_size_is_chosen():
    parts = [np.array([Row(gap=1.0 - n / 100, share=0.1, item=0, row=n) for n in range(50)])]
    parts.append(np.array([Row(gap=0.01, share=0.9, item=1, row=77)]))
    assert [77, 0] == [Row(*row).row for row in _most(parts, 8)[:2]]
    assert 77 in {Row(*row).row for row in _most(parts, 1)}
    assert 9 == len(_most(parts, 8))


def test_a_late_row_of_a_causal_mask_is_found_by_its_share():
    def late(q, k, v, *, causal=False):
        s = q @ np.repeat(k, 2, 1).swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)
        s = np.where(np.tri(*s.shape[-2:], s.shape[-1] - s.shape[-2], dtype=bool), s, -np.inf).astype(np.float32)
        p = np.exp(s - s.max(-1, keepdims=True))
        out = p / p.sum(-1, keepdims=True) @ np.repeat(v, 2, 1)
        out[0, 0, :3] += np.float32(1e-4)  # which is little of rows that see few keys
        out[1, 2, 60] += np.float32(8e-5)
        return out

    sizes = f"{SIZES.replace('k_len = 96', 'k_len = 70')}, causal = true"
    words = {"causal_alignment": "bottom_right"}
    _, _, _, found = seen_in(large(late, sizes=sizes, words=words))
    assert 60 == found.worst[0].row
