"""Where the two sides of a law lie apart."""

import numpy as np

from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.diagnosis.fields import COLUMNS, ROWS, field_of
from attnspec.judging.bench import Bench
from attnspec.judging.conventions import words_of
from attnspec.judging.judge import definition_law
from attnspec.judging.trial import Trial
from attnspec.mechanisms.loader import library
from attnspec.subjects.stand_ins import DefinitionSubject
from attnspec.subjects.targets import mistake

SOFTMAX = library()["softmax"]


def trial(subject):
    bench = Bench(subject, SOFTMAX, "float64", "cpu", words_of(SOFTMAX, {}))
    sample = next(s for s in plan(SOFTMAX, subject.claims, PROFILES["quick"], 0, "float64").scenarios if s.entries > 9)
    return Trial(bench, sample)


def field(subject):
    return field_of(trial(subject), definition_law(SOFTMAX), subject.claims.grade("float64"))


def test_both_sides_of_the_definition_are_shown_around_the_worst_entry():
    found = field(mistake("softmax.base_two"))
    units = np.array(found.units)
    assert units.max() > 1
    assert [] == [n for n, most in zip(units.shape, (ROWS, COLUMNS), strict=True) if n > most]
    assert np.shape(found.found) == np.shape(found.expected) == units.shape
    assert not np.array_equal(found.found, found.expected)


def test_of_what_keeps_a_law_there_is_nothing_to_show():
    assert None is field(DefinitionSubject(SOFTMAX, "definition"))
