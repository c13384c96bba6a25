"""Laws are not evaluated again where a subject gives the same results: to the bit, call by call, across runs."""

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases import disk
from attnspec.cases.drawing import Samples
from attnspec.cases.profiles import Profile
from attnspec.cases.samples import Case, Sample
from attnspec.execution.calling import Reply
from attnspec.execution.faults import Fault
from attnspec.judging import recall
from attnspec.judging.bench import Bench
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.judging.judge import Kind, definition_law, judged
from attnspec.judging.recall import recalled
from attnspec.judging.trial import Tracing, Trial
from attnspec.mechanisms.loader import library
from attnspec.numerics.grades import LADDER
from attnspec.subjects.stand_ins import DefinitionSubject
from attnspec.subjects.targets import resolve, subject

GRADES = LADDER["float32"]
SOFTMAX = library()["softmax"]
LAWS = [definition_law(SOFTMAX), *SOFTMAX.laws.values()]
SHIFTED = SOFTMAX.laws["shift_invariant"]


def softmax(x):
    terms = np.exp(x - x.max(-1, keepdims=True))
    return terms / terms.sum(-1, keepdims=True)


class Moved:
    """The definition, with an entry of the results of some calls moved by a few units in the last place."""

    def __init__(self, moved=(), by=1e-6, fault=None):
        self.plain = DefinitionSubject(SOFTMAX, "definition")
        self.moved, self.by, self.fault, self.calls = moved, by, fault, []
        self.name, self.operator, self.claims = self.plain.name, self.plain.operator, self.plain.claims

    def call(self, call):
        self.calls.append(call)
        outputs = dict(self.plain.call(call).outputs)
        if len(self.calls) - 1 in self.moved:
            if self.fault is not None:
                return Reply(fault=self.fault)
            outputs["p"] = outputs["p"] * (1 + self.by)
        return Reply(outputs)


