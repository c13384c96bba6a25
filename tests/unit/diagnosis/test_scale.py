"""A failure at the sizes of production: which rows, and from which sizes on."""

from __future__ import annotations

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.large import large_sample
from attnspec.diagnosis.phrases import counted
from attnspec.diagnosis.scale import from_which_sizes, wrong_rows
from attnspec.diagnosis.witness import describe
from attnspec.judging.bench import Bench
from attnspec.judging.cells import Failure, Result
from attnspec.judging.judge import Kind, Outcome
from attnspec.judging.large import Large
from attnspec.mechanisms.loader import NONE
from attnspec.mechanisms.serving import _assigned, _scope
from attnspec.numerics.grades import looser
from attnspec.subjects.targets import subject

ATTENTION = NONE.library()["attention"]
KEYS = (150, 400, 64, 32, 90, 16)


def attention(q, k, v):
    import numpy

    k, v = (numpy.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q @ k.swapaxes(-1, -2) * numpy.float32(q.shape[-1] ** -0.5)
    p = numpy.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


def late(q, k, v):
    out = attention(q, k, v)
    if k.shape[2] >= 100:
        out[:, -1, -1] *= np.float32(1.01)
    return out


@pytest.fixture(scope="module")
def failed():
    """What came of a few cases, and the first of them as a failure."""
    one = subject(Adapter("kernel", "attention", late, "numpy"))
    bench = Bench(one, ATTENTION, "float32", "cpu", dict(ATTENTION.words))
    grades = looser("float32", one.claims.grade("float32"))
    found = []
    for number, k_len in enumerate(KEYS):
        text = f"batch = 1, kv_heads = 1, heads = 2, q_len = {70 + number}, k_len = {k_len}"
        text += ", head_dim = 64, value_dim = 64"
        sample = large_sample(ATTENTION, "case", _assigned(text, _scope(ATTENTION)), one.claims, "float32", 0)
        found.append((sample, Large(bench, sample, memory=1 << 30, seconds=60.0).judged(grades)))
    sample, judged = found[0]
    outcome = Outcome(judged.kind, judged.excess, grades[0], judged.says)
    result = Result((), bench=bench, grades=grades, large=[(one, judged.kind) for one, judged in found])
    return result, Failure("serving.case", outcome, sample, sample, large=judged)


def test_the_wrong_rows_are_told_in_words(failed):
    assert "out is wrong at the last query of the last head" == wrong_rows(failed[1]).words


def test_the_size_from_which_it_is_wrong_is_found_between_the_cases(failed):
    result, failure = failed
    assert [Kind.REFUTED] * 2 + [Kind.HELD] * 4 == [kind for _, kind in result.large]
    when = from_which_sizes(result.bench, failure, result, 0, 4 << 30)
    assert counted(when).startswith("wrong for k_len >= 100 (")


def test_a_witness_has_what_was_found_and_no_large_array(failed):
    result, failure = failed
    witness = describe(failure, result.bench, "kernel.py:late", None, [])
    assert witness["large"]
    assert "serving.case" == witness["case"]["scenario"]
    assert {} == witness["case"]["literals"]
    assert "[1, 1, 150, 64], nearly normal numbers" == witness["arrays"]["k"]
    assert "k" not in witness["sizes"]
    outcome = witness["outcome"]
    assert ("out", [0, 1, 69]) == (outcome["output"], outcome["where"][:3])
    assert pytest.approx(1.01, rel=1e-3) == outcome["found"] / outcome["expected"]
    assert outcome["units"] == failure.outcome.excess > 1
