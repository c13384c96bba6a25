"""Calls as the definition and candidates have them."""

from dataclasses import replace

import numpy as np
import pytest

from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.cases.samples import Sample
from attnspec.diagnosis.observations import Observation
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
    assert defined is Observation(trial, trial.base, one.claims.grade("float32")).defined()
