"""Scaled and masked softmax and its gradient: two witnesses against exact digits, and what goes wrong with masks."""

import mpmath
import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

DRAW = np.random.default_rng(5)
X, D_OUT = DRAW.normal(size=(2, 3, 3, 5)), DRAW.normal(size=(2, 3, 3, 5))
MASK = DRAW.random((2, 1, 3, 5)) < 0.6
MASK[..., 0], MASK[1, :, 2] = True, False
BIAS = DRAW.normal(size=(1, 3, 3, 5))
SLOPES = {8.0: (2**-4, 2**-8, 2**-2), 3.0: (2**-1.5, 2**-3, 2**-0.75), 0.0: (1, 1, 1)}
"""Of three heads, by the largest exponent."""


def defined(operator, **values):
    return next(iter(Frame(library()[operator], values).outputs().values()))


def referred(operator, **values):
    found = getattr(reference, operator)(**values)
    return found["d_x"] if isinstance(found, dict) else found


witnesses = pytest.mark.parametrize("witness", [defined, referred])


def exact(x, mask, bias, scale, causal, max_bias):
    """The shares of every row, term by term, of twenty digits; of a row that sees nothing zeros."""
    p = np.zeros(x.shape)
    for b, h, i in np.ndindex(x.shape[:-1]):
        seen = [j for j in range(5) if mask[b, 0, i, j] and (not causal or j <= i + 2)]
        with mpmath.workdps(20):
            terms = [mpmath.exp(scale * x[b, h, i, j] + SLOPES[max_bias][h] * bias[0, h, i, j]) for j in seen]
            for j, term in zip(seen, terms, strict=True):
                p[b, h, i, j] = term / mpmath.fsum(terms)
    return p


@witnesses
@pytest.mark.parametrize("max_bias", SLOPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [1.0, -0.3])
def test_the_shares_are_those_of_the_exponentials_that_are_seen(scale, causal, max_bias, witness):
    options = {"scale": scale, "causal": causal, "max_bias": max_bias}
    found = witness("masked_softmax", x=X, mask=MASK, bias=BIAS, **options)
    np.testing.assert_allclose(found, exact(X, MASK, BIAS, **options), 1e-12, 1e-15)


@witnesses
@pytest.mark.parametrize(("word", "share"), [("zeros", 0.0), ("nans", np.nan), ("mean_value", 0.2)])
def test_a_query_that_sees_nothing_has_the_shares_that_its_convention_says(word, share, witness):
    found = witness("masked_softmax", x=X, mask=MASK, empty_row=word)
    np.testing.assert_allclose(found[1, :, 2], np.full((3, 5), share), 1e-15)
    np.testing.assert_allclose(np.sum(found[0], -1), np.ones((3, 3)), 1e-12)


@witnesses
@pytest.mark.parametrize(("word", "seen"), [("bottom_right", [3, 4, 5]), ("top_left", [1, 2, 3])])
def test_a_causal_row_ends_where_its_alignment_says(word, seen, witness):
    found = witness("masked_softmax", x=X, causal=True, causal_alignment=word)
    assert [seen] * 3 == np.sum(np.asarray(found[0]) > 0, -1).tolist()


@witnesses
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [1.0, -0.3])
def test_the_gradient_is_the_derivative_of_the_shares(scale, causal, witness):
    options = {"scale": scale, "causal": causal, "max_bias": 3.0}
    found = witness("masked_softmax_gradient", x=X, d_out=D_OUT, mask=MASK, bias=BIAS, **options)
    expected, step = np.zeros(X.shape), 1e-5
    for place in np.ndindex(X.shape):
        moved = np.zeros(X.shape)
        moved[place] = step
        ahead, behind = (exact(X + t, MASK, BIAS, **options) for t in (moved, -moved))
        expected[place] = np.sum((ahead - behind) * D_OUT) / (2 * step)
    np.testing.assert_allclose(found, expected, 1e-7, 1e-9)


@witnesses
def test_the_gradient_of_equal_shares_flows_to_a_query_that_sees_nothing(witness):
    found = witness("masked_softmax_gradient", x=X, d_out=D_OUT, mask=MASK, scale=2.0, empty_row="equal_shares")
    d = D_OUT[1, :, 2]
    np.testing.assert_allclose(found[1, :, 2], 2 * (d - d.mean(-1, keepdims=True)) / 5, 1e-12)


