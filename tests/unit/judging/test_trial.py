"""One sample on one subject: which call it becomes, what is kept of it, and what an output counts as."""

from types import SimpleNamespace

import numpy as np
import pytest

from attnspec.cases.samples import Case, Sample
from attnspec.errors import SpecError
from attnspec.execution.calling import Reply
from attnspec.judging import trial
from attnspec.judging.trial import Bench, Declined, Faulted, LawEnvironment, Stray, Trial
from attnspec.mechanisms.loader import load
from attnspec.numerics.grades import BF16, FP32
from attnspec.numerics.numbers import Number
from attnspec.numerics.truths import Truth
from attnspec.subjects.claims import Claims

SPEC = """
mechanism: offset
title: Offset
version: 1
sources: ["none"]
summary: A row with an offset, and its largest entry.
sizes:
  n: choice(2, 3)
inputs:
  x: normal(n)
  plus: maybe(normal(n), 0)
options:
  times: choice(1, 2)
  flip: choice(false, true)
conventions:
  rest:
    kept: The sum is returned as it is.
    halved: The sum is halved.
dtypes:
  top: float32
definition:
  moved: times * x + plus
  y: (moved if rest == kept else moved / 2) * (-1 if flip else 1)
  top: max(y)
outputs: [y, top]
normal_form:
  y: y - top
laws:
  further:
    says: More is more.
    given: c = normal(n), d = choice(1, 2)
    holds: y(plus = plus + c) == y + (c if rest == kept else c / 2)
  itself:
    says: Its own result moves it.
    given: z = y * 2
    holds: y(plus = z) == y
"""
CLAIMS = Claims(frozenset({"plus", "times", "flip"}), ("float32", "bfloat16"))
ROW = np.array([0.5, 1.5, -1.0])
SPIKE = np.array([0.0, 0.0, 5.0])


@pytest.fixture(scope="module")
def offset(tmp_path_factory):
    path = tmp_path_factory.mktemp("spec") / "offset.yaml"
    path.write_text(SPEC)
    return load([path])["offset"]


def right(call):
    moved = call.options.get("times", 1) * call.inputs["x"] + call.inputs.get("plus", 0)
    return {"y": moved, "top": np.max(moved)}


def trial_of(mechanism, answer=right, *, claims=CLAIMS, dtype="float32", rest="kept", fixed=(), **keywords):
    calls = []

    def call(asked):
        calls.append(asked)
        return Reply({name: np.asarray(x, float) for name, x in answer(asked).items()})

    subject = SimpleNamespace(call=call, claims=claims, calls=calls)
    plain = {"n": 3, "times": 1, "flip": False, "plus": 0, **dict(fixed)}
    sample = Sample(mechanism, Case("offset", "case", 1, plain, literals={"x": ROW}), dtype)
    return Trial(Bench(subject, mechanism, dtype, "cpu", {"rest": rest}), sample, **keywords)


# Calls


@pytest.mark.parametrize(
    ("fixed", "inputs", "options"),
    [
        ({}, {"x"}, {}),
        ({"times": 2}, {"x"}, {"times": 2}),
        ({"times": 2, "flip": True}, {"x"}, {"times": 2, "flip": True}),
    ],
)
def test_options_at_their_default_are_not_passed(offset, fixed, inputs, options):
    trial = trial_of(offset, fixed=fixed)
    call = trial.call(trial.base)
    assert (inputs, options, "float32", "cpu") == (set(call.inputs), call.options, call.dtype, call.device)


def test_what_a_subject_has_no_default_for_is_always_passed(offset):
    trial = trial_of(offset, claims=Claims(CLAIMS.names, ("float32",), always=frozenset({"flip"})))
    assert {"flip": False} == trial.call(trial.base).options


def test_a_single_optional_input_becomes_an_array(offset):
    trial = trial_of(offset)
    call = trial.call(trial.settle({"plus": 2.0}))
    np.testing.assert_array_equal([[2.0]], call.inputs["plus"])


