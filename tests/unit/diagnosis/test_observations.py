"""Calls as the definition and candidates have them."""

from dataclasses import replace

import numpy as np
import pytest

from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.cases.samples import Sample
from attnspec.diagnosis.candidates import Candidate, other_word, stock
from attnspec.diagnosis.observations import Observation, Stance
from attnspec.judging.bench import Bench
from attnspec.judging.trial import Trial
from attnspec.language.expressions import Expression
from attnspec.mechanisms.loader import library
from attnspec.subjects.stand_ins import DefinitionSubject
from attnspec.subjects.targets import mistake


@pytest.mark.parametrize(("reduction", "defined"), [("each", True), ("averaged", False)])
def test_the_definition_has_no_value_where_an_array_does_not_go_with_a_changed_option(reduction, defined):
    m = library()["cross_entropy_gradient"]
    one = DefinitionSubject(m, "definition")
    plain = next(s for s in plan(m, one.claims, PROFILES["quick"], 0, "float32").scenarios if s.case.label == "each")
    case = replace(
        plain.case,
        fixed={**plain.case.fixed, "reduction": reduction},
        literals={"d_out": np.asarray(plain.values["d_out"]).tolist()},
        scenario="",
    )
    trial = Trial(Bench(one, m, "float32", "cpu", m.words), Sample(m, case, "float32"))
    assert defined is Observation(trial, trial.base, one.claims.grade("float32")).defined()


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


def test_a_mistake_of_a_mechanism_is_not_made_in_calls_of_others_that_lack_what_it_is_about():
    m = library()["sunk_pages"]
    one = DefinitionSubject(m, "definition")
    plain = next(s for s in plan(m, one.claims, PROFILES["quick"], 0, "float32").scenarios if s.case.label == "plain")
    trial = Trial(Bench(one, m, "float32", "cpu", m.words), Sample(m, plain.case, "float32"))
    call = Observation(trial, trial.base, one.claims.grade("float32"))
    known = {c.name: c for c in stock(trial.bench)}
    names = "quantized_pages.key_scale_twice", "paged_attention.ignored_scale", "sunk_pages.ignored"
    stances = [call.stance(known[name]) for name in names]
    assert [Stance.SILENT, Stance.SILENT, Stance.DIFFERS] == stances


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
