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
