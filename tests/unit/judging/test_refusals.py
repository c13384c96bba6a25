"""What is refused: counted, and found out where it depends on the entries alone."""

import numpy as np
import pytest

from attnspec.adapters import Adapter, Unsupported
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject


def softmax(x):
    with np.errstate(all="ignore"):
        terms = np.exp(x - np.maximum(x.max(-1, keepdims=True), -1e30))
        return terms / np.maximum(terms.sum(-1, keepdims=True), 1e-30)


def refusing(says, where):
    def function(x):
        if where(x):
            raise Unsupported(says)
        return softmax(x)

    return function


def result_of(function, **declaration):
    adapter = Adapter("kernel", "softmax", function, "numpy", conventions={"empty_row": "zeros"}, **declaration)
    return run(Request(subject(adapter), library()["softmax"], "float32", PROFILES["quick"]))


@pytest.fixture(scope="module")
def right():
    return result_of(softmax)


def test_who_refuses_nothing_answers_every_scenario(right):
    assert ({}, {}) == (right.refusals.refused, right.refusals.by_value)
    assert set(library()["softmax"].scenarios) <= set(right.refusals.answered)


def test_refused_scenarios_are_kept_with_what_was_said(right):
    found = result_of(refusing("more than one entry", lambda x: x.shape[-1] > 1)).refusals
    assert {"more than one entry"} == set(found.refused.values())
    assert set(right.refusals.answered) == {*found.answered, *found.refused}
    assert len(found.answered) < 5


@pytest.mark.parametrize(
    ("says", "where", "by_value"),
    [
        ("wide", lambda x: x.shape[-1] > 4, False),
        ("half", lambda x: x.dtype == np.float16, False),
        ("large", lambda x: np.any(np.abs(x) > 80), True),
        ("no infinities", lambda x: not np.all(np.isfinite(x)), True),
        ("ties", lambda x: np.unique(x).size < x.size, True),
    ],
)
def test_who_answers_other_entries_of_the_same_sizes_refuses_by_value(says, where, by_value):
    found = result_of(refusing(says, where)).refusals
    assert ([says] if by_value else []) == list(found.by_value)


def test_what_is_beyond_declared_limits_and_conditions_is_no_refusal():
    wide = refusing("wide", lambda x: x.shape[-1] > 4)
    assert {} == result_of(wide, limits={"n": range(1, 5)}).refusals.refused
    assert {} == result_of(wide, requires="n <= 4").refusals.refused


def test_who_requires_what_no_case_meets_claims_nothing():
    cells = result_of(softmax, requires=("n > 1", "n < 1")).cells
    assert {("not_declared", "no case meets the requirements: n > 1, n < 1")} == {(c.verdict, c.says) for c in cells}


def test_calls_that_are_to_be_refused_are_made_whatever_is_required():
    def attention(q, k, v):
        return np.zeros((*q.shape[:3], v.shape[3]), q.dtype)

    def rejects(**declaration):
        adapter = Adapter("kernel", "attention", attention, "numpy", **declaration)
        laws = frozenset(library()["attention"].rejects)
        request = Request(subject(adapter), library()["attention"], "float32", PROFILES["smoke"], laws=laws)
        return {cell.law: cell.verdict for cell in run(request).cells if cell.verdict != "not_declared"}

    found = rejects()
    assert "fail" in found.values()
    assert found == rejects(requires="identical(q, q) and value_dim > 0")
    assert found == rejects(requires="heads == kv_heads")
