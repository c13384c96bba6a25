"""One run: blame goes where it belongs, and neither time, chance nor an earlier subject changes a verdict."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch

from attnspec.adapters import Adapter
from attnspec.cases.plans import Plan
from attnspec.cases.profiles import PROFILES, Profile
from attnspec.errors import SpecError
from attnspec.execution.calling import Reply
from attnspec.execution.faults import Fault
from attnspec.judging import engine
from attnspec.judging.cells import Request, law_names
from attnspec.judging.contracts import CONTRACTS
from attnspec.judging.conventions import identified
from attnspec.judging.engine import run
from attnspec.judging.judge import Kind, Outcome
from attnspec.mechanisms.loader import library
from attnspec.subjects.stand_ins import DefinitionSubject
from attnspec.subjects.targets import mistake, subject

SCENARIOS = Profile("scenarios", covering=0, draws=0, admitted=2)
SOFTMAX = library()["softmax"]


def softmax(x):
    return torch.softmax(x, -1)


def eager(q, k, v):
    """Every intermediate in the dtype of the inputs."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v


def adapted(function, operator="softmax", declared=True, **more):
    return subject(Adapter("function", operator, function, more.pop("framework", "torch"), **more), declared=declared)


def result_of(one, mechanism="softmax", dtype="float32", profile=PROFILES["quick"], **more):
    return run(Request(one, library()[mechanism], dtype, profile, **more))


def bad(result):
    return {cell.law for cell in result.cells if cell.bad}


def cell_of(result, law):
    return next(cell for cell in result.cells if cell.law == law)


def verdicts_of_laws(result):
    return {(cell.verdict, cell.says) for cell in result.cells if cell.law in SOFTMAX.laws}


def outline(result):
    return [(cell.law, cell.verdict, cell.cases, cell.worst, cell.says) for cell in result.cells]


# Blame


def test_everything_that_has_a_verdict_gets_one():
    assert sorted(law_names(SOFTMAX)) == sorted(cell.law for cell in result_of(adapted(softmax)).cells)


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        (lambda x: x.shape[-1] == 1030, "definition"),
        (lambda x: bool((x[..., :1] == x).all()) and x.shape[-1] > 1, "equal_shares"),
    ],
)
def test_a_subject_is_blamed_for_nothing_but_what_it_gets_wrong(wrong, law):
    found = bad(result_of(adapted(lambda x: softmax(x) * (1.5 if wrong(x) else 1.0)), profile=SCENARIOS))
    assert law in found
    assert found <= {law, "definition"}


def test_a_refuted_law_rests_and_the_others_go_on():
    calls = []

    def counted(x):
        calls.append(x.shape)
        return softmax(x) + (x.shape == (3, 7))

    result = result_of(adapted(counted))
    definition = cell_of(result, "definition")
    assert ("fail", "plain") == (definition.verdict, definition.failure.sample.case.label)
    assert {"definition"} == bad(result)
    assert all(cell.cases >= 2 for cell in result.cells if cell.law in SOFTMAX.laws and cell.verdict == "pass")
    assert len(calls) > 50


def test_a_case_without_a_result_is_blamed_on_the_definition_alone():
    def refuses_one_row(x):
        if x.shape == (3, 7):
            raise ValueError("no")
        return softmax(x)

    result = result_of(adapted(refuses_one_row))
    assert ("error", "ValueError: no") == (cell_of(result, "definition").verdict, cell_of(result, "definition").says)
    assert {"definition"} == bad(result)


@pytest.mark.parametrize(("again", "verdict"), [(Kind.HELD, "pass"), (Kind.REFUTED, "fail")])
def test_a_doubtful_violation_counts_if_it_is_found_again(monkeypatch, again, verdict):
    doubtful, judged = [], engine.judged

    def judging(trial, law, grades, **more):
        if law.name != "sums_to_one":
            return judged(trial, law, grades, **more)
        doubtful.append(trial.sample.case.seed)
        first = trial.sample.case.seed == doubtful[0]
        return Outcome(Kind.REFUTED if first else again, grade=grades[-1], certain=False)

    monkeypatch.setattr(engine, "judged", judging)
    assert verdict == cell_of(result_of(adapted(softmax), laws=frozenset({"sums_to_one"})), "sums_to_one").verdict
    assert len(set(doubtful)) > 1


