"""What a run has seen so far, and why it ends."""

from dataclasses import replace

import pytest
import torch

from attnspec.cases.profiles import PROFILES
from attnspec.cases.samples import Case, Sample
from attnspec.judging import contracts, engine
from attnspec.judging.bench import ANSWERED, DEATHS
from attnspec.judging.cells import Failure, Request, law_names
from attnspec.judging.course import BEFORE, HANGS, Course
from attnspec.judging.judge import Kind, Outcome
from attnspec.mechanisms.loader import library
from attnspec.numerics.grades import looser
from attnspec.subjects.registered import find
from attnspec.subjects.targets import mistake, subject

from .test_engine import SOFTMAX, adapted, bad, cell_of, result_of, softmax, verdicts_of_laws

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


def test_a_run_for_one_violation_ends_at_a_broken_contract():
    calls = []

    def doubling(x):
        calls.append(1)
        return softmax(x.mul_(1.5) / 1.5)

    result = result_of(adapted(doubling), first=True)
    assert ({"contract.inputs_unchanged"}, True) == (bad(result), result.partial)
    assert len(calls) < 7


def test_memory_is_poisoned_no_more_where_such_a_call_has_no_end(monkeypatch):
    poisoned = []

    def endless(x):
        if torch.isnan(x).all():
            poisoned.append(1)
            raise RuntimeError("as if it hung")
        return softmax(x)

    assert set() == bad(result_of(adapted(endless)))
    assert len(poisoned) > 2
    poisoned.clear()
    monkeypatch.setattr(contracts, "ABRUPT", ("raised",))
    result_of(adapted(endless))
    assert [1] == poisoned


def test_a_run_out_of_time_keeps_what_it_has_found(monkeypatch):
    calls = []

    def counted(x):
        calls.append(x.shape)
        return softmax(x) + 1

    monkeypatch.setattr(engine.time, "monotonic", lambda: len(calls))
    result = result_of(adapted(counted, layout="rn", conventions={"empty_row": "nans"}), deadline=3)
    assert (True, 4) == (result.partial, len(calls))
    assert 0 < result.cases <= result.calls <= 4
    assert ("fail", 1) == (cell_of(result, "definition").verdict, cell_of(result, "definition").cases)
    assert {("not_tested", "the time limit was reached")} == verdicts_of_laws(result)
    assert set(law_names(SOFTMAX)) == {cell.law for cell in result.cells}


def test_a_run_that_ends_with_its_first_violation_says_so():
    result = result_of(adapted(lambda x: 2 * softmax(x), conventions={"empty_row": "nans"}), first=True)
    assert ("not_tested", "the run stopped at the first violation") in verdicts_of_laws(result)


def test_after_the_first_violation_nothing_is_tried_that_is_to_be_refused():
    for first, expected in (
        (False, {("pass", "")}),
        (True, {("not_tested", "the run stopped at the first violation")}),
    ):
        result = result_of(mistake("merge_states.other_base"), "merge_states", first=first)
        rejects = library()["merge_states"].rejects
        assert expected == {(cell.verdict, cell.says) for cell in result.cells if cell.law in rejects}


def test_after_the_first_violation_no_call_is_repeated():
    for first in (False, True):
        poisoned = []

        def wrong(x, poisoned=poisoned):
            poisoned.append(bool(torch.isnan(x).any()))
            return 2 * softmax(x)

        result_of(adapted(wrong, conventions={"empty_row": "nans"}), first=first)
        assert first is not any(poisoned)
