"""Caches within a budget: the one that has not grown for longest is emptied."""

import numpy as np
import pytest

from attnspec.cases.cache import OVERHEAD, Kept, Ledger, size_of
from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.cases.samples import Sample
from attnspec.judging.bench import Bench
from attnspec.judging.trial import Trial
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.numerics.grades import FP32
from attnspec.numerics.numbers import Number
from attnspec.subjects.stand_ins import DefinitionSubject
from attnspec.subjects.subject import Reply

ROW = np.zeros(1000)
SIZE = 8000 + OVERHEAD


def test_the_cache_that_has_not_grown_for_longest_is_emptied():
    ledger = Ledger(3 * SIZE)
    first, second, third = (Kept(ledger) for _ in range(3))
    first["a"] = second["a"] = third["a"] = ROW
    first["b"] = ROW
    assert (["a", "b"], [], ["a"]) == (list(first), list(second), list(third))
    assert 3 * SIZE == ledger.total


def test_a_cache_keeps_what_it_has_just_taken_in_however_large_it_is():
    kept = Kept(Ledger(1))
    kept["a"] = kept["b"] = ROW
    assert ["a", "b"] == list(kept)


def test_what_is_no_longer_in_use_is_not_counted():
    ledger = Ledger(10 * SIZE)
    one, other = Kept(ledger), Kept(ledger)
    one["a"] = one["a"] = other["a"] = ROW
    assert 2 * SIZE == ledger.total
    other.clear()
    assert SIZE == ledger.total
    del one
    assert 0 == ledger.total


@pytest.mark.parametrize(
    ("held", "size"),
    [
        (ROW, SIZE),
        ((ROW, ROW), 2 * SIZE + OVERHEAD),
        ({"out": ROW}, SIZE + OVERHEAD),
        (Number(ROW), 8000 + 3 * 8 + OVERHEAD),
        (Number(ROW, ROW, ROW, ROW), 4 * 8000 + OVERHEAD),
        (Reply({"out": ROW}), SIZE + 5 * OVERHEAD),
        ("plain", OVERHEAD),
        (None, OVERHEAD),
    ],
)
def test_sizes_are_those_of_arrays_with_a_little_more(held, size):
    assert size == size_of(held)


@pytest.mark.parametrize("name", ["attention", "swiglu", "dropout"])
@pytest.mark.parametrize("grade", [None, FP32])
def test_frames_say_about_how_much_their_lines_hold(name, grade):
    m = library()[name]
    samples = plan(m, DefinitionSubject(m, "definition").claims, PROFILES["quick"], 0, "float32").scenarios
    frames = [Frame(m, sample.values, grade=grade, dtype="float32") for sample in samples]
    for frame in frames:
        frame.outputs()
    held = sum(size_of(x) - OVERHEAD for frame in frames for x in frame.memo.values())
    assert held / 6 < sum(frame.nbytes for frame in frames) < 6 * held


def test_samples_have_a_cache_of_their_own():
    m = library()["softmax"]
    sample = plan(m, DefinitionSubject(m, "definition").claims, PROFILES["quick"], 0, "float32").scenarios[0]
    assert (Sample, Kept) == (type(sample), type(sample.cache))


def test_lines_of_a_definition_put_no_results_out_of_the_cache():
    m = library()["softmax"]
    one = DefinitionSubject(m, "definition")
    case = plan(m, one.claims, PROFILES["quick"], 0, "float32").scenarios[0].case
    frames = Trial(Bench(one, m, "float32", "cpu", m.words), Sample(m, case, "float32")).frames
    frames.exact("p", frames.base)
    kinds = [{key[0] for key in kept if type(key) is tuple} for kept in (frames.cache, frames.passing)]
    assert [{"softmax"}, {"frame"}] == kinds
    assert frames.cache.ledger is not frames.passing.ledger
