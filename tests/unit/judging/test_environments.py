"""What a law is given, and what it may name."""

import numpy as np
import pytest

from attnspec.cases.samples import Case, Sample
from attnspec.errors import SpecError
from attnspec.judging.environments import LawEnvironment
from attnspec.judging.trial import Trial

ROW = np.array([0.5, 1.5, -1.0])


def test_what_a_law_is_given_is_the_same_for_all_subjects(offset, trial_of):
    trial = trial_of()
    law = offset.laws["further"]
    first, second = (LawEnvironment(each, law, None) for each in (trial, Trial(trial.bench, trial.sample)))
    assert first["c"] is second["c"]
    assert (3,) == first["c"].shape
    assert first["d"] in (1, 2)


def test_what_a_law_asks_of_a_subject_is_its_own(offset, trial_of):
    trial = trial_of()
    doubled = LawEnvironment(trial, offset.laws["itself"], None)["z"]
    other = trial_of(y=ROW + 1)
    shared = Trial(other.bench, trial.sample)
    np.testing.assert_array_equal(2 * ROW, doubled.value)
    np.testing.assert_array_equal(2 * (ROW + 1), LawEnvironment(shared, offset.laws["itself"], None)["z"].value)


def test_a_stored_draw_takes_the_place_of_a_fresh_one(offset, trial_of):
    case = Case("offset", "case", 1, {"n": 3}, literals={"further.c": [1.0, 2.0, 3.0]})
    trial = Trial(trial_of().bench, Sample(offset, case, "float32"))
    np.testing.assert_array_equal([1.0, 2.0, 3.0], LawEnvironment(trial, offset.laws["further"], None)["c"])


def test_a_law_knows_sizes_words_and_lines_of_the_definition(offset, trial_of):
    environment = LawEnvironment(trial_of(rest="halved"), offset.laws["further"], None)
    assert (3, "halved") == (environment["n"], environment.word("rest"))
    np.testing.assert_array_equal(ROW, environment["moved"])


def test_a_law_draws_under_given_alone(offset, trial_of):
    with pytest.raises(SpecError, match="a claim cannot draw; draw under `given`"):
        LawEnvironment(trial_of(), offset.laws["further"], None).source(0)


def test_whether_a_law_speaks_of_a_case_is_found_once_for_all_subjects(trial_of, offset, monkeypatch):
    law, asked = offset.laws["further"], []
    monkeypatch.setattr(type(law.when), "__call__", lambda self, env: asked.append(self.text) or True)
    trial = trial_of()
    for _ in range(2):
        again = Trial(trial.bench, trial.sample)
        assert LawEnvironment(again, law, None).concerned
    assert [law.when.text] == asked
