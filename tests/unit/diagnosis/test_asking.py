"""A subject is asked about cases that tell what agrees with it everywhere from what does so by chance."""

from collections import Counter

import numpy as np

from attnspec.adapters import Adapter
from attnspec.cases.plans import scenarios_of
from attnspec.diagnosis import asking as asked
from attnspec.diagnosis.asking import VAIN, Asking
from attnspec.diagnosis.candidates import stock
from attnspec.diagnosis.conditional import conditioned
from attnspec.diagnosis.conditions import Condition, Literal
from attnspec.diagnosis.observations import Observation
from attnspec.judging.bench import Bench
from attnspec.judging.trial import Trial
from attnspec.mechanisms.loader import library
from attnspec.numerics.grades import STANDARD
from attnspec.subjects.targets import subject

GRADE = STANDARD["float32"]


def uniform(q, k, v, *, scale=None, causal=False):
    """Attention that takes the mean of all values."""
    group = q.shape[1] // k.shape[1]
    s = 0 * q @ np.swapaxes(np.repeat(k, group, 1), -1, -2)
    s = np.where(np.tri(*s.shape[-2:], s.shape[-1] - s.shape[-2], dtype=bool) | (not causal), s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True, initial=-np.inf))
    return (e / e.sum(-1, keepdims=True)) @ np.repeat(v, group, 1)


def asking():
    m = library()["attention"]
    one = subject(Adapter("uniform", "attention", uniform, "numpy", conventions={"grouping": "block"}))
    bench = Bench(one, m, "float32", "cpu", m.words)
    sample = next(s for s in scenarios_of(m, one.claims, seed=0, dtype="float32") if s.case.label == "plain")
    trial = Trial(bench, sample)
    observation = Observation(trial, trial.base, GRADE)
    assert observation.answered()
    return Asking(bench, [observation], GRADE, 0)


def test_beside_further_wrong_cases_options_have_their_other_values_and_inputs_are_given():
    one = asking()
    alone = {o.trial.sample.key for o in one.beside()}
    m, claims = one.bench.mechanism, one.bench.subject.claims
    sample = next(s for s in scenarios_of(m, claims, seed=0, dtype="float32") if s.case.label != "plain")
    trial = Trial(one.bench, sample)
    one.wrong.append(Observation(trial, trial.base, GRADE))
    assert one.wrong[1].answered()
    further = [o.trial.sample for o in one.beside() if o.trial.sample.key not in alone]
    assert {0.0, -0.5, 0.3} <= {sample.values["scale"] for sample in further}


def test_what_holds_on_all_cases_on_which_a_candidate_agrees_is_left_in_turn():
    one = asking()
    mistake = next(c for c in stock(one.bench) if c.name == "attention.zero_by_default")
    found = [o.facts for o in one.rivals(mistake)]
    plain = one.wrong[0].facts
    assert found
    assert not any(facts.options["scale"] is not None for facts in found)  # where a scale is given it tells nothing
    assert any(facts.options["causal"] for facts in found)
    for name in ("batch", "k_len", "value_dim"):
        assert plain.sizes[name] > min(facts.sizes[name] for facts in found)


def test_what_was_answered_is_known_to_whatever_is_searched_for_next():
    one = asking()
    given = one.given
    further = next(one.beside())
    assert one.answered(further)
    assert [further] == given[1:]
    assert one.answered(one.observation(further.trial.sample))
    assert 2 == len(given)


def test_outside_of_what_holds_on_all_cases_fresh_ones_are_drawn_on_which_a_candidate_shows(monkeypatch):
    monkeypatch.setattr(asked, "OUTSIDE", 60)  # whatever the machine takes for them
    one = asking()
    mistake = next(c for c in stock(one.bench) if c.name == "attention.zero_by_default")
    plain, found = one.wrong[0].facts, [*one.outside(mistake)]
    assert found
    assert all(o.tells(mistake) for o in found)
    for name in ("batch", "k_len", "value_dim"):
        assert plain.sizes[name] > min(o.facts.sizes[name] for o in found)


def test_what_nothing_shows_without_is_given_up_after_some_cases(monkeypatch):
    one, moved = asking(), Counter()
    monkeypatch.setattr(asked, "now", lambda: 0.0)
    monkeypatch.setattr(asked, "beyond", lambda sample, claims, literal: moved.update([literal.key]))
    mistake = next(c for c in stock(one.bench) if c.name == "attention.zero_by_default")
    assert [] == [*one.outside(mistake)]
    assert {VAIN} == {*moved.values()}


def test_outside_of_a_condition_are_cases_on_which_what_is_made_under_it_would_show(monkeypatch):
    monkeypatch.setattr(asked, "OUTSIDE", 60)  # whatever the machine takes for them
    one = asking()
    mistake = next(c for c in stock(one.bench) if c.name == "attention.zero_by_default")
    many = conditioned(mistake, Condition((Literal("from", "batch", 2),)))
    found = [o for o in one.outside(many) if not o.tells(many)]
    assert found
    assert all(1 == o.facts.sizes["batch"] and o.tells(mistake) for o in found)