# Rejects and claims


def slopes(*, heads):
    power = 2 ** int(np.log2(max(heads, 1)))
    below, above = (2.0 ** (-8 / n * np.arange(1, n + 1)) for n in (power, 2 * power))
    return np.concatenate([below, above[::2]])[:heads].astype(np.float32)


def strict_slopes(*, heads):
    if heads < 1:
        raise ValueError("no heads")
    return slopes(heads=heads)


@pytest.mark.parametrize(
    ("function", "verdict", "says"), [(slopes, "fail", "the call was accepted"), (strict_slopes, "pass", "")]
)
def test_what_is_to_be_refused_is_refused(function, verdict, says):
    cell = cell_of(result_of(adapted(function, "alibi_slopes", framework="numpy"), "alibi_slopes"), "no_heads")
    assert (verdict, says, "should") == (cell.verdict, cell.says, cell.level)


def dropout(x, *, p, seed, training=True):
    kept = torch.rand(x.shape, generator=torch.Generator().manual_seed(seed)) >= p
    return (x.double() * kept / torch.tensor(1 - p).double()).to(x.dtype) if training else x.clone()


def refusing(x, *, p, seed, training=True):
    if p == 1:
        raise ValueError("nothing would be left")
    return dropout(x, p=p, seed=seed, training=training)


@pytest.mark.parametrize(
    ("function", "verdict", "level"),
    [(dropout, "fail", "must"), (refusing, "error", "should")],
    ids=["wrong", "refused"],
)
def test_what_may_be_refused_may_not_be_answered_wrongly(function, verdict, level):
    cell = cell_of(result_of(adapted(function, "dropout"), "dropout"), "all_dropped")
    assert (verdict, level) == (cell.verdict, cell.level)


def test_who_refuses_the_case_itself_is_not_taken_to_refuse_a_wrong_call():
    def refuses_all(*, heads):
        raise ValueError("nothing is supported")

    cell = cell_of(result_of(adapted(refuses_all, "alibi_slopes", framework="numpy"), "alibi_slopes"), "no_heads")
    assert ("not_tested", "no accepted case allows this call") == (cell.verdict, cell.says)


def test_a_mechanism_that_is_not_claimed_is_not_tried():
    cells = result_of(adapted(eager, "attention"), "causal_mask").cells
    assert law_names(library()["causal_mask"]) == [cell.law for cell in cells]
    assert {("not_declared", "does not take causal")} == {(cell.verdict, cell.says) for cell in cells}


@pytest.mark.parametrize(("declared", "verdict"), [(True, "error"), (False, "not_declared")])
def test_who_was_merely_pointed_at_may_refuse_a_further_mechanism(declared, verdict):
    def attention(q, k, v):
        if q.shape[1] != k.shape[1]:
            raise ValueError("no groups")
        return eager(q, k, v)

    result = result_of(adapted(attention, "attention", declared=declared), "grouped_query", profile=SCENARIOS)
    assert verdict == cell_of(result, "definition").verdict
    assert cell_of(result, "definition").says.endswith("ValueError: no groups")


def test_only_the_laws_that_are_asked_for_have_cells():
    wanted = frozenset({"sums_to_one", "contract.dtype"})
    assert wanted == {cell.law for cell in result_of(adapted(softmax), laws=wanted).cells}


# Cases


def test_the_same_seed_gives_the_same_result():
    first, second = (result_of(adapted(softmax, dtypes=("bfloat16",)), dtype="bfloat16") for _ in range(2))
    assert outline(first) == outline(second)
    other = result_of(adapted(softmax, dtypes=("bfloat16",)), dtype="bfloat16", seed=1)
    assert outline(first) != outline(other)
    assert set() == bad(first) == bad(other)


