"""One sample on one subject: equal calls are made once, and outputs have the shape of the definition's."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from attnspec.judging.trial import Faulted, Tracing, Trial

ROW = np.array([0.5, 1.5, -1.0])


def test_equal_calls_are_made_once(trial_of):
    trial = trial_of()
    for replaced in ({}, {"x": ROW.copy()}, {"times": 1}, {"x": 2 * ROW}, {"x": ROW + ROW}):
        trial.reply(trial.settle(replaced))
    assert 2 == len(trial.bench.subject.calls)


def test_an_output_of_another_shape_is_a_fault(trial_of):
    trial = trial_of(y=ROW[:2])
    with pytest.raises(Faulted, match=r"^y has the shape \[2\], not \[3\]$") as caught:
        trial.number("y", trial.base, None)
    assert "misshapen" == caught.value.fault.kind


def test_a_call_is_the_same_for_all_subjects_with_the_same_claims(trial_of):
    trial = trial_of()
    claims = trial.bench.subject.claims
    others = replace(claims, names=frozenset())
    other = Trial(replace(trial.bench, subject=SimpleNamespace(claims=claims)), trial.sample)
    fewer = Trial(replace(trial.bench, subject=SimpleNamespace(claims=others)), trial.sample)
    assert trial.call(trial.base) is other.call(other.base)
    assert trial.call(trial.base) is not trial.call(trial.base, poisoned=True)
    assert trial.call(trial.base) is not fewer.call(fewer.base)


def test_what_is_traced_are_the_calls_and_the_outputs_that_are_looked_at(trial_of):
    plain = trial_of()
    traced = Tracing(plain.bench, plain.sample)
    other = traced.settle({"x": 2 * ROW})
    traced.reply(other)
    traced.observed("top", traced.base)
    assert {(), other.key} == set(traced.asked)
    assert {("top", ())} == traced.looked_at
