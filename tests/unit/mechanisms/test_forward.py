"""What a backward pass is handed are lines of the definition of the gradients, on the inputs of its call."""

import numpy as np
import pytest

from attnspec.errors import SpecError
from attnspec.mechanisms.forward import computed, forward, results, scope_with_results, spared
from attnspec.mechanisms.loader import library

ATTENTION, SOFTMAX, ROTARY = (library()[f"{name}_gradient"] for name in ("attention", "softmax", "rotary"))
X = np.arange(6.0).reshape(1, 1, 2, 3)
VALUES = {"q": X, "k": X[:, :, :1], "v": X[:, :, :1], "d_out": X}


def test_a_backward_pass_may_be_handed_any_line_that_is_no_gradient():
    assert {"out", "lse", "weights", "delta"} <= results(ATTENTION)
    assert not results(ATTENTION) & {*ATTENTION.outputs}
    assert not results(library()["attention"])
    assert "lse" in scope_with_results(ATTENTION).names
    assert "lse" not in scope_with_results(library()["attention"]).names


def test_what_is_handed_stands_for_the_inputs_that_it_is_computed_from():
    assert {"x"} == spared(SOFTMAX, {"p"})
    assert set() == spared(SOFTMAX, {"d_out"})
    assert {"x"} == spared(ROTARY, ())  # which no gradient is computed from
    assert set() == spared(library()["softmax"], {"terms"})


def test_results_are_those_of_the_inputs_of_a_call():
    one = forward(ATTENTION, VALUES, {})
    assert X[:, :, :1].repeat(2, 2).tolist() == computed(one, "out").tolist()
    scores = (X[0, 0] @ X[0, 0, 0]) / np.sqrt(3)
    assert np.allclose(scores, computed(one, "lse")[0, 0])


def test_the_word_of_a_convention_decides_what_is_handed():
    masked = {**VALUES, "causal": True, "k": X, "v": X, "q": X[:, :, :1], "d_out": X[:, :, :1]}
    last = [
        computed(forward(ATTENTION, masked, {"causal_alignment": word}), "out")[0, 0, 0]
        for word in ("top_left", "bottom_right")
    ]
    assert X[0, 0, 0].tolist() == last[0].tolist()
    assert last[0].tolist() != last[1].tolist()


def test_a_query_that_sees_no_key_has_an_infinite_logsumexp():
    hidden = {**VALUES, "mask": np.array([[[[True], [False]]]])}
    assert [np.isinf(x) for x in computed(forward(ATTENTION, hidden, {}), "lse")[0, 0]] == [False, True]


def test_inputs_that_go_not_together_have_no_forward_pass():
    with pytest.raises(SpecError, match="head_dim is 3 in q"):
        forward(ATTENTION, {**VALUES, "k": X[..., :2]}, {})