def test_a_law_that_the_plan_does_not_reach_is_drawn_for(monkeypatch):
    barely = Profile("barely", covering=0, draws=0, admitted=4)
    monkeypatch.setattr(Plan, "scenarios", property(lambda plan: []))
    law = next(iter(SOFTMAX.laws))
    assert "pass" == cell_of(result_of(adapted(softmax), profile=barely), law).verdict
    monkeypatch.setattr(Plan, "further", lambda plan, count: iter(()))
    cell = cell_of(result_of(adapted(softmax), profile=barely), law)
    assert ("not_tested", "no case reached its condition") == (cell.verdict, cell.says)


def test_given_samples_take_the_place_of_drawn_ones():
    sample = cell_of(result_of(mistake("softmax.tail_lost")), "definition").failure.sample
    result = result_of(adapted(softmax), only=[sample])
    assert (1, "pass") == (result.cases, cell_of(result, "definition").verdict)


def test_a_law_that_cannot_be_evaluated_is_an_error_of_the_specification(monkeypatch):
    def judging(*_, **__):
        raise SpecError("softmax.sums_to_one: no such thing")

    monkeypatch.setattr(engine, "judged", judging)
    with pytest.raises(SpecError, match=r"softmax\.sums_to_one: no such thing"):
        result_of(adapted(softmax))


# Time, and what lasts


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("hung", "stopped after 3 calls that hung"),
        ("died", "stopped after 8 calls that ended their process, with no successful call"),
        ("raised", "no case gave a result to test it on"),
    ],
)
def test_a_subject_that_answers_nothing_is_no_subject_whose_cases_were_not_reached(kind, says, monkeypatch):
    one = adapted(softmax, conventions={"empty_row": "nans"})
    monkeypatch.setattr(one, "caller", Silent(Fault(kind, "no answer")))
    result = result_of(one, profile=SCENARIOS)
    assert {"error"} == {cell.verdict for cell in result.cells if cell.bad}
    assert {("not_tested", says)} == verdicts_of_laws(result)


class Silent:
    """A caller of which every call ends in the same fault."""

    def __init__(self, fault):
        self.fault = fault

    def session(self):
        return nullcontext()

    def call(self, call):
        return Reply(fault=self.fault)


def test_an_interruption_is_no_fault_of_the_subject():
    def interrupted(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        result_of(adapted(interrupted))


def test_a_subject_does_not_inherit_the_conventions_of_one_that_is_gone():
    for empty, word in ((0.0, "zeros"), (torch.nan, "nans")) * 3:
        one = adapted(lambda x, empty=empty: softmax(x).nan_to_num(empty))
        assert word == identified(one, SOFTMAX, "float32", "cpu")["empty_row"].word
        del one


def test_a_run_leaves_threads_and_gradients_as_they_were():
    before = torch.get_num_threads(), torch.is_grad_enabled()
    result_of(adapted(softmax), profile=SCENARIOS)
    assert before == (torch.get_num_threads(), torch.is_grad_enabled())


def test_every_contract_has_a_cell():
    result = result_of(adapted(softmax), profile=SCENARIOS)
    expected = {f"contract.{name}": "pass" for name in CONTRACTS} | {"contract.independence": "not_tested"}
    assert expected == {cell.law: cell.verdict for cell in result.cells if cell.law.startswith("contract.")}


def test_a_definition_which_has_no_memory_is_asked_nothing_twice(monkeypatch):
    poisoned, call = [], DefinitionSubject.call
    monkeypatch.setattr(DefinitionSubject, "call", lambda self, c: poisoned.append(c.poisoned) or call(self, c))
    cells = result_of(DefinitionSubject(library()["softmax"], "definition")).cells
    assert ("pass", {False}) == (next(c.verdict for c in cells if c.law == "contract.repeatable"), {*poisoned})


def test_the_definition_alone_is_tried_on_crossed_sizes_and_finds_what_is_wrong_there():
    def dense(x):
        sliced = x.ndim == 2 and x.stride(0) > x.shape[1] and x.stride(1) == 1
        return torch.softmax(x.roll(1, 0) if sliced else x, -1)

    few = Profile("few", covering=0, draws=0, admitted=1, crossed=4)
    found = result_of(adapted(dense), profile=few)
    assert {"definition"} == bad(found)
    assert cell_of(found, "definition").failure.found.case.label.startswith("larger ")
    assert set() == bad(result_of(adapted(dense), profile=SCENARIOS))
