"""Calls as the definition has them, and as a subject answers them."""

from dataclasses import replace

import numpy as np
import pytest

from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.cases.samples import Sample
from attnspec.diagnosis.compared import Compared
from attnspec.judging.bench import Bench
from attnspec.judging.trial import Trial
from attnspec.language.expressions import Expression
from attnspec.mechanisms.loader import library
from attnspec.subjects.stand_ins import DefinitionSubject


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
    assert defined is Compared(trial, trial.base, one.claims.grade("float32")).defined()


def test_the_positions_of_an_axis_at_which_an_output_is_wrong_are_known():
    m = library()["softmax"]
    one = DefinitionSubject(m, "last", m.mistakes["last_lost"].change)
    plain = next(s for s in plan(m, one.claims, PROFILES["quick"], 0, "float32").scenarios if s.case.label == "plain")
    trial = Trial(Bench(one, m, "float32", "cpu", m.words), Sample(m, plain.case, "float32"))
    call = Compared(trial, trial.base, one.claims.grade("float32"))
    assert call.answered()
    assert frozenset({"p"}) == call.wrong
    strays = call.strays()
    assert {"rows", "n"} >= strays.keys() > set()
    assert all(positions.all() for positions in strays.values())


def of_two_equal_blocks(first):
    """One who chooses the first or the last of all equal blocks."""
    m = library()["block_selection"]
    text = "largest(ranked, wanted)" if first else "largest(ranked[..., ::-1], wanted)[..., ::-1]"
    one = DefinitionSubject(m, "chooses", {"leading": Expression(text, m.definition["leading"].scope)})
    samples = plan(m, one.claims, PROFILES["quick"], 0, "float32").scenarios
    plain = next(s for s in samples if s.case.label == "nothing_is_important")
    trial = Trial(Bench(one, m, "float32", "cpu", m.words), Sample(m, plain.case, "float32"))
    return Compared(trial, trial.base, one.claims.grade("float32"))


@pytest.mark.parametrize("first", [True, False])
def test_where_outputs_are_choices_any_of_equals_may_be_chosen(first):
    call = of_two_equal_blocks(first)
    assert call.answered()
    assert first is np.array_equal(call.outputs["chosen"], call.exact.values["chosen"])
    assert call.right


def test_where_outputs_are_choices_what_is_forced_is_not_in_doubt():
    call = of_two_equal_blocks(True)
    doubt = np.asarray(call.exact.radius("chosen")) > 0
    assert 0 < doubt.mean() < 1


def test_what_is_drawn_is_not_compared():
    m = library()["dropout"]
    one = DefinitionSubject(m, "definition")
    sample = plan(m, one.claims, PROFILES["quick"], 0, "float32").scenarios[0]
    trial = Trial(Bench(one, m, "float32", "cpu", m.words), sample)
    assert [] == Compared(trial, trial.base, one.claims.grade("float32")).names
