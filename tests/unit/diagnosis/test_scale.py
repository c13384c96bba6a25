"""A failure at the sizes of production: which rows, and from which sizes on."""

from __future__ import annotations

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.diagnosis.phrases import counted
from attnspec.diagnosis.scale import from_which_sizes, wrong_rows
from attnspec.diagnosis.witness import describe
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import NONE
from attnspec.subjects.targets import subject

ATTENTION = NONE.library()["attention"]
WORDS = {"causal_alignment": "bottom_right", "empty_row": "zeros", "masked_nonfinite": "ignored", "grouping": "block"}
LAWS = frozenset(f"serving.{name}" for name in ("latent", "unlike_head_sizes", "prefill", "many_items", "pair_1"))


def attention(q, k, v):
    import numpy

    k, v = (numpy.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q @ k.swapaxes(-1, -2) * numpy.float32(q.shape[-1] ** -0.5)
    p = numpy.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


def late(q, k, v):
    out = attention(q, k, v)
    if k.shape[2] >= 1000:
        out[:, -1, -1] *= np.float32(1.01)
    return out


@pytest.fixture(scope="module")
def failed():
    one = subject(Adapter("kernel", "attention", late, "numpy", conventions=WORDS))
    result = run(Request(one, ATTENTION, "float32", PROFILES["serving"], laws=LAWS))
    return result, next(cell.failure for cell in result.cells if cell.law == "serving.prefill")


def test_the_wrong_rows_are_told_in_words(failed):
    _, failure = failed
    assert "out is wrong at the last query of the last head" == wrong_rows(failure).words


def test_the_size_from_which_it_is_wrong_is_found_between_the_cases(failed):
    result, failure = failed
    when = from_which_sizes(result.bench, failure, result, 0, 4 << 30)
    assert counted(when).startswith("wrong from k_len = 1000 on; right otherwise (")


def test_a_witness_has_what_was_found_and_no_large_array(failed):
    result, failure = failed
    witness = describe(failure, result.bench, "kernel.py:late", None, [])
    assert witness["large"]
    assert "serving.prefill" == witness["case"]["scenario"]
    assert {} == witness["case"]["literals"]
    assert "[1, 1, 1025, 64], nearly normal numbers" == witness["arrays"]["k"]
    assert "k" not in witness["sizes"]
    outcome = witness["outcome"]
    assert ("out", [0, 1, 1024]) == (outcome["output"], outcome["where"][:3])
    assert pytest.approx(1.01, rel=1e-3) == outcome["found"] / outcome["expected"]
    assert outcome["units"] == failure.outcome.excess > 1