@pytest.fixture
def sample(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNSPEC_CACHE", str(tmp_path / "cache"))
    return drawn()


def drawn():
    """The sample of a run, with what earlier ones have kept."""
    made = Sample(SOFTMAX, Case("softmax", "test", 7), "float32")
    disk.restore(made)
    return made


def trial_of(sample, subject):
    return Trial(Bench(subject, SOFTMAX, "float32", "cpu", SOFTMAX.words), sample)


def told(outcome):
    """What a run takes from an outcome."""
    m = outcome.margin
    margin = m and (m.counts.tolist(), m.worst, m.row, m.rows)
    return outcome.kind, outcome.excess, outcome.grade, outcome.says, outcome.certain, outcome.claimed, margin


@pytest.fixture
def evaluations(monkeypatch):
    """The laws that are evaluated, in order."""
    found = []
    monkeypatch.setattr(
        recall, "judged", lambda trial, law, grades, **_: found.append(law.name) or judged(trial, law, grades)
    )
    return found


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("by", [0.0, 1e-7])
def test_the_same_results_have_the_same_outcomes_and_nothing_is_evaluated(sample, evaluations, stored, by):
    first = Moved(range(99), by)
    trial = trial_of(sample, first)
    outcomes = [told(judged(trial_of(sample, Moved(range(99), by)), law, GRADES)) for law in LAWS]
    assert outcomes == [told(recalled(trial, law, GRADES)) for law in LAWS]
    disk.save([sample])
    del evaluations[:]
    second = Moved(range(99), by)
    trial = trial_of(drawn() if stored else sample, second)
    assert outcomes == [told(recalled(trial, law, GRADES)) for law in LAWS]
    assert [] == evaluations
    assert len(first.calls) == len(second.calls) > len(LAWS) // 2
    for one, other in zip(first.calls, second.calls, strict=True):
        assert (one.options, one.dtype, one.layout) == (other.options, other.dtype, other.layout)
        assert [*one.inputs] == [*other.inputs]
        assert all(np.array_equal(x, other.inputs[name]) for name, x in one.inputs.items())


@pytest.mark.parametrize("moved", [(0,), (1,)])
def test_a_law_is_evaluated_where_one_of_its_calls_gives_anything_else(sample, evaluations, moved):
    recalled(trial_of(sample, Moved()), SHIFTED, GRADES)
    other = trial_of(sample, Moved(moved, 0.01))
    assert told(judged(trial_of(sample, Moved(moved, 0.01)), SHIFTED, GRADES)) == told(recalled(other, SHIFTED, GRADES))
    assert ["shift_invariant"] * 2 == evaluations
    assert 2 == len(other.bench.subject.calls)


def test_results_that_lie_in_memory_in_another_way_are_others(sample, evaluations):
    recalled(trial_of(sample, Moved()), SHIFTED, GRADES)
    other = Moved()
    plain = other.call
    other.call = lambda call: Reply({name: np.asfortranarray(x) for name, x in plain(call).outputs.items()})
    assert Kind.HELD == recalled(trial_of(sample, other), SHIFTED, GRADES).kind
    assert ["shift_invariant"] * 2 == evaluations


def test_what_is_refuted_is_evaluated_each_time(sample, evaluations):
    for _ in range(2):
        assert Kind.REFUTED == recalled(trial_of(sample, Moved((0,), 0.01)), SHIFTED, GRADES).kind
    assert ["shift_invariant"] * 2 == evaluations
    recalled(trial_of(sample, Moved()), SHIFTED, GRADES)
    for _ in range(2):
        assert Kind.REFUTED == recalled(trial_of(sample, Moved((0,), 0.01)), SHIFTED, GRADES).kind


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(("kind", "found"), [("raised", Kind.FAULTED), ("unsupported", Kind.DECLINED)])
def test_an_error_is_told_as_ever_and_only_the_same_one_is_recalled(sample, evaluations, kind, found, stored):
    recalled(trial_of(sample, Moved()), SHIFTED, GRADES)
    for turn in range(2):
        fault = Fault(kind, "no", f"a trace of call {turn}")
        trial = trial_of(sample, Moved((1,), fault=fault))
        outcome = recalled(trial, SHIFTED, GRADES)
        assert (found, "no") == (outcome.kind, outcome.says)
        assert (fault if found is Kind.FAULTED else None) is outcome.fault
        assert 2 == len(trial.bench.subject.calls)
        disk.save([sample])
        sample = drawn() if stored else sample
    assert ["shift_invariant"] * 2 == evaluations
    assert "yes" == recalled(trial_of(sample, Moved((1,), fault=Fault(kind, "yes"))), SHIFTED, GRADES).says
    assert 3 == len(evaluations)


def test_what_is_answered_with_no_result_and_what_was_too_slow_are_not_recalled(sample, evaluations):
    def flat(call):
        return Reply({"p": np.zeros(3)})

    for law in (SHIFTED, SHIFTED, LAWS[0], LAWS[0]):
        (subject := Moved()).call = flat
        assert Kind.FAULTED == recalled(trial_of(sample, subject), law, GRADES).kind
    for _ in range(2):
        assert Kind.SLOW == recalled(trial_of(sample, Moved((0,), fault=Fault("slow", "no"))), SHIFTED, GRADES).kind
    assert 6 == len(evaluations)


def test_an_outcome_belongs_to_the_grades_and_words_that_it_was_found_with(sample, evaluations):
    recalled(trial_of(sample, Moved()), SHIFTED, GRADES)
    recalled(trial_of(sample, Moved()), SHIFTED, GRADES[1:])
    trial = trial_of(sample, Moved())
    words = {**trial.bench.words, "empty_row": "nans"}
    assert words != trial.bench.words
    recalled(Trial(Bench(Moved(), SOFTMAX, "float32", "cpu", words), sample), SHIFTED, GRADES)
    assert ["shift_invariant"] * 3 == evaluations


def test_a_law_that_shares_its_calls_with_another_one_follows_from_them_as_well(sample, evaluations):
    trial = trial_of(sample, Moved())
    for law in LAWS:
        recalled(trial, law, GRADES)
    del evaluations[:]
    other = trial_of(sample, Moved((0,), 1e-7))
    for law in LAWS:
        recalled(other, law, GRADES)
    with_the_case = []
    for law in LAWS:
        judged(traced := Tracing(trial.bench, sample), law, GRADES)
        with_the_case += [law.name] if () in traced.asked else []
    assert with_the_case == evaluations
    assert {"definition", "ratio", "shift_invariant"} < {*evaluations} < {law.name for law in LAWS}


def test_the_outcomes_of_an_edited_function_take_the_place_of_those_before(sample, evaluations):
    for by in (0.0, 1e-7, 1e-7, 1e-7):
        made = drawn()
        recalled(trial_of(made, Moved(range(9), by)), SHIFTED, GRADES)
        disk.save([made])
    assert ["shift_invariant"] * 2 == evaluations


@pytest.mark.parametrize(
    ("one", "spread", "kept"),
    [
        (lambda: subject(Adapter("own", "softmax", softmax, "numpy")), True, True),
        (lambda: subject(Adapter("own", "softmax", softmax, "numpy")), False, False),
        (lambda: resolve("mistake:softmax.base_two")[0], True, False),
    ],
)
def test_only_of_what_a_user_may_edit_outcomes_are_kept(sample, monkeypatch, one, spread, kept):
    monkeypatch.setattr(SOFTMAX.library, "_owned", {})
    profile = Profile("few", covering=0, draws=0, admitted=2)
    run(Request(one(), SOFTMAX, "float32", profile, spread=spread, laws=frozenset({"definition", "share"})))
    found = {key[1] for made in SOFTMAX.kept(Samples).values() for key in made.cache if key[0] == recall.OUTCOME}
    assert (["definition", "share"] if kept else []) == sorted(found)
