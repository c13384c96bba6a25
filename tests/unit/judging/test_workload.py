"""The verdicts on calls of a workload."""

from __future__ import annotations

import numpy as np

from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import NONE
from attnspec.mechanisms.workloads import Use
from attnspec.subjects.targets import subject

KNOWN = NONE.library()
SIZES = {"batch": 2, "heads": 2, "kv_heads": 2, "q_len": 5, "k_len": 7, "head_dim": 8, "value_dim": 4}
WORDS = {"causal_alignment": "bottom_right", "empty_row": "zeros", "masked_nonfinite": "ignored", "grouping": "block"}


def attention(q, k, v):
    s = np.einsum("bhqd,bhkd->bhqk", q, k) * np.float32(q.shape[-1] ** -0.5)
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bhqk,bhke->bhqe", p / p.sum(-1, keepdims=True), v)


def cells(function, operator, *uses, **more):
    one = subject(Adapter("kernel", operator, function, "numpy", conventions=WORDS if operator == "attention" else {}))
    workload = {f"workload.{use.key}": use for use in uses}
    request = Request(
        one, KNOWN[operator], "float32", PROFILES["quick"], laws=frozenset(workload), workload=workload, **more
    )
    return run(request).cells


def test_calls_have_a_verdict_each_in_their_order_and_nothing_else_has():
    uses = [Use("attention", "float32", {**SIZES, "k_len": n}) for n in (7, 3, 600)]
    found = cells(attention, "attention", *uses)
    assert [(f"workload.{use.key}", "pass", 1) for use in uses] == [(c.law, c.verdict, c.cases) for c in found]


def test_a_kernel_that_is_wrong_at_one_length_fails_there_alone():
    def kernel(q, k, v):
        return attention(q, k, v) * (1.01 if k.shape[2] in (7, 600) else 1)

    found = cells(kernel, "attention", *(Use("attention", "float32", {**SIZES, "k_len": n}) for n in (7, 8, 600, 601)))
    assert ["fail", "pass", "fail", "pass"] == [cell.verdict for cell in found]
    small, large = found[0].failure, found[2].failure
    assert small is not None
    assert large is not None
    assert ("definition", True) == (small.law, large.large is not None)


def test_a_kernel_that_takes_every_array_for_contiguous_fails_on_strides():
    def kernel(q, k, v):
        return attention(np.lib.stride_tricks.as_strided(q, q.shape, np.empty(q.shape, q.dtype).strides), k, v)

    plain = Use("attention", "float32", SIZES)
    apart = Use("attention", "float32", SIZES, strides={"q": (80, 8, 16, 1)})
    assert ["pass", "fail"] == [cell.verdict for cell in cells(kernel, "attention", plain, apart)]
    assert ["pass", "pass"] == [cell.verdict for cell in cells(attention, "attention", plain, apart)]


def test_an_operator_that_is_evaluated_as_a_whole_is_judged_as_well():
    def rms_norm(x, weight, *, eps=1e-5):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight * (1.001 if len(x) == 300 else 1)

    uses = [Use("rms_norm", "float32", {"rows": rows, "n": 64}) for rows in (299, 300)]
    assert ["pass", "fail"] == [cell.verdict for cell in cells(rms_norm, "rms_norm", *uses)]


def test_what_is_not_taken_is_not_declared_and_says_why():
    (cell,) = cells(attention, "attention", Use("attention", "float32", SIZES, {"causal": True}))
    assert ("not_declared", "does not take causal = True") == (cell.verdict, cell.says)


def test_what_is_too_large_is_not_tested():
    (cell,) = cells(attention, "attention", Use("attention", "float32", {**SIZES, "k_len": 10**6}), memory=1 << 28)
    assert "not_tested" == cell.verdict
    assert "--memory is 0.25 GB" in cell.says
