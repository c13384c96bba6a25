"""What a run has seen so far, and why it ends."""

from dataclasses import replace

import pytest

from attnspec.cases.profiles import PROFILES
from attnspec.cases.samples import Case, Sample
from attnspec.judging.bench import ANSWERED, DEATHS
from attnspec.judging.cells import Failure, Request
from attnspec.judging.course import BEFORE, HANGS, Course
from attnspec.judging.judge import Kind, Outcome
from attnspec.mechanisms.loader import library
from attnspec.numerics.grades import looser
from attnspec.subjects.registered import find
from attnspec.subjects.targets import subject

SOFTMAX = library()["softmax"]
REQUEST = Request(subject(find("torch_softmax")), SOFTMAX, "bfloat16", PROFILES["quick"])


@pytest.fixture
def course():
    return Course(REQUEST, {})


def sample(seed):
    return Sample(SOFTMAX, Case("softmax", "plain", seed, {"rows": 1, "width": 2}), "bfloat16")


def test_a_course_that_has_seen_nothing_is_whole(course):
    assert (False, "", "") == (course.partial, course.cut_short, course.too_slow)
    assert "definition" == course.definition.law.name


def test_calls_that_hang_end_it(course):
    course.bench.faults["hung"] += HANGS - 1
    assert not course.partial
    course.bench.faults["hung"] += 1
    assert (True, f"stopped after {HANGS} calls that hung") == (course.partial, course.cut_short)


def test_calls_that_end_their_process_end_it_where_none_is_answered(course):
    course.bench.faults["died"] += DEATHS - 1
    assert not course.partial
    course.bench.faults["died"] += 1
    says = f"stopped after {DEATHS} calls that ended their process, with no successful call"
    assert (True, says) == (course.partial, course.cut_short)
    course.bench.faults[ANSWERED] += 1
    assert not course.partial


def test_time_ends_it(course):
    course.late = True
    assert (True, "the time limit was reached") == (course.partial, course.cut_short)


@pytest.mark.parametrize(("first", "says"), [(False, ""), (True, "the run stopped at the first violation")])
def test_a_violation_ends_it_where_the_first_is_enough(first, says):
    course, one = Course(replace(REQUEST, first=first), {}), sample(1)
    course.definition.failure = Failure("definition", Outcome(Kind.REFUTED), one, one)
    assert (first, says) == (course.partial, course.cut_short)


def test_the_cases_before_one_are_the_last_others(course):
    samples = [sample(seed) for seed in range(BEFORE + 3)]
    course.tried = {one.key: one.case for one in samples}
    assert [one.case for one in samples[1:-1]][-BEFORE:] == list(course.before(samples[-1]))
    assert [one.case for one in samples[3:]] == list(course.before(samples[0]))


def test_a_looser_grade_is_wanted_by_what_no_tighter_one_explains(course):
    claimed, *rest = looser("bfloat16", course.claim)
    assert not course.wants_looser(claimed)
    assert all(course.wants_looser(grade) for grade in rest)
    course.level = rest[-1]
    assert not any(course.wants_looser(grade) for grade in (claimed, *rest))


def test_what_there_was_no_time_for_is_told_of_the_definition_or_of_the_laws_that_are_asked(course):
    course.tallies[1].slow = "too slow: a law"
    assert "" == course.too_slow
    course.definition.slow = "too slow"
    assert "too slow" == course.too_slow
    alone = Course(replace(REQUEST, laws=frozenset({"share"})), {})
    alone.tallies[0].slow = "too slow: a law"
    assert "too slow: a law" == alone.too_slow
