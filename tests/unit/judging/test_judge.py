"""One law on one case: what holds, what is idle, what says nothing, and what is refuted for certain."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from attnspec.cases.samples import Case, Sample
from attnspec.execution.calling import Reply
from attnspec.execution.faults import Fault
from attnspec.judging.bench import Bench
from attnspec.judging.judge import Kind, definition_law, evaluated, judged, vacuous
from attnspec.judging.trial import Trial
from attnspec.mechanisms.loader import load
from attnspec.numerics import budget
from attnspec.numerics.comparing import Comparison
from attnspec.numerics.grades import BF16, FP16_NAIVE, FP32, LADDER, TF32
from attnspec.numerics.numbers import Number
from attnspec.subjects.claims import Claims

SPEC = """
mechanism: growth
title: Growth
version: 1
sources: ["none"]
summary: Exponentials of a sum of products.
sizes:
  n: choice(1, 4, 9)
inputs:
  x: normal(n, n)
  y: normal(n, n)
options:
  plus: choice(0.0, 1.0)
definition:
  products: x @ y
  grown: exp(products) + plus
  logs: products
outputs: [grown, logs]
laws:
  of_zero:
    says: Of zero it is one.
    holds: grown(x = 0 * x) == 1 + plus
  of_one_only:
    says: It speaks of one entry.
    when: n == 1
    holds: grown == grown
  opposite:
    says: Opposite products have reciprocal results.
    when: plus == 0
    holds: grown(x = -x) * grown == 1
  positive:
    says: It is positive.
    holds: grown > 0
  more:
    says: One more is one more.
    when: plus == 0
    holds: grown(plus = 1.0) == grown + 1