@pytest.mark.parametrize(
    ("claims", "replaced", "says"),
    [
        ({"names": frozenset()}, {"plus": ROW}, "does not take plus"),
        ({"names": frozenset()}, {"times": 2}, "does not take times"),
        ({"names": CLAIMS.names, "fixed": {"times": 1}}, {"times": 2}, "takes times = 1 only"),
        ({"names": CLAIMS.names, "limits": {"n": (3, 4)}}, {"x": ROW[:2]}, "takes no n = 2"),
    ],
)
def test_what_is_not_claimed_is_not_called(offset, claims, replaced, says):
    trial = trial_of(offset, claims=Claims(dtypes=("float32",), **claims))
    with pytest.raises(Declined, match=f"^{says}$"):
        trial.reply(trial.settle(replaced))
    assert [] == trial.bench.subject.calls


def test_of_the_shapes_of_outputs_no_more_are_remembered_than_there_is_room_for(offset, monkeypatch):
    known = {}
    monkeypatch.setattr(trial, "_SHAPES", known)
    monkeypatch.setattr(trial, "SHAPES", 2)
    one = trial_of(offset)
    for length in (3, 4, 5, 3):
        assert (length,) == one.shape("y", one.settle({"x": np.ones(length), "plus": np.ones(length)}))
        assert 0 < len(known) <= 2


def test_a_fixed_option_is_not_passed(offset):
    trial = trial_of(offset, claims=Claims(frozenset(), ("float32",), fixed={"times": 2}), fixed={"times": 2})
    assert {} == trial.call(trial.base).options


# What is kept


def test_equal_calls_are_made_once(offset):
    trial = trial_of(offset)
    for replaced in ({}, {"x": ROW.copy()}, {"times": 1}, {"x": 2 * ROW}, {"x": ROW + ROW}):
        trial.reply(trial.settle(replaced))
    assert 2 == len(trial.bench.subject.calls)


@pytest.mark.parametrize("replaced", [{"flip": True}, {"times": 2}, {"x": ROW[:2]}, {"plus": ROW}])
def test_other_values_make_another_call(offset, replaced):
    trial = trial_of(offset)
    assert trial.base.key != trial.settle(replaced).key


def test_truths_and_numbers_are_told_apart(offset):
    assert () != trial_of(offset).settle({"flip": 0}).key
    assert () == trial_of(offset).settle({"flip": False}).key


def test_inputs_are_rounded_and_remember_by_how_much(offset):
    trial = trial_of(offset, dtype="bfloat16")
    settled = trial.settle({"x": np.array([1.0, 1 + 2**-9, 3.0])})
    np.testing.assert_array_equal([1.0, 1.0, 3.0], settled.values["x"])
    np.testing.assert_array_equal([0.0, 2**-9, 0.0], settled.errors["x"])
    assert () != settled.key


def test_an_uncertain_input_keeps_its_bound(offset):
    settled = trial_of(offset).settle({"x": Number.within(ROW, np.full(3, 0.25))})
    np.testing.assert_array_equal([0.25] * 3, settled.errors["x"])


def test_an_undecided_truth_is_no_input(offset):
    with pytest.raises(SpecError, match="flip cannot be replaced by an undecided boolean"):
        trial_of(offset).settle({"flip": Truth(np.array(True), np.array(False))})
    assert () != trial_of(offset).settle({"flip": Truth(np.array(True), np.array(True))}).key


def test_the_definition_is_computed_once_for_all_subjects(offset):
    first = trial_of(offset)
    first.exact("y", first.base)
    second = Trial(first.bench, first.sample)
    assert first.exact("y", first.base) is second.exact("y", second.base)
    assert first.base_frame() is second.base_frame()


def test_every_word_has_a_definition_of_its_own(offset):
    kept = trial_of(offset)
    halved = Trial(Bench(kept.bench.subject, offset, "float32", "cpu", {"rest": "halved"}), kept.sample)
    np.testing.assert_array_equal(ROW, kept.exact("y", kept.base))
    np.testing.assert_array_equal(ROW / 2, halved.exact("y", halved.base))


# Outputs


def test_an_output_allows_its_own_rounding_alone(offset):
    trial = trial_of(offset)
    y = trial.number("y", trial.base, None)
    np.testing.assert_array_equal(ROW, y.value)
    np.testing.assert_array_equal(np.array([2.0**-25, 2.0**-24, 2.0**-24]), y.radius)


def test_a_looser_grade_allows_more(offset):
    trial = trial_of(offset)
    none, fp32, bf16 = (trial.number("y", trial.base, grade, fair=False).radius[1] for grade in (None, FP32, BF16))
    assert none < fp32 <= bf16


