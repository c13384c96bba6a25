"""How candidates stand to what a subject returned."""

import pytest

from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.cases.samples import Sample
from attnspec.diagnosis.candidates import Candidate, other_word
from attnspec.diagnosis.observations import Observation, Stance
from attnspec.judging.bench import Bench
from attnspec.judging.trial import Trial
from attnspec.language.expressions import Expression
from attnspec.mechanisms.loader import library
from attnspec.subjects.stand_ins import DefinitionSubject
from attnspec.subjects.targets import mistake


def test_a_subject_that_returns_zeros_does_not_follow_a_word_that_asks_for_nan():
    m = library()["paged_attention"]
    one = mistake("paged_attention.lse_of_nothing_is_finite")
    plain = next(
        s for s in plan(m, one.claims, PROFILES["quick"], 0, "float32").scenarios if s.case.label == "idle_items"
    )
    trial = Trial(Bench(one, m, "float32", "cpu", m.words), Sample(m, plain.case, "float32"))
    call = Observation(trial, trial.base, one.claims.grade("float32"))
    assert ["lse"] == sorted(call.wrong)
    assert Stance.DIFFERS is call.stance(other_word("empty_row", "nans", "NaN"))


@pytest.mark.parametrize(
    ("candidate", "resembles"), [("1.001 * terms / total", True), ("0.999 * terms / total", False)]
)
def test_what_is_no_nearer_than_the_definition_resembles_nothing_however_near_both_are(candidate, resembles):
    m = library()["softmax"]
    scope = m.definition["p"].scope
    one = DefinitionSubject(m, "more", {"p": Expression.unread("1.001 * terms / total", scope)})
    plain = next(s for s in plan(m, one.claims, PROFILES["quick"], 0, "float32").scenarios if s.case.label == "plain")
    trial = Trial(Bench(one, m, "float32", "cpu", m.words), Sample(m, plain.case, "float32"))
    call = Observation(trial, trial.base, one.claims.grade("float32"))
    assert not call.right
    assert resembles is call.resembles(Candidate("less", "", {"p": Expression.unread(candidate, scope)}))


@pytest.mark.parametrize(("label", "stance"), [("one_key", Stance.SILENT), ("many_chosen", Stance.DIFFERS)])
def test_what_leaves_every_choice_open_does_not_choose_as_the_definition_does_by_chance(label, stance):
    m = library()["lightning_indexer"]
    one = DefinitionSubject(m, "definition")
    sample = next(s for s in plan(m, one.claims, PROFILES["quick"], 0, "float32").scenarios if s.case.label == label)
    trial = Trial(Bench(one, m, "float32", "cpu", m.words), sample)
    call = Observation(trial, trial.base, one.claims.grade("float32"))
    assert call.right
    equal = Expression.unread("0 * sum(matches, 1)", m.definition["scores"].scope)
    assert stance is call.stance(Candidate("equal", "", {"scores": equal}))
