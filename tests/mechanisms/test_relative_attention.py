"""Attention with relative positions: both witnesses by hand and against each other, variants, and a plain function."""

import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.adapters.controls import relative as controls
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library

OPERATOR = "relative_attention"


def given(q_len=4, k_len=7, seed=3):
    rng = np.random.default_rng(seed)
    shapes = {"q": (2, 3, q_len, 5), "k": (2, 3, k_len, 5), "v": (2, 3, k_len, 2), "r": (3, q_len + k_len - 1, 5)}
    return {name: rng.normal(size=x) for name, x in {**shapes, "content_bias": (3, 5), "position_bias": (3, 5)}.items()}


def test_the_vector_of_a_distance_is_the_one_so_many_before_the_last_key():
    far = {**given(), "r": np.zeros((3, 10, 5)), "v": np.broadcast_to(np.eye(7)[:, :2], (2, 3, 7, 2))}
    far["r"][:, 10 - 4 - 2] = 100.0  # of distance 2, as that of distance -3 is the last
    alone = {**far, "q": 0 * far["q"], "k": 0 * far["k"], "position_bias": np.ones((3, 5))}
    out = reference.relative_attention(**alone)["out"]
    seen = np.zeros((4, 2))
    seen[0, 1] = 1  # the first query is that of token 3, and two before it is token 1
    np.testing.assert_allclose(out, np.broadcast_to(seen, out.shape), atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [(4, 7), (5, 5), (1, 6), (1, 1)])
def test_definition_reference_and_variants_agree(lengths, causal):
    values, options = given(*lengths), {"causal": causal, "scale": 0.3}
    expected = reference.relative_attention(**values, **options)
    found = Frame(library()[OPERATOR], {**values, **options}).outputs()
    arrays = {name: torch.as_tensor(x) for name, x in values.items()}
    variants = (controls.control_relative_by_shift, controls.control_relative_by_queries)
    for name in ("out", "lse"):
        np.testing.assert_allclose(np.asarray(found[name]), expected[name], atol=1e-12)
        for variant in variants:
            np.testing.assert_allclose(variant(**arrays, **options)[name], expected[name], atol=1e-5)


def test_the_reference_refuses_another_number_of_distances():
    with pytest.raises(ValueError, match="a vector for each distance"):
        reference.relative_attention(**{**given(), "r": np.zeros((3, 7, 5))})


def shifting(rows):
    def relative_attention(q, k, v, r, content_bias, position_bias, *, causal=False, scale=None):
        controls.fitting(q, k, v, r)
        length, keys = q.shape[2], k.shape[2]
        factor = q.shape[3] ** -0.5 if scale is None else scale
        position = controls.shifted((q + position_bias[:, None]) @ r.mT, keys)
        if rows == "of the next query":
            first = controls.shifted((q + position_bias[:, None]) @ r[:, :keys].mT, keys)
            position = torch.where(controls.hidden(length, keys), first, position)
        scores = ((q + content_bias[:, None]) @ k.mT + position) * factor
        if causal:
            scores = scores.masked_fill(controls.hidden(length, keys), -torch.inf)
        return scores.softmax(-1) @ v

    return relative_attention


def test_a_shift_that_is_made_for_causal_attention_is_found_and_named():
    def checked(rows):
        return attnspec.check(shifting(rows), operator=OPERATOR, profile="smoke", dtypes=("float32",))

    assert checked("own").conformant
    wrong = checked("of the next query")
    assert not wrong.conformant
    assert "shift_of_a_mask" in str(wrong)