def test_the_bound_of_the_worst_case_is_no_smaller(offset):
    trial = trial_of(offset)
    likely, worst = (trial.number("y", trial.base, BF16, worst=worst).radius for worst in (False, True))
    assert (likely <= worst).all()


def test_an_output_with_a_dtype_of_its_own_is_rounded_as_that(offset):
    trial = trial_of(offset, dtype="bfloat16")
    top, y = (trial.number(name, trial.base, None).radius for name in ("top", "y"))
    assert (2.0**-24, 2.0**-8) == (float(top), float(y[1]))


def test_entries_far_from_the_definition_have_a_wide_bound(offset):
    trial = trial_of(offset, lambda call: {**right(call), "y": ROW + SPIKE})
    fair, plain = (trial.number("y", trial.base, FP32, fair=fair).radius for fair in (True, False))
    assert (4 / 16, True) == (fair[2], bool(plain[2] < 1e-5))
    np.testing.assert_array_equal(plain[:2], fair[:2])


def test_nan_has_no_bound_that_hides_it(offset):
    trial = trial_of(offset, lambda call: {**right(call), "y": ROW * np.nan})
    for grade in (None, FP32, BF16):
        with pytest.raises(Stray, match="y is NaN where the definition has a number"):
            trial.number("y", trial.base, grade)


def test_an_output_of_another_shape_is_a_fault(offset):
    trial = trial_of(offset, lambda call: {"y": ROW[:2]})
    with pytest.raises(Faulted, match=r"^y has the shape \[2\], not \[3\]$") as caught:
        trial.number("y", trial.base, None)
    assert "misshapen" == caught.value.fault.kind


def test_an_output_is_compared_in_its_normal_form(offset):
    trial = trial_of(offset)
    np.testing.assert_array_equal([-1.0, 0.0, -2.5], trial.normal("y", ROW))
    assert 1.5 == trial.normal("top", 1.5)


# Laws


def test_what_a_law_is_given_is_the_same_for_all_subjects(offset):
    trial = trial_of(offset)
    law = offset.laws["further"]
    first, second = (LawEnvironment(each, law, None) for each in (trial, Trial(trial.bench, trial.sample)))
    assert first["c"] is second["c"]
    assert (3,) == first["c"].shape
    assert first["d"] in (1, 2)


def test_what_a_law_asks_of_a_subject_is_its_own(offset):
    trial = trial_of(offset)
    doubled = LawEnvironment(trial, offset.laws["itself"], None)["z"]
    other = trial_of(offset, lambda call: {**right(call), "y": ROW + 1})
    shared = Trial(other.bench, trial.sample)
    np.testing.assert_array_equal(2 * ROW, doubled.value)
    np.testing.assert_array_equal(2 * (ROW + 1), LawEnvironment(shared, offset.laws["itself"], None)["z"].value)


def test_a_stored_draw_takes_the_place_of_a_fresh_one(offset):
    case = Case("offset", "case", 1, {"n": 3}, literals={"further.c": [1.0, 2.0, 3.0]})
    trial = Trial(trial_of(offset).bench, Sample(offset, case, "float32"))
    np.testing.assert_array_equal([1.0, 2.0, 3.0], LawEnvironment(trial, offset.laws["further"], None)["c"])


def test_a_law_knows_sizes_words_and_lines_of_the_definition(offset):
    environment = LawEnvironment(trial_of(offset, rest="halved"), offset.laws["further"], None)
    assert (3, "halved") == (environment["n"], environment.word("rest"))
    np.testing.assert_array_equal(ROW, environment["moved"])


def test_a_law_draws_under_given_alone(offset):
    with pytest.raises(SpecError, match="a claim draws nothing; draw under `given`"):
        LawEnvironment(trial_of(offset), offset.laws["further"], None).source(0)


def test_a_call_holds_no_more_than_what_it_replaces(offset):
    trial = trial_of(offset)
    assert (0, ROW.nbytes) == (trial.base.nbytes, trial.settle({"x": 2 * ROW}).nbytes)


def test_the_definition_is_asked_once_whether_it_refuses_a_call(offset, monkeypatch):
    one = trial_of(offset)
    wrong = one.settle({"plus": np.zeros((3, 2))})
    says = one.refused(wrong)
    monkeypatch.setattr(trial, "refused", None)
    assert says == Trial(one.bench, one.sample).refused(wrong)
    assert "do not fit" in says
