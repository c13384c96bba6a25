"""When a failure is one for which a name was sought before."""

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.diagnosis import repeated
from attnspec.diagnosis.answered import observed
from attnspec.diagnosis.likeness import Likeness, Nearest
from attnspec.diagnosis.repeated import Erring, Sought
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.runs.explaining import headline
from attnspec.subjects.targets import subject

SOFTMAX = library()["softmax"]
NEAREST = Nearest("softmax.tail_lost", "The last entry is left out.", 3, 9)


def softmax_times(factor):
    """Softmax that is wrong by a factor, which a dtype may choose."""

    def softmax(x):
        y = np.exp(x - x.max(-1, keepdims=True))
        return (factor(x.dtype) * y / y.sum(-1, keepdims=True)).astype(x.dtype)

    return subject(Adapter("kernel", "softmax", softmax, "numpy", dtypes=("float64", "float32")))


def failed(one, dtype):
    """The bench of a run, its failure, and the calls that are looked at."""
    result = run(Request(one, SOFTMAX, dtype, PROFILES["smoke"], laws=frozenset({"definition"})))
    failure = headline([cell for cell in result.cells if cell.bad], SOFTMAX).failure
    return result.bench, failure, observed(result.bench, failure, 0)


def sought(one, found=NEAREST):
    known = Sought()
    known.keep(*failed(one, "float64"), 1.0, found)
    return known


def test_the_same_mistake_in_another_dtype_is_known():
    one = softmax_times(lambda _: 2)
    assert NEAREST == sought(one).before(*failed(one, "float32"), 1.0).nearest


@pytest.mark.parametrize("other", [3, 0.5, -2])
def test_another_mistake_in_another_dtype_is_not_known(other):
    one = softmax_times(lambda dtype: 2 if dtype == "float64" else other)
    assert sought(one).before(*failed(one, "float32"), 1.0) is None


def test_a_name_is_sought_again_for_more_time_among_others_and_where_one_was_found(monkeypatch):
    one = softmax_times(lambda _: 2)
    call = failed(one, "float32")
    assert sought(one).before(*call, 1.5) is None
    assert sought(one, Likeness((), 1)).before(*call, 1.0) is None
    known = sought(one)
    monkeypatch.setattr(repeated, "stock", lambda _: iter(()))
    assert known.before(*call, 1.0) is None


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1.0, 0.0], [1.2, 0.1], True),
        ([1.0, 0.0], [1.4, 0.0], False),
        ([1.0, 0.0], [0.0, 1.0], False),
        ([1.0, np.nan], [1.0, np.nan], True),
        ([1.0, np.nan], [1.0, 1.0], False),
        ([1.0], [1.0, 1.0], False),
    ],
)
def test_errors_are_alike_by_a_share_of_the_largest_one(one, other, expected):
    first, second = (Erring({"y": np.array(x)}, {"y": 0.0}, right=False) for x in (one, other))
    assert expected == first.alike(second)


def test_what_bounds_allow_is_no_difference():
    first, second = (Erring({"y": np.array([x])}, {"y": 0.2}, right=False) for x in (1.0, 0.5))
    assert first.alike(second)


def turned(dtype):
    """Attention over items that returns the logarithms of its sums with their axes exchanged, and NaN."""

    def kernel(q, k, v, q_lens, k_lens):
        return {"out": np.full((*q.shape[:2], v.shape[-1]), np.nan, q.dtype), "lse": np.zeros(q.shape[:2], q.dtype)}

    one = subject(Adapter("kernel", "packed_attention", kernel, "numpy", dtypes=("float64", "float32")))
    mechanism = library()["packed_attention"]
    result = run(Request(one, mechanism, dtype, PROFILES["smoke"], laws=frozenset({"definition"})))
    failure = headline([cell for cell in result.cells if cell.bad], mechanism).failure
    return result.bench, failure, observed(result.bench, failure, 0)


def test_outputs_of_another_shape_are_compared_without_bounds():
    known = Sought()
    known.keep(*turned("float64"), 1.0, None)
    assert known.before(*turned("float32"), 1.0) is not None
