"""Packed items: two witnesses against exact digits, faults as people make them, and the draw of their lengths."""

import mpmath
import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

CONVENTIONS = {
    "causal_alignment": "bottom_right",
    "empty_row": "zeros",
    "masked_nonfinite": "ignored",
    "grouping": "block",
    "lse_base": "natural",
}


def failures(function, laws=None, mechanism="packed_attention"):
    one = subject(Adapter("function", "packed_attention", function, "torch", conventions=CONVENTIONS))
    cells = run(Request(one, library()[mechanism], "float32", PROFILES["smoke"], laws=laws)).cells
    return [cell.law for cell in cells if cell.bad and cell.level == "must"]


# The witnesses


def exactly(q, k, v):
    """One query over keys, in sixty digits, and its logsumexp."""
    with mpmath.workdps(60):
        scores = [mpmath.fsum(map(mpmath.fmul, q, row)) / mpmath.sqrt(len(q)) for row in k]
        weights = [mpmath.exp(s) for s in scores]
        total = mpmath.fsum(weights)
        return [float(mpmath.fsum(map(mpmath.fmul, weights, column)) / total) for column in v.T], float(
            mpmath.log(total)
        )


@pytest.mark.parametrize("alignment", ["bottom_right", "top_left"])
@pytest.mark.parametrize("window_left", [None, 1])
@pytest.mark.parametrize("causal", [False, True])
def test_both_witnesses_have_the_digits_of_the_formula(causal, window_left, alignment):
    draw = np.random.default_rng(0)
    q, k, v = draw.normal(size=(7, 4, 5)), draw.normal(size=(9, 2, 5)), draw.normal(size=(9, 2, 3))
    q_lens, k_lens = np.array([0, 3, 1, 3]), np.array([2, 5, 0, 2])
    out, lse = np.zeros((7, 4, 3)), np.full((4, 7), -np.inf)
    for item, first, last in ((1, 2, 7), (3, 7, 9)):
        start, count = q_lens[:item].sum(), q_lens[item]
        ahead = last - first - count if alignment == "bottom_right" else 0
        for i, h in np.ndindex(count, 4):
            low = 0 if window_left is None else max(i + ahead - window_left, 0)
            seen = range(first + low, min(first + i + ahead + 1, last) if causal else last)
            if seen:
                out[start + i, h], lse[h, start + i] = exactly(q[start + i, h], k[seen, h // 2], v[seen, h // 2])
    options = {"causal": causal, "window_left": window_left, "causal_alignment": alignment}
    found = reference.packed_attention(q, k, v, q_lens, k_lens, **options)
    frame = Frame(
        library()["packed_attention"], {"q": q, "k": k, "v": v, "q_lens": q_lens, "k_lens": k_lens, **options}
    )
    for witness in (found, frame.outputs()):
        np.testing.assert_allclose(witness["out"], out, 0, 1e-13)
        np.testing.assert_allclose(witness["lse"], lse, 0, 1e-13)


@pytest.mark.parametrize(("q_lens", "k_lens"), [([2, 2], [2, 3]), ([2, 3], [6, -1]), ([2, 3], [5])], ids=str)
def test_the_reference_refuses_lengths_that_are_not_those_of_the_tokens(q_lens, k_lens):
    x = np.ones((5, 1, 4))
    with pytest.raises(ValueError, match=r"lengths|zip"):
        reference.packed_attention(x, x, x, q_lens, k_lens)


# Faults, as people make them


def packed(q, k, v, q_lens, k_lens, *, causal=False, row=None, item=None):
    """One mask for the whole pack, made of the places and items of queries and keys."""
    row = (
        (lambda ql, kl: torch.cat([torch.arange(n) + m - n for n, m in zip(ql, kl, strict=True)]))
        if row is None
        else row
    )
    item = (lambda lens: torch.repeat_interleave(torch.arange(len(lens)), lens)) if item is None else item
    column = torch.cat([torch.arange(n) for n in k_lens])
    seen = item(q_lens)[:, None] == item(k_lens)
    if causal:
        seen = seen & (column <= row(q_lens, k_lens)[:, None])
    group = q.shape[1] // k.shape[1]
    s = torch.einsum("qhd,khd->hqk", q, k.repeat_interleave(group, 1)) * q.shape[2] ** -0.5
    p = torch.softmax(s.masked_fill(~seen, float("-inf")), -1).nan_to_num(0.0)
    return torch.einsum("hqk,khd->qhd", p, v.repeat_interleave(group, 1).nan_to_num(0.0, 0.0, 0.0))


def test_a_mask_of_blocks_is_right():
    assert [] == failures(packed)


@pytest.mark.parametrize(
    "wrong",
    [
        {"item": lambda lens: torch.zeros(int(lens.sum()))},
        {"item": lambda lens: torch.arange(int(lens.sum())) // lens.max()},
        {"row": lambda q, k: torch.arange(int(q.sum())) + int(k.sum() - q.sum())},
        {"row": lambda q, k: torch.cat([torch.arange(n) for n in q])},
    ],
    ids=["one_item_for_all", "items_as_long_as_the_longest", "rows_of_the_pack", "rows_without_history"],
)
def test_a_fault_is_seen(wrong):
    def faulty(q, k, v, q_lens, k_lens, *, causal=False):
        return packed(q, k, v, q_lens, k_lens, causal=causal, **wrong)

    assert ["definition"] == failures(faulty, laws=("definition",))


def padded(q, k, v, q_lens, k_lens, *, q_slots, k_slots, starts=None):
    """Item by item from the front of each slot; where the slots begin is said by `starts`."""
    starts = (lambda lens, slots: slots.cumsum(0) - slots) if starts is None else starts
    out = torch.zeros(len(q), q.shape[1], v.shape[2])
    group = q.shape[1] // k.shape[1]
    begins = zip(starts(q_lens, q_slots), q_lens, starts(k_lens, k_slots), k_lens, strict=True)
    for q_at, n, k_at, m in begins:
        keys, values = (x[k_at : k_at + m].repeat_interleave(group, 1) for x in (k, v))
        s = torch.einsum("qhd,khd->hqk", q[q_at : q_at + n], keys) * q.shape[2] ** -0.5
        p = torch.softmax(s, -1)
        out[q_at : q_at + n] = torch.einsum("hqk,khd->qhd", p, values)
    return out


@pytest.mark.parametrize(
    ("starts", "seen"), [(None, []), (lambda lens, slots: lens.cumsum(0) - lens, ["definition"])], ids=["slots", "lens"]
)
def test_items_begin_where_their_slots_do(starts, seen):
    def function(q, k, v, q_lens, k_lens, *, q_slots, k_slots):
        return padded(q, k, v, q_lens, k_lens, q_slots=q_slots, k_slots=k_slots, starts=starts)

    assert seen == failures(function, laws=("definition",), mechanism="padded_pack")
