"""What is read or written beyond an array, with the side and the distance."""

from __future__ import annotations

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.large import large_sample
from attnspec.cases.profiles import PROFILES
from attnspec.judging.bench import Bench
from attnspec.judging.cells import BOUNDS, Request
from attnspec.judging.engine import run
from attnspec.judging.large import Large
from attnspec.mechanisms.loader import NONE
from attnspec.mechanisms.serving import _assigned, _scope
from attnspec.numerics.grades import GRADES
from attnspec.subjects.targets import subject

ATTENTION = NONE.library()["attention"]
SIZES = "batch = 1, kv_heads = 2, heads = 2, q_len = 64, k_len = 64, head_dim = 64, value_dim = 64"


def attention(q, k, v):
    s = q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


def memory(x):
    """The memory that an array is a part of, and where it begins there."""
    whole = x
    while whole.base is not None:
        whole = whole.base
    return whole.ravel(), (x.__array_interface__["data"][0] - whole.__array_interface__["data"][0]) // 4


def judged(function, sizes=SIZES):
    one = subject(Adapter("kernel", "attention", function, "numpy"))
    sample = large_sample(ATTENTION, "case", _assigned(sizes, _scope(ATTENTION)), one.claims, "float32", 0)
    bench = Bench(one, ATTENTION, "float32", "cpu", ATTENTION.words)
    return Large(bench, sample, memory=1 << 30, seconds=60.0).judged([GRADES["fp32"]])


def test_what_stays_within_its_arrays_is_not_accused():
    assert "" == judged(attention).beyond


@pytest.mark.parametrize(
    ("name", "distance", "says"),
    [
        ("v", lambda x: x.size + 5, "the call reads behind 'v', 6 entries beyond it"),
        ("k", lambda x: -64, "the call reads in front of 'k', 64 entries beyond it"),
    ],
)
def test_what_is_read_beyond_an_array_is_told(name, distance, says):
    def kernel(q, k, v):
        x = {"k": k, "v": v}[name]
        flat, start = memory(x)
        return attention(q, k, v) + 0 * flat[start + distance(x)]

    assert says == judged(kernel).beyond


@pytest.mark.parametrize(
    ("distance", "says"),
    [
        (lambda x: x.size + 2, "the call wrote behind 'q', 3 entries beyond it"),
        (lambda x: -1, "the call wrote in front of 'q', 1 entries beyond it"),
    ],
)
def test_what_is_written_beyond_an_array_is_told(distance, says):
    def kernel(q, k, v):
        flat, start = memory(q)
        flat[start + distance(q)] = 7
        return attention(q, k, v)

    assert says == judged(kernel).beyond


@pytest.mark.parametrize(("distance", "says"), [(1, "reads behind"), (0, "")])
def test_what_is_read_beyond_a_small_array_is_told(distance, says):
    def kernel(q, k, v):
        flat, start = memory(q)
        return attention(q, k, v) + 0 * flat[start + q.size - 1 + distance]

    found = judged(kernel, SIZES.replace("q_len = 64", "q_len = 1")).beyond
    assert (says and f"the call {says} 'q', 1 entries beyond it") == found


def test_what_is_written_beyond_a_small_array_is_told():
    def kernel(q, k, v):
        flat, start = memory(q)
        flat[start + q.size] = 7
        return attention(q, k, v)

    found = judged(kernel, SIZES.replace("q_len = 64", "q_len = 1")).beyond
    assert "the call wrote behind 'q', 1 entries beyond it" == found


def test_nan_that_comes_from_elsewhere_is_not_read_beyond():
    assert "" == judged(lambda q, k, v: attention(q, k, v) * np.float32("nan")).beyond


def test_it_has_a_verdict_of_its_own():
    def kernel(q, k, v):
        flat, start = memory(v)
        return attention(q, k, v) + 0 * flat[start + v.size if start else 0]

    one = subject(Adapter("kernel", "attention", kernel, "numpy", limits={"kv_heads": (1,), "heads": (1,)}))
    laws = frozenset({"serving.pair_11", BOUNDS})
    cells = {cell.law: cell for cell in run(Request(one, ATTENTION, "float32", PROFILES["serving"], laws=laws)).cells}
    assert "fail" == cells[BOUNDS].verdict == cells["serving.pair_11"].verdict
    assert "serving.pair_11: the call reads behind 'v', 1 entries beyond it" == cells[BOUNDS].says


def test_it_is_asked_for_by_itself():
    def kernel(q, k, v):
        flat, start = memory(v)
        return attention(q, k, v) + 0 * flat[start + v.size if start else 0]

    one = subject(Adapter("kernel", "attention", kernel, "numpy", limits={"kv_heads": (1,), "heads": (1,)}))
    request = Request(one, ATTENTION, "float32", PROFILES["serving"], laws=frozenset({BOUNDS}))
    assert [(BOUNDS, "fail")] == [(cell.law, cell.verdict) for cell in run(request).cells]
