"""What a call comes to: what is passed, what is not claimed, and when two calls are equal."""

import numpy as np
import pytest

from attnspec.errors import SpecError
from attnspec.judging.settling import Declined
from attnspec.numerics.numbers import Number
from attnspec.numerics.truths import Truth
from attnspec.subjects.claims import Claims

NAMES = frozenset({"plus", "times", "flip"})
ROW = np.array([0.5, 1.5, -1.0])


@pytest.mark.parametrize(
    ("fixed", "inputs", "options"),
    [
        ({}, {"x"}, {}),
        ({"times": 2}, {"x"}, {"times": 2}),
        ({"times": 2, "flip": True}, {"x"}, {"times": 2, "flip": True}),
    ],
)
def test_options_at_their_default_are_not_passed(trial_of, fixed, inputs, options):
    trial = trial_of(fixed=fixed)
    call = trial.call(trial.base)
    assert (inputs, options, "float32", "cpu") == (set(call.inputs), call.options, call.dtype, call.device)


def test_what_a_subject_has_no_default_for_is_always_passed(trial_of):
    trial = trial_of(claims=Claims(NAMES, ("float32",), always=frozenset({"flip"})))
    assert {"flip": False} == trial.call(trial.base).options


def test_a_single_optional_input_becomes_an_array(trial_of):
    trial = trial_of()
    call = trial.call(trial.settle({"plus": 2.0}))
    np.testing.assert_array_equal([[2.0]], call.inputs["plus"])


@pytest.mark.parametrize(
    ("claims", "replaced", "says"),
    [
        ({"names": frozenset()}, {"plus": ROW}, "does not take plus"),
        ({"names": frozenset()}, {"times": 2}, "does not take times"),
        ({"names": NAMES, "fixed": {"times": 1}}, {"times": 2}, "takes times = 1 only"),
        ({"names": NAMES, "limits": {"n": (3, 4)}}, {"x": ROW[:2]}, "takes no n = 2"),
    ],
)
def test_what_is_not_claimed_is_not_called(trial_of, claims, replaced, says):
    trial = trial_of(claims=Claims(dtypes=("float32",), **claims))
    with pytest.raises(Declined, match=f"^{says}$"):
        trial.reply(trial.settle(replaced))
    assert [] == trial.bench.subject.calls


def test_a_fixed_option_is_not_passed(trial_of):
    trial = trial_of(claims=Claims(frozenset(), ("float32",), fixed={"times": 2}), fixed={"times": 2})
    assert {} == trial.call(trial.base).options


@pytest.mark.parametrize("replaced", [{"flip": True}, {"times": 2}, {"x": ROW[:2]}, {"plus": ROW}])
def test_other_values_make_another_call(trial_of, replaced):
    trial = trial_of()
    assert trial.base.key != trial.settle(replaced).key


def test_truths_and_numbers_are_told_apart(trial_of):
    assert () != trial_of().settle({"flip": 0}).key
    assert () == trial_of().settle({"flip": False}).key


def test_inputs_are_rounded_and_remember_by_how_much(trial_of):
    trial = trial_of(dtype="bfloat16")
    settled = trial.settle({"x": np.array([1.0, 1 + 2**-9, 3.0])})
    np.testing.assert_array_equal([1.0, 1.0, 3.0], settled.values["x"])
    np.testing.assert_array_equal([0.0, 2**-9, 0.0], settled.errors["x"])
    assert () != settled.key


def test_an_uncertain_input_keeps_its_bound(trial_of):
    settled = trial_of().settle({"x": Number.within(ROW, np.full(3, 0.25))})
    np.testing.assert_array_equal([0.25] * 3, settled.errors["x"])


def test_an_undecided_truth_is_no_input(trial_of):
    with pytest.raises(SpecError, match="flip cannot be replaced by an undecided boolean"):
        trial_of().settle({"flip": Truth(np.array(True), np.array(False))})
    assert () != trial_of().settle({"flip": Truth(np.array(True), np.array(True))}).key


def test_a_call_holds_no_more_than_what_it_replaces(trial_of):
    trial = trial_of()
    assert (0, ROW.nbytes) == (trial.base.nbytes, trial.settle({"x": 2 * ROW}).nbytes)
