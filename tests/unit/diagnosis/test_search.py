"""Among candidates, one is taken for the fault of a subject only if it reaches as far."""

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.plans import scenarios_of
from attnspec.diagnosis.candidates import stock
from attnspec.diagnosis.observations import Observation
from attnspec.diagnosis.search import Search
from attnspec.diagnosis.variants import varied
from attnspec.judging.bench import Bench
from attnspec.judging.trial import Trial
from attnspec.language.expressions import Expression
from attnspec.mechanisms.loader import library
from attnspec.numerics.grades import STANDARD
from attnspec.subjects.stand_ins import DefinitionSubject
from attnspec.subjects.targets import subject

GRADE = STANDARD["float32"]


def uniform(always):
    """Attention that takes the mean of all values, always or where no scale is given."""

    def attention(q, k, v, *, scale=None):
        factor = 0.0 if always or scale is None else scale
        s = factor * q @ np.swapaxes(np.repeat(k, q.shape[1] // k.shape[1], 1), -1, -2)
        e = np.exp(s - s.max(-1, keepdims=True, initial=-np.inf))
        return (e / e.sum(-1, keepdims=True)) @ np.repeat(v, q.shape[1] // k.shape[1], 1)

    return attention


def search(always):
    m = library()["attention"]
    one = subject(Adapter("uniform", "attention", uniform(always), "numpy", conventions={"grouping": "block"}))
    bench = Bench(one, m, "float32", "cpu", m.words)
    sample = next(s for s in scenarios_of(m, one.claims, seed=0, dtype="float32") if s.case.label == "plain")
    trial = Trial(bench, sample)
    observation = Observation(trial, trial.base, GRADE)
    assert observation.answered()
    candidates = [c for c in stock(bench) if c.name == "attention.zero_by_default"]
    return Search(bench, candidates, [], [observation], GRADE, 0)


def test_what_is_wrong_only_without_an_option_is_not_the_fault_of_what_is_wrong_with_it_too():
    left = []
    for always in (False, True):
        one = search(always)
        left.append(len(one.reaching(one.candidates)))
    assert [1, 0] == left


def test_what_has_another_shape_where_keys_and_values_differ_does_not_take_keys_for_values_where_they_can_be():
    m = library()["padded_pack"]
    text = m.definition["values"].text.replace("v,", "k,")
    one = DefinitionSubject(m, "keys", {"values": Expression(text, m.definition["values"].scope)})
    samples = [s for s in scenarios_of(m, one.claims, seed=0, dtype="float32") if s.case.label == "plain"]
    bench = Bench(one, m, "float32", "cpu", m.words)
    trials = [Trial(bench, s) for s in samples if s.mechanism is m]
    observed = [Observation(trial, trial.base, GRADE) for trial in trials]
    swapped = [c for c in varied(m) if c.name == "attention.swapped"]
    found = Search(bench, swapped, [], [o for o in observed if o.answered()], GRADE, 0)
    assert 1 == len(swapped) == len([*found.fitting()])
    assert [] == found.reaching(swapped)


def causal(q, k, v):
    """Attention that is always causal, and gives NaN for a query before all keys, which nobody asked about."""
    s = q @ np.swapaxes(np.repeat(k, q.shape[1] // k.shape[1], 1), -1, -2) / np.sqrt(q.shape[-1])
    row, column = np.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2], np.arange(k.shape[2])
    with np.errstate(invalid="ignore"):
        s = np.where(column > row, -np.inf, s)
        e = np.exp(s - s.max(-1, keepdims=True, initial=-np.inf))
        return (e / e.sum(-1, keepdims=True)) @ np.repeat(v, q.shape[1] // k.shape[1], 1)


def test_a_mistake_is_found_that_has_kept_a_convention_from_being_identified():
    m = library()["attention"]
    one = subject(Adapter("causal", "attention", causal, "numpy", conventions={"grouping": "block"}))
    bench = Bench(one, m, "float32", "cpu", m.words)
    samples = [s for s in scenarios_of(m, one.claims, seed=0, dtype="float32") if s.entries < 2_000][:40]
    observed = [Observation(trial, trial.base, GRADE) for trial in (Trial(bench, sample) for sample in samples)]
    found = Search(bench, [*stock(bench)], [], [o for o in observed if o.answered()], GRADE, 0)
    assert [] == [*found.fitting()]
    assert "attention.always_causal and empty_row = nans" in [pair.name for pair in found.worded()]


def inverted(shift):
    """Attention whose causal mask hides what is to be seen, so that some query sees nothing and returns NaN."""

    def attention(q, k, v, *, causal=False):
        s = q @ np.swapaxes(np.repeat(k, q.shape[1] // k.shape[1], 1), -1, -2) / np.sqrt(q.shape[-1])
        with np.errstate(invalid="ignore"):
            s = np.where(causal & np.tri(*s.shape[-2:], shift * (k.shape[2] - q.shape[2]), bool), -np.inf, s)
            e = np.exp(s - s.max(-1, keepdims=True, initial=-np.inf))
            return (e / e.sum(-1, keepdims=True)) @ np.repeat(v, q.shape[1] // k.shape[1], 1)

    return attention


@pytest.mark.parametrize(
    ("shift", "words"), [(1, "empty_row = nans"), (0, "causal_alignment = top_left and empty_row = nans")]
)
def test_a_mistake_is_found_by_one_or_two_words_where_all_that_it_is_seen_in_is_spoilt_by_nan(shift, words):
    m = library()["causal_mask"]
    one = subject(Adapter("inverted", "attention", inverted(shift), "numpy", conventions={"grouping": "block"}))
    bench = Bench(one, m, "float32", "cpu", m.words)
    samples = [s for s in scenarios_of(m, one.claims, seed=0, dtype="float32") if s.entries < 2_000][:40]
    observed = [Observation(trial, trial.base, GRADE) for trial in (Trial(bench, sample) for sample in samples)]
    found = Search(bench, [*stock(bench)], [], [o for o in observed if o.answered()], GRADE, 0)
    assert [] == [*found.fitting()]
    assert [f"causal_mask.complement and {words}"] == [pair.name for pair in found.worded()]
