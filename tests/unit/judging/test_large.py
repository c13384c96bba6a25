"""Cases of the sizes of production: every row is looked at, and some are judged."""

from __future__ import annotations

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.large import large_sample
from attnspec.judging.bench import Bench
from attnspec.judging.large import Large, Unroomy
from attnspec.mechanisms.loader import NONE
from attnspec.mechanisms.serving import _assigned, _scope
from attnspec.numerics.grades import looser
from attnspec.subjects.targets import subject

ATTENTION = NONE.library()["attention"]
SIZES = "batch = 2, kv_heads = 2, heads = 4, q_len = 70, k_len = 96, head_dim = 16, value_dim = 16"


def attention(q, k, v):
    import numpy

    k, v = (numpy.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q @ k.swapaxes(-1, -2) * numpy.float32(q.shape[-1] ** -0.5)
    p = numpy.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


def tiled(q, k, v):
    k, v = (np.tile(x, (1, q.shape[1] // x.shape[1], 1, 1)) for x in (k, v))
    return attention(q, k, v)


def large(function, sizes=SIZES, words=None, seconds=60.0, memory=1 << 30, framework="numpy", dtype="float32", **more):
    claims = {"dtypes": (dtype,), "conventions": words or {}, **more}
    one = subject(Adapter("kernel", "attention", function, framework, **claims))
    sample = large_sample(ATTENTION, "case", _assigned(sizes, _scope(ATTENTION)), one.claims, dtype, 0)
    bench = Bench(one, ATTENTION, dtype, "cpu", {**ATTENTION.words, **(words or {})})
    return Large(bench, sample, memory=memory, seconds=seconds)


def judged(function, **more):
    return large(function, **more).judged(
        looser("float32", looser("float32", large(function).bench.subject.claims.grade("float32"))[0])
    )


def test_a_right_function_is_not_accused():
    found = judged(attention)
    assert not found.refuted
    assert 0 < found.excess < 1
    assert found.seen == found.rows == 2 * 4 * 70


def test_heads_that_take_turns_are_those_of_their_word():
    assert not judged(tiled, words={"grouping": "tiled"}).refuted
    assert judged(tiled).refuted


@pytest.mark.parametrize("row", [(0, 0, 0), (1, 3, 69), (1, 2, 37)])
def test_one_wrong_row_is_found(row):
    def kernel(q, k, v):
        out = attention(q, k, v)
        out[row] *= np.float32(1.05)
        return out

    found = judged(kernel)
    assert found.refuted
    assert found.says.startswith(f"out[{', '.join(map(str, row))}, ")


def test_an_entry_that_is_no_number_is_found():
    def kernel(q, k, v):
        out = attention(q, k, v)
        out[1, 1, 5, 3] = np.nan
        return out

    assert np.inf == judged(kernel).excess


def test_rows_are_left_out_where_there_is_no_time():
    found = large(attention, seconds=0.0)
    found = found.judged([looser("float32", found.bench.subject.claims.grade("float32"))[0]])
    assert 0 < found.seen < found.rows
    assert not found.refuted


def test_what_needs_more_memory_is_refused_with_its_size():
    with pytest.raises(Unroomy, match=r"k_len = 96.* takes about [0-9.e-]+ GB, and --memory is 9.313e-07 GB"):
        judged(attention, memory=1000)


def test_a_coarser_precision_is_told():
    def kernel(q, k, v):
        return attention(q, k, (v.astype(np.float16)).astype(np.float32))

    found = judged(kernel)
    assert found.refuted
    assert found.says.startswith("behaves as tf32, claims fp32: out[")


def test_the_worst_entry_and_the_rows_like_it_are_told():
    def kernel(q, k, v):
        out = attention(q, k, v)
        out[1, 3, 40:] += np.float32(0.5)
        return out

    found = judged(kernel)
    assert (1, 3) == found.worst.where[:2]
    assert "out" == found.worst.output
    assert found.worst.units == found.excess
    assert pytest.approx(0.5, abs=1e-5) == found.worst.found - found.worst.expected
    assert 0 < found.worst.bound < 1e-4
    assert 0 < found.worst.spoiled < found.worst.entries
    expected = np.zeros((2, 4, 70), bool)
    expected[1, 3, 40:] = True
    assert np.array_equal(expected, found.wrong)
    assert ("batch", "heads", "q_len") == found.labels


def test_what_is_right_has_no_worst_entry():
    assert judged(attention).worst is None


def counted(second):
    """A function that is right when it is called first, and gives a `second` of what is right after that."""
    calls = []

    def kernel(q, k, v):
        calls.append(None)
        out = attention(q, k, v)
        return out if len(calls) == 1 else second(out)

    return kernel


def test_the_same_call_is_made_once_more_and_judged_where_its_bits_are_others():
    def second(out):
        out[1, 3, 50] *= np.float32(1.05)
        return out

    found = judged(counted(second))
    assert found.refuted
    assert found.says.startswith("the same call once more, with new memory full of NaN: out[1, 3, 50, ")
    assert (True, "'out'") == (found.again, found.unlike)


def test_entries_that_are_not_written_are_found_where_their_memory_held_the_right_ones():
    def second(out):
        written = np.empty(out.shape, out.dtype)
        written[:, :, 1:] = out[:, :, 1:]
        return written

    found = judged(counted(second))
    assert np.inf == found.excess
    assert found.says.startswith("the same call once more, with new memory full of NaN: out[")
    assert "is nan" in found.says


def once_more(out):
    return np.nextafter(out, np.float32(np.inf))


def test_other_bits_that_are_right_are_noted():
    found = judged(counted(once_more))
    assert not found.refuted
    assert (True, "'out'") == (found.again, found.unlike)


def test_other_bits_are_wrong_where_the_subject_claims_to_have_the_same():
    case = large(counted(once_more), deterministic=True)
    found = case.judged([looser("float32", case.bench.subject.claims.grade("float32"))[0]])
    assert "the same call once more, with new memory full of NaN: other bits of 'out'" == found.says


@pytest.mark.parametrize("entry", [np.nan, 9.0, -9.0])
def test_what_no_average_can_be_is_found_in_rows_that_there_is_no_time_for(entry):
    where = (1, 0, 65, 7)

    def kernel(q, k, v):
        out = attention(q, k, v)
        out[where] = entry
        return out

    case = large(kernel, seconds=0.0)
    found = case.judged([looser("float32", case.bench.subject.claims.grade("float32"))[0]])
    assert found.seen < found.rows
    assert found.refuted
    assert where == found.worst.where
