"""What rounds too much: conversions in one direction, and lines of the definition that are stored in a narrow dtype."""

import numpy as np
import pytest
import torch

import attnspec
from attnspec.numerics.formats import BFLOAT16, half_unit, rounded


def cut(x, direction):
    """Single precision to bfloat16 in one direction."""
    exact = x.double().numpy()
    near = rounded(exact, BFLOAT16)
    step = 2 * half_unit(exact, BFLOAT16)
    low = np.where(near > exact, near - step, near)
    high = np.where(near < exact, near + step, near)
    away = {"down": low, "up": high, "towards_zero": np.where(exact > 0, low, high)}
    away["away_from_zero"] = np.where(exact > 0, high, low)
    return torch.tensor(away[direction]).to(torch.bfloat16)


def norm(*, direction=None, narrow=()):
    """RMSNorm in single precision, the results of which are rounded in a direction, or some of whose steps are."""

    @attnspec.adapter("rms_norm", dtypes=("bfloat16",), differentiable=False)
    def rms_norm(x, weight, *, eps=1e-5):
        inverse = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)
        inverse = inverse.bfloat16().float() if "inverse" in narrow else inverse
        normed = x.float() * inverse
        normed = normed.bfloat16().float() if "normed" in narrow else normed
        out = normed * weight.float()
        return out.bfloat16() if direction is None else cut(out, direction)

    return rms_norm


def softmax(*, narrow=False):
    @attnspec.adapter("softmax", dtypes=("bfloat16",), differentiable=False)
    def function(x):
        terms = (x.float() - x.float().amax(-1, keepdim=True)).exp()
        terms = terms.bfloat16().float() if narrow else terms
        return (terms / terms.sum(-1, keepdim=True)).bfloat16()

    return function


def attention(*, narrow, dtype=torch.bfloat16):
    """Attention in single precision, of which inputs, some of its steps or the output are stored in another dtype."""

    def stored(x, name):
        return x.to(dtype).to(x.dtype) if name == narrow else x

    @attnspec.adapter("attention", dtypes=("float32",), differentiable=False)
    def function(q, k, v, *, scale=None):
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        q, k, v = (stored(stored(x, name), "inputs") for x, name in zip((q, k, v), "qkv", strict=True))
        s = stored(q @ k.mT * scale, "scores")
        terms = stored((s - s.amax(-1, keepdim=True)).exp(), "terms")
        if narrow == "terms":
            return terms @ v / terms.sum(-1, keepdim=True)
        return stored(stored(terms / terms.sum(-1, keepdim=True), "weights") @ v, "out")

    return function


def named(function, *laws, law="contract.precision"):
    """The names of what a function of low precision behaves like."""
    report = attnspec.check(function, profile="smoke", laws=laws)
    (witness,) = [line["witness"] for line in report.lines if line.get("witness")]
    assert law == witness["law"]
    return [cause["name"] for cause in (witness["likeness"] or {"causes": []})["causes"]]


@pytest.mark.parametrize("direction", ["towards_zero", "down", "up", "away_from_zero"])
def test_results_that_are_all_rounded_in_one_direction_say_which(direction):
    assert [f"rounding.{direction}"] == named(norm(direction=direction))


def test_a_line_that_is_stored_in_the_dtype_is_named():
    assert ["rounding.terms"] == named(softmax(narrow=True))


@pytest.mark.parametrize(
    ("narrow", "dtype", "name", "law"),
    [
        ("inputs", torch.bfloat16, "rounding.inputs", "contract.precision"),
        ("k", torch.bfloat16, "rounding.k", "contract.precision"),
        ("scores", torch.bfloat16, "rounding.scaled", "definition"),
        ("terms", torch.bfloat16, "rounding.terms", "contract.precision"),
        ("terms", torch.float16, "rounding.terms", "contract.precision"),
        ("weights", torch.float16, "rounding.attended", "contract.precision"),
        ("out", torch.bfloat16, "rounding.attended", "contract.precision"),
    ],
)
def test_what_is_stored_in_another_dtype_is_named_where_results_are_wide(narrow, dtype, name, law):
    laws = ("attention.definition", "attention.contract.precision")
    assert [name] == named(attention(narrow=narrow, dtype=dtype), *laws, law=law)


def test_two_steps_are_named_together_and_one_may_be_a_reciprocal():
    found = named(norm(narrow=("inverse", "normed")))
    assert "rounding.root" == found[-1]
    assert found[0] in ("rounding.divided", "rounding.normed")


def test_what_rounds_to_the_nearest_alone_is_precise_enough():
    assert attnspec.check(norm()).conformant
    assert attnspec.check(softmax()).conformant


def test_results_of_another_shape_are_not_called_rounded():
    """Beams that are filled up to the width, with scores that are divided by one token too many."""

    @attnspec.adapter("beam_search", dtypes=("float32",), differentiable=False)
    def beam_search(log_probs, *, start, width, length):
        beams = [((start,), 0.0)]
        for _ in range(length):
            beams = [((*b, t), s + float(log_probs[b[-1], t])) for b, s in beams for t in range(len(log_probs))]
            beams = sorted(beams, key=lambda beam: -beam[1])[:width]
        beams += [((start, *[0] * length), -np.inf)] * (width - len(beams))
        scores = torch.tensor([score / (length + 1) for _, score in beams], dtype=log_probs.dtype)
        return torch.tensor([tokens[1:] for tokens, _ in beams]), scores

    assert not named(beam_search, "definition", law="definition")