"""
GRADES = LADDER["float32"]


@pytest.fixture(scope="module")
def growth(tmp_path_factory):
    path = tmp_path_factory.mktemp("spec") / "growth.yaml"
    path.write_text(SPEC)
    return load([path])["growth"]


def grown(call):
    products = call.inputs["x"] @ call.inputs["y"]
    with np.errstate(all="ignore"):
        return {"grown": np.exp(products) + call.options.get("plus", 0.0), "logs": products}


def trial_of(mechanism, answer, *, names=("plus",), n=4, dtype="float32", **literals):
    """A trial of a subject that answers every call so: a reply, or its outputs."""

    def call(asked):
        reply = answer(asked)
        return reply if isinstance(reply, Reply) else Reply({name: np.asarray(x) for name, x in reply.items()})

    subject = SimpleNamespace(call=call, claims=Claims(frozenset(names), (dtype,)))
    sample = Sample(mechanism, Case("growth", "case", 1, {"n": n, "plus": 0.0}, literals=literals), dtype)
    return Trial(Bench(subject, mechanism, dtype, "cpu", {}), sample)


def changed(by):
    """The right outputs, the first of them changed by a factor."""

    def answer(call):
        outputs = grown(call)
        return {**outputs, "grown": outputs["grown"] * by}

    return answer


def definition(trial, grades=GRADES):
    return judged(trial, definition_law(trial.mechanism), grades)


@pytest.mark.parametrize(
    ("by", "kind", "grade"),
    [
        (1.0, Kind.HELD, FP32),
        (1 + 2**-23, Kind.HELD, FP32),
        (1 + 2**-12, Kind.HELD, TF32),
        (1 + 2**-9, Kind.HELD, BF16),
        (1.5, Kind.REFUTED, BF16),
        (np.nan, Kind.REFUTED, BF16),
        (np.inf, Kind.REFUTED, BF16),
    ],
)
def test_the_first_grade_that_explains_an_error_judges_it(growth, by, kind, grade):
    outcome = definition(trial_of(growth, changed(by)))
    assert (kind, grade, kind is Kind.REFUTED) == (outcome.kind, outcome.grade, outcome.bad)


@pytest.mark.parametrize("by", [1.0, 1 + 2**-12, 1 + 2**-9, 1.5, np.nan, np.inf])
def test_its_kind_alone_is_the_same_and_what_is_far_off_has_bounds_of_the_last_grade_alone(growth, by):
    trial = trial_of(growth, changed(by))
    outcome = judged(trial, definition_law(growth), GRADES, kind_alone=True)
    bounded = {key[-1] for key in trial.sample.cache if "bound" in key[:2]}
    whole = definition(trial_of(growth, changed(by)))
    assert (whole.kind, whole.certain, whole.says) == (outcome.kind, outcome.certain, outcome.says)
    assert not outcome.bad or bounded == {BF16.name}


def test_a_case_that_limits_make_too_large_is_left_out(growth, monkeypatch):
    trial = trial_of(growth, changed(1.5), n=9)
    monkeypatch.setattr(budget.metered.__init__, "__defaults__", (80, 10**8))
    with pytest.raises(budget.OverspentError):
        definition(trial)
    trial.bench.subject.claims = replace(trial.bench.subject.claims, limits={"n": [9]})
    assert Kind.IDLE is definition(trial).kind


def test_only_the_grades_that_are_asked_for_explain_an_error(growth):
    assert Kind.REFUTED is definition(trial_of(growth, changed(1 + 2**-9)), [FP32, TF32]).kind


def test_an_excess_is_in_units_of_the_bound(growth):
    small, large = (definition(trial_of(growth, changed(1 + by)), [FP32]).excess for by in (0.25, 0.5))
    assert 1 < small < large
    assert 2 == pytest.approx(large / small, rel=0.1)


def test_a_violation_of_the_likely_bound_alone_is_not_certain(growth):
    law, found = definition_law(growth), {}
    for step in np.linspace(0, 16, 33):
        trial = trial_of(growth, changed(1 + 2.0 ** (step - 24)), n=200)
        found.setdefault((evaluated(trial, law, FP32).kind, judged(trial, law, [FP32]).certain), step)
    assert [(Kind.HELD, True), (Kind.REFUTED, False), (Kind.REFUTED, True)] == list(found)


def test_the_second_output_is_judged_too(growth):
    def answer(call):
        outputs = grown(call)
        return {**outputs, "logs": outputs["logs"] + 1}

    assert Kind.REFUTED is definition(trial_of(growth, answer)).kind


def test_an_output_that_is_not_returned_is_not_judged(growth):
    assert Kind.HELD is definition(trial_of(growth, lambda call: {"grown": grown(call)["grown"]})).kind


def test_no_first_output_is_no_answer(growth):
    outcome = definition(trial_of(growth, lambda call: {"logs": grown(call)["logs"]}))
    assert (Kind.DECLINED, "does not return grown") == (outcome.kind, outcome.says)


# NaN


def test_nan_where_the_definition_has_a_number_is_refuted(growth):
    def answer(call):
        outputs = grown(call)
        outputs["grown"][1, 2] = np.nan
        return outputs

    outcome = definition(trial_of(growth, answer))
    assert (Kind.REFUTED, np.inf) == (outcome.kind, outcome.excess)
    assert "grown is NaN where the definition has a number" == outcome.says


@pytest.mark.parametrize("law", ["of_zero", "opposite", "positive", "more"])
def test_nan_meets_no_law_by_accident(growth, law):
    trial = trial_of(growth, lambda call: {name: x * np.nan for name, x in grown(call).items()})
    assert Kind.REFUTED is judged(trial, growth.laws[law], GRADES).kind


NAN = {"x": np.full((1, 1), np.nan), "y": np.ones((1, 1))}


def test_nan_where_the_definition_has_nan_is_right(growth):
    assert Kind.HELD is definition(trial_of(growth, grown, n=1, **NAN)).kind


def test_a_number_where_the_definition_has_nan_is_refuted(growth):
    answer = {"grown": np.ones((1, 1)), "logs": np.ones((1, 1))}
    assert Kind.REFUTED is definition(trial_of(growth, lambda call: answer, n=1, **NAN)).kind


@pytest.mark.parametrize(("found", "kind"), [(np.inf, Kind.HELD), (-np.inf, Kind.REFUTED), (3e38, Kind.REFUTED)])
def test_an_infinity_is_met_by_an_infinity_alone(growth, found, kind):
    infinite = {"x": np.full((1, 1), np.inf), "y": np.ones((1, 1))}
    answer = {"grown": np.full((1, 1), found)}
    assert kind is definition(trial_of(growth, lambda call: answer, n=1, **infinite)).kind


# Other laws


@pytest.mark.parametrize(
    ("law", "n", "kind"),
    [
        ("of_zero", 4, Kind.HELD),
        ("of_one_only", 1, Kind.HELD),
        ("of_one_only", 4, Kind.IDLE),
        ("opposite", 4, Kind.HELD),
    ],
)
def test_a_law_holds_or_does_not_speak_of_the_case(growth, law, n, kind):
    assert kind is judged(trial_of(growth, grown, n=n), growth.laws[law], GRADES).kind


def test_a_law_is_refuted_by_calls_beside_the_case(growth):
    def wrong_for_zero(call):
        return {"grown": grown(call)["grown"] + (not call.inputs["x"].any())}

    trial = trial_of(growth, wrong_for_zero)
    assert Kind.HELD is definition(trial).kind
    assert Kind.REFUTED is judged(trial, growth.laws["of_zero"], GRADES).kind


def test_a_call_that_is_not_claimed_is_declined(growth):
    outcome = judged(trial_of(growth, grown, names=()), growth.laws["more"], GRADES)
    assert (Kind.DECLINED, "does not take plus", False) == (outcome.kind, outcome.says, outcome.bad)


def test_a_call_that_is_refused_is_declined(growth):
    trial = trial_of(growth, lambda call: Reply(fault=Fault("unsupported", "no growth today")))
    assert (Kind.DECLINED, "no growth today") == (definition(trial).kind, definition(trial).says)


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Reply(fault=Fault("raised", "ValueError: no")), "ValueError: no"),
        (Reply({"grown": np.ones((4, 5))}), "grown has the shape [4, 5], not [4, 4]"),
    ],
)
def test_a_call_without_a_result_is_a_fault(growth, reply, says):
    outcome = definition(trial_of(growth, lambda call: reply))
    assert (Kind.FAULTED, says, True) == (outcome.kind, outcome.says, outcome.bad)
    assert says == outcome.fault.says
    assert () == outcome.settled.key


def test_a_fault_beside_the_case_is_told_from_one_on_it(growth):
    def only_below(call):
        return Reply(fault=Fault("raised", "no")) if call.options else grown(call)

    outcome = judged(trial_of(growth, only_below), growth.laws["more"], GRADES)
    assert (Kind.FAULTED, "plus") == (outcome.kind, outcome.settled.key[0][0])


# Comparisons that say nothing


def test_what_every_bound_allows_says_nothing(growth):
    large = {"x": np.full((4, 4), 17.0), "y": np.full((4, 4), 1.03)}
    trial = trial_of(growth, lambda call: {"grown": grown(call)["grown"] * 1.2}, dtype="float16", **large)
    outcome = judged(trial, definition_law(growth), [FP16_NAIVE])
    assert (Kind.VACUOUS, False) == (outcome.kind, outcome.bad)


def compared(radius, left=1.0):
    return Comparison(Number(np.full(3, left)), Number(np.full(3, left)), radius, np.zeros(3))


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([], False),
        ([compared(0.0)], False),
        ([compared(np.full(3, 0.09))], False),
        ([compared(np.full(3, 0.11))], True),
        ([compared(np.full(3, 0.11), left=2.0)], False),
        ([compared(np.full(3, 0.11)), compared(np.full(3, 0.01))], False),
        ([compared(np.array([0.0, 0.01, np.inf]))], False),
        ([compared(np.full(3, 0.11), left=0.0)], False),
        ([compared(np.full(3, np.nan))], True),
        ([compared(np.full(3, np.inf), left=0.0)], True),
    ],
)
def test_comparisons_are_vacuous_if_none_of_them_is_sharp(records, expected):
    assert expected is vacuous(records)


COUNTING = """
mechanism: counting
title: Counting
version: 1
sources: ["none"]
summary: The place of the greatest product.
sizes:
  n: choice(4)
