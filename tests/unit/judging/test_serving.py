"""The verdicts on large cases, and only those that are asked for."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.adapters.faults.attention import COMPOSED
from attnspec.cases.large import large_again
from attnspec.cases.profiles import PROFILES
from attnspec.judging.bench import Bench
from attnspec.judging.cells import Request, large_names, sentence_of
from attnspec.judging.engine import run
from attnspec.judging.serving import served_again
from attnspec.mechanisms.loader import NONE
from attnspec.subjects.registered import fault
from attnspec.subjects.targets import subject

ATTENTION = NONE.library()["attention"]
PACKED = NONE.library()["packed_attention"]
WORDS = {"causal_alignment": "bottom_right", "empty_row": "zeros", "masked_nonfinite": "ignored", "grouping": "block"}


def packed(q, k, v, q_lens, k_lens, *, causal=False):
    out, q_at, k_at = np.zeros((*q.shape[:2], v.shape[2]), np.float32), 0, 0
    for m, n in zip(q_lens, k_lens, strict=True):
        rows, keys, values = q[q_at : q_at + m], k[k_at : k_at + n], v[k_at : k_at + n]
        keys, values = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (keys, values))
        if m and n:
            s = np.einsum("qhd,khd->hqk", rows, keys) * np.float32(q.shape[2] ** -0.5)
            hidden = np.arange(m)[:, None] + (n - m) < np.arange(n)
            s = np.where(hidden & causal, -np.inf, s).astype(np.float32)
            p = np.exp(s - s.max(-1, keepdims=True))
            out[q_at : q_at + m] = np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), values)
        q_at, k_at = q_at + m, k_at + n
    return out


def cells(function, *names, memory=4 << 30, device="cpu", **declared):
    one = subject(Adapter("kernel", "packed_attention", function, "numpy", conventions=WORDS, **declared))
    laws = frozenset(f"serving.{name}" for name in names)
    return run(Request(one, PACKED, "float32", PROFILES["serving"], device, laws=laws, memory=memory)).cells


def test_each_case_has_a_verdict_of_its_own():
    found = cells(packed, "many_items", "decode_unlike")
    assert [("serving.decode_unlike", "pass"), ("serving.many_items", "pass")] == [(c.law, c.verdict) for c in found]
    assert all(0 < cell.worst < 1 for cell in found)


def test_a_wrong_entry_is_told_with_its_place():
    def kernel(q, k, v, q_lens, k_lens, *, causal=False):
        out = packed(q, k, v, q_lens, k_lens, causal=causal)
        out[-1, 0, 0] += 1
        return out

    (cell,) = cells(kernel, "many_items")
    assert "fail" == cell.verdict
    assert cell.says.startswith("serving.many_items: out[299, 0, 0] is ")
    assert "Every output agrees with the definition, at production sizes." == sentence_of(PACKED, cell.law)


def in_ten_bits(q, k, v, q_lens, k_lens, *, causal=False):
    cut = ((x.view(np.int32) & -(1 << 13)).view(np.float32) for x in (q, k, v))
    return packed(*cut, q_lens, k_lens, causal=causal)


@pytest.mark.parametrize(
    ("device", "declared", "verdict"), [("cpu", {}, "fail"), ("cuda", {}, "pass"), ("cuda", {"grade": "fp32"}, "fail")]
)
def test_precision_that_is_usual_on_a_device_stands_at_production_sizes(device, declared, verdict):
    (cell,) = cells(in_ten_bits, "decode_unlike", device=device, **declared)
    assert (verdict, cell.says.startswith("serving.decode_unlike: behaves as tf32")) == (
        cell.verdict,
        verdict == "fail",
    )


def test_a_case_that_does_not_fit_is_not_tested():
    (cell,) = cells(packed, "many_items", memory=1)
    assert "not_tested" == cell.verdict
    assert "items = 300" in cell.says


def test_what_is_not_taken_is_not_declared():
    (cell,) = cells(lambda q, k, v, q_lens, k_lens: None, "decode_unlike")
    assert ("not_declared", "does not take causal") == (cell.verdict, cell.says)


def test_every_case_has_a_name():
    assert "serving.decode_unlike" in large_names(PACKED)


def tiled(function, **more):
    one = subject(Adapter("kernel", "packed_attention", function, "numpy", conventions=WORDS, **more))
    (cell,) = run(Request(one, PACKED, "float32", PROFILES["serving"], laws=frozenset({"serving.tiles"}))).cells
    return cell


def test_lengths_on_both_sides_of_declared_tiles_are_tried():
    def kernel(q, k, v, q_lens, k_lens, *, causal=False):
        out = packed(q, k, v, q_lens, k_lens, causal=causal)
        out[0] += q_lens[0] == 1 and k_lens[0] == 48 * 8 + 1
        return out

    assert ("not_declared", "declares no tiles") == (tiled(packed).verdict, tiled(packed).says)
    assert ("pass", 11) == (
        tiled(packed, tiles=(32, 48), splits=8).verdict,
        tiled(packed, tiles=(32, 48), splits=8).cases,
    )
    assert "pass" == tiled(kernel, tiles=(32, 48)).verdict
    found = tiled(kernel, tiles=(32, 48), splits=8)
    assert "fail" == found.verdict
    assert found.says.startswith("serving.pair_keys_385: out[0, ")


def test_a_case_is_judged_again_by_itself():
    def kernel(q, k, v, q_lens, k_lens, *, causal=False):
        out = packed(q, k, v, q_lens, k_lens, causal=causal)
        out[-1, 0, 0] += 1
        return out

    def again(function, case, name="serving.many_items"):
        one = subject(Adapter("kernel", "packed_attention", function, "numpy", conventions=WORDS))
        bench = Bench(one, PACKED, "float32", "cpu", {**PACKED.words, **WORDS})
        request = Request(one, PACKED, "float32", PROFILES["serving"])
        return served_again(request, bench, name, large_again(PACKED, case, one.claims, "float32"))

    (cell,) = cells(kernel, "many_items")
    found = again(kernel, cell.failure.sample.case)
    assert (cell.verdict, cell.says) == (found.verdict, found.says)
    assert "pass" == again(packed, cell.failure.sample.case).verdict
    assert "pass" == again(kernel, cell.failure.sample.case, "contract.bounds").verdict


def composed(name=None, **more):
    """A faulty function, or the right one, as a subject of attention."""
    one = subject(fault(f"fault:{name}") if name else Adapter("right", "attention", COMPOSED.right(), "torch", **more))
    return run(Request(one, ATTENTION, "float32", PROFILES["serving"], laws=frozenset({"contract.threads"})))


def test_threads_that_share_memory_are_refuted_where_safety_is_claimed():
    (cell,) = composed("workspace_of_all_threads").cells
    assert ("contract.threads", "fail", "must") == (cell.law, cell.verdict, cell.level)
    assert "in a turn beside other threads (others in " in cell.says
    (cell,) = composed(thread_safe=True, conventions=COMPOSED.conventions).cells
    assert "pass" == cell.verdict


def test_what_is_seen_of_threads_is_told_where_nothing_is_claimed():
    result = composed(conventions=COMPOSED.conventions)
    assert ("attention in float32: right beside calls of other threads",) == result.observed
    assert "not_declared" == result.cells[0].verdict


def test_under_stress_the_turn_that_differs_most_is_judged():
    numbers = itertools.count()

    def kernel(q, k, v, q_lens, k_lens, *, causal=False):
        own = threading.current_thread() is threading.main_thread() and len(q) == 300
        return packed(q, k, v, q_lens, k_lens, causal=causal) + (own and next(numbers) == 2)

    one = subject(Adapter("kernel", "packed_attention", kernel, "numpy", conventions=WORDS))
    laws = frozenset({"serving.many_items"})
    result = run(Request(one, PACKED, "float32", PROFILES["serving"], laws=laws, stress=4))
    assert "fail" == result.cells[0].verdict
    assert result.observed[0].startswith("serving.many_items in float32: others in 1 of 4 turns beside 2 threads: ")


def test_a_declared_requirement_hides_no_case_that_meets_it():
    one = subject(
        Adapter(
            "kernel", "packed_attention", packed, "numpy", conventions=WORDS, requires="not causal or size(q_lens) > 0"
        )
    )
    request = Request(one, PACKED, "float32", PROFILES["serving"], laws=frozenset({"serving.decode_unlike"}))
    assert [("serving.decode_unlike", "pass")] == [(cell.law, cell.verdict) for cell in run(request).cells]
