"""Channels of a large case are added up where the definition is linear in them."""

from __future__ import annotations

import numpy as np
import pytest

from attnspec.judging import quick
from attnspec.judging.folding import GROUP, folded
from attnspec.judging.quick import Quick
from attnspec.mechanisms.loader import NONE

from .test_quick import SIZES, item, portions

KNOWN = NONE.library()
ATTENTION = KNOWN["attention"]


def sums(channels=32, mechanism=ATTENTION, names=("out",)):
    return folded(mechanism, {"batch", "heads", "kv_heads", "q_len"}, "k_len", names, channels, 0)


def test_each_channel_is_in_one_sum_whose_variance_is_that_of_a_channel():
    found = sums(channels=37)
    assert (37, 5) == found.sums.shape
    assert [1] * 37 == np.count_nonzero(found.sums, axis=1).tolist()
    np.testing.assert_allclose((found.sums**2).sum(0), 1, rtol=1e-6)
    assert {-1.0, 1.0} == set(np.sign(found.sums.sum(1)).tolist())
    assert {"v"} == found.inputs


def test_few_channels_are_left_as_they_are():
    assert sums(channels=4 * GROUP - 1) is None


def test_an_axis_that_another_input_has_elsewhere_or_another_output_has_is_left_as_it_is():
    assert folded(KNOWN["attention_gradient"], {"batch"}, "", ("d_q", "d_k"), 64, 0) is None
    assert folded(KNOWN["softmax_gradient"], {"rows"}, "", ("d_x", "d_x"), 64, 0) is None


@pytest.mark.parametrize("options", ["", ", causal = true", ", causal = true, window_left = 20"])
def test_what_is_given_of_sums_is_the_sums_of_what_is_given(options, monkeypatch):
    monkeypatch.setattr(quick, "SCORES", 1)
    own = portions(SIZES + options)
    rows = np.arange(100, 140)
    how, found = Quick(own, ["out"]).sums(item(own), rows)
    exact = own.outputs(own.frame(item(own), rows, None), ["out"])["out"]
    assert (*exact.shape[:-1], 4) == found["out"].shape
    np.testing.assert_allclose(found["out"], how.of(exact), atol=0.02 if quick.bfloat16_is_quick() else 4e-6)


def test_rows_of_few_scores_are_not_added_up():
    own = portions(SIZES)
    assert Quick(own, ["out"]).sums(item(own), np.arange(9)) is None


def test_a_definition_that_is_not_linear_in_its_channels_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(quick, "SCORES", 1)
    own = portions(SIZES)
    one = Quick(own, ["out"])
    outputs = own.outputs
    monkeypatch.setattr(own, "outputs", lambda *a: {name: np.square(x) for name, x in outputs(*a).items()})
    assert one.sums(item(own), np.arange(9)) is None