inputs:
  x: normal(n, n)
  y: normal(n, n)
dtypes:
  place: integer
definition:
  place: argsort(x @ y)[:, 0]
outputs: [place]
laws:
  doubled:
    says: The place does not depend on the scale.
    holds: place(x = 2 * x) == place
"""


@pytest.fixture(scope="module")
def counting(tmp_path_factory):
    path = tmp_path_factory.mktemp("spec") / "counting.yaml"
    path.write_text(COUNTING)
    return load([path])["counting"]


@pytest.mark.parametrize(
    ("off", "near", "kind"),
    [(0, 1.0, Kind.HELD), (1, 1.0, Kind.REFUTED), (0, 0.0, Kind.VACUOUS), (1, 0.0, Kind.VACUOUS)],
)
def test_whole_numbers_are_judged_at_the_claimed_grade_where_rounding_leaves_no_doubt(counting, off, near, kind):
    def answer(call):
        return {"place": (np.argmax(call.inputs["x"] @ call.inputs["y"], 1) + off) % 4}

    x, y = np.ones((4, 4)), np.ones((4, 4)) + near * np.arange(4.0)
    subject = SimpleNamespace(call=lambda call: Reply(answer(call)), claims=Claims(frozenset(), ("float32",)))
    sample = Sample(counting, Case("counting", "case", 1, {"n": 4}, literals={"x": x, "y": y}), "float32")
    outcome = definition(Trial(Bench(subject, counting, "float32", "cpu", {}), sample))
    assert (kind, FP32) == (outcome.kind, outcome.grade)
