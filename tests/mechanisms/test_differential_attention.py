"""Differential attention: both witnesses, variants beside them, and functions with either order of heads."""

import math

import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.adapters.controls import differential as controls
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library

OPERATOR = "differential_attention"
VECTORS = ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2")


def given(weight, seed=3):
    rng = np.random.default_rng(seed)
    shapes = {"q": (2, 8, 3, 6), "k": (2, 4, 5, 6), "v": (2, 2, 5, 7)} | dict.fromkeys(VECTORS, (6,))
    values = {name: rng.normal(size=shape) * (0.3 if "lambda" in name else 1) for name, shape in shapes.items()}
    return values | ({"weight": rng.normal(size=7)} if weight else {})


def test_of_one_key_the_output_is_its_value_divided_by_its_root_mean_square():
    one, none = np.ones((1, 2, 1, 1)), [np.zeros(1)] * 4
    found = reference.differential_attention(
        one, one, np.array([[[[3.0, -4.0]]]]), *none, depth=2, eps=1e-9, head_pairs="halves"
    )
    start = 0.8 - 0.6 * math.exp(-0.6)
    np.testing.assert_allclose(found, [[[[(1 - start) * 3 / 12.5**0.5, (start - 1) * 4 / 12.5**0.5]]]])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("weight", [False, True])
def test_definition_reference_and_variants_agree(weight, causal):
    values, options = given(weight), {"depth": 2, "causal": causal, "eps": 1e-3}
    arrays = {name: torch.as_tensor(x).float() for name, x in values.items()}
    turned = {name: x.swapaxes(1, 2) if name in "qkv" else x for name, x in values.items()}
    found = {
        "neighbours": [controls.control_differential_weights(**arrays, **options)],
        "halves": [
            controls.control_differential_narrow(**arrays, **options),
            controls.control_differential_by_heads(**turned, **options).swapaxes(1, 2),
        ],
    }
    for head_pairs, variants in found.items():
        expected = reference.differential_attention(**values, **options, head_pairs=head_pairs)
        defined = Frame(library()[OPERATOR], {**values, **options, "head_pairs": head_pairs}).outputs()["out"]
        np.testing.assert_allclose(np.asarray(defined), expected, atol=1e-12)
        for variant in variants:
            np.testing.assert_allclose(variant, expected, atol=1e-5)


def test_the_reference_refuses_keys_without_values():
    values = given(False)
    with pytest.raises(ValueError, match="a value for each pair of keys"):
        reference.differential_attention(**{**values, "v": values["v"][:, :, 1:]}, head_pairs="halves")


def differential(first, behind):
    def diff_attn(q, k, v, lambda_q1, lambda_k1, lambda_q2, lambda_k2, depth=0, causal=False, eps=1e-5):
        if k.shape[-1] != q.shape[-1] or k.shape[1] != v.shape[1]:
            raise ValueError("a value for each pair of keys, and queries as wide as keys")
        start = 0.8 - 0.6 * math.exp(-0.3 * (depth + first))
        maps = []
        for p in (0, 1):
            own = [x.chunk(2, 2)[p] if behind else x[:, :, p::2] for x in (q, k)]
            heads = [x.float().transpose(1, 2) for x in (*own, v)]
            groups = heads[0].shape[1] // heads[1].shape[1]
            key, value = (x.repeat_interleave(groups, 1) for x in heads[1:])
            scores = heads[0] @ key.mT * q.shape[-1] ** -0.5
            if causal:
                hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(k.shape[1] - q.shape[1] + 1)
                scores = scores.masked_fill(hidden, -math.inf)
            maps.append(scores.softmax(-1) @ value)
        dots = [(x.float() @ y.float()).exp() for x, y in ((lambda_q1, lambda_k1), (lambda_q2, lambda_k2))]
        left = maps[0] - (dots[0] - dots[1] + start) * maps[1]
        y = torch.nn.functional.rms_norm(left, left.shape[-1:], None, eps) * (1 - start)
        return y.transpose(1, 2).to(q.dtype)

    return diff_attn


@pytest.mark.parametrize("behind", [False, True])
def test_layers_that_are_counted_from_one_are_found_and_named_in_either_order_of_heads(behind):
    def checked(first):
        function = differential(first, behind)
        return attnspec.check(function, operator=OPERATOR, profile="smoke", dtypes=("float32",))

    assert checked(0).conformant
    wrong = checked(1)
    assert not wrong.conformant
    assert "layers_from_one" in str(wrong)