def test_the_reference_refuses_slopes_that_grow_and_a_cotangent_of_another_shape():
    with pytest.raises(ValueError, match="no slope grows"):
        reference.masked_softmax(X, max_bias=-1.0)
    with pytest.raises(ValueError, match="one entry of the cotangent"):
        reference.masked_softmax_gradient(X, D_OUT[:1])


# Faults


def failures(function, operator, **declared):
    one = subject(Adapter("function", operator, function, "torch", fixed={"max_bias": 0.0}, **declared))
    cells = run(Request(one, library()[operator], "float32", PROFILES["smoke"], first=True)).cells
    return [cell.law for cell in cells if cell.bad and cell.level == "must"]


def away(x, mask, causal):
    future = torch.ones(x.shape[-2:], dtype=torch.bool).triu(1 + x.shape[-1] - x.shape[-2])
    return (future & torch.tensor(causal)) | (torch.tensor(False) if mask is None else ~mask)


def shares(x, *, mask=None, bias=None, scale=1.0, causal=False):
    scores = x * scale + (0 if bias is None else bias)
    return scores.masked_fill(away(x, mask, causal), -torch.inf).softmax(-1)


def filled_before_the_scale(x, *, mask=None, bias=None, scale=1.0, causal=False):
    scores = x.masked_fill(away(x, mask, causal), -20.0)
    return (scores * scale + (0 if bias is None else bias)).softmax(-1)


def mask_of_all_items(x, *, mask=None, bias=None, scale=1.0, causal=False):
    return shares(x, mask=None if mask is None else mask.all(0, keepdim=True), bias=bias, scale=scale, causal=causal)


def hidden_by_product(x, *, mask=None, bias=None, scale=1.0, causal=False):
    return shares(x, bias=bias, scale=scale) * ~away(x, mask, causal)


def exponentials_unshifted(x, *, mask=None, bias=None, scale=1.0, causal=False):
    terms = (x * scale + (0 if bias is None else bias)).exp() * ~away(x, mask, causal)
    return terms / terms.sum(-1, keepdim=True)


def mask_instead_of_causal(x, *, mask=None, bias=None, scale=1.0, causal=False):
    return shares(x, mask=mask, bias=bias, scale=scale, causal=causal and mask is None)


WRONG = (filled_before_the_scale, mask_of_all_items, hidden_by_product, exponentials_unshifted, mask_instead_of_causal)


def test_a_right_function_is_not_accused():
    assert [] == failures(shares, "masked_softmax")


@pytest.mark.parametrize("function", WRONG, ids=lambda f: f.__name__)
def test_a_faulty_masked_softmax_is_found(function):
    assert failures(function, "masked_softmax")


def gradient(x, d_out, *, mask=None, bias=None, scale=1.0, causal=False):
    p = shares(x, mask=mask, bias=bias, scale=scale, causal=causal)
    return (scale * p * (d_out - (p * d_out).sum(-1, keepdim=True))).masked_fill(away(x, mask, causal), 0.0)


def written_over_the_cotangent(x, d_out, **options):
    return d_out.copy_(gradient(x, d_out, **options))


def blocks_rounded_down(x, d_out, *, mask=None, bias=None, scale=1.0, causal=False):
    p = shares(x, mask=mask, bias=bias, scale=scale, causal=causal).nan_to_num(0.0)
    n = x.shape[-1] // 16 * 16
    return scale * p * (d_out - (p * d_out)[..., :n].sum(-1, keepdim=True))


def scale_of_the_forward_pass_alone(x, d_out, *, scale=1.0, **options):
    return gradient(x * scale, d_out, **options)


def cotangents_of_hidden_keys(x, d_out, *, mask=None, bias=None, scale=1.0, causal=False):
    p = shares(x, mask=mask, bias=bias, scale=scale, causal=causal).nan_to_num(0.0)
    lost = d_out.masked_fill(~away(x, mask, causal), 0.0).sum(-1, keepdim=True)
    return scale * p * (d_out - (p * d_out).sum(-1, keepdim=True) - lost)


FAULTY = (
    written_over_the_cotangent,
    blocks_rounded_down,
    scale_of_the_forward_pass_alone,
    cotangents_of_hidden_keys,
)


def test_a_right_gradient_is_not_accused():
    assert [] == failures(gradient, "masked_softmax_gradient")


@pytest.mark.parametrize("function", FAULTY, ids=lambda f: f.__name__)
def test_a_faulty_gradient_of_masked_softmax_is_found(function):
    assert failures(function, "masked_softmax_gradient")
