"""Multi-head attention: both witnesses against many digits, wrong layers found, and other right ones left alone."""

import mpmath
import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES, Profile
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

MULTI_HEAD = library()["multi_head"]
NAMES = ("x", "context", "wq", "wk", "wv", "wo")


def by_definition(*inputs, **more):
    return Frame(MULTI_HEAD, {**dict(zip(NAMES, inputs, strict=True)), **more}).outputs()["out"]


WITNESSES = [pytest.param(f, id=f.__name__) for f in (reference.multi_head, by_definition)]


def drawn(heads, kv_heads, head_dim, seed=0):
    rng = np.random.default_rng(seed)
    dim, kv = heads * head_dim, kv_heads * head_dim
    shapes = ((2, 3, dim), (2, 5, dim), (dim, dim), (dim, kv), (dim, kv), (dim, dim))
    return [rng.standard_normal(shape) for shape in shapes], [rng.standard_normal(n) for n in (dim, kv, kv, dim)]


def with_many_digits(inputs, biases, heads, kv_heads):
    """Every sum with 40 digits, one entry at a time."""
    x, context, wq, wk, wv, wo = inputs
    bq, bk, bv, bo = biases
    d = wq.shape[1] // heads
    out = np.zeros(x.shape)

    def entry(row, w, b, column):
        return mpmath.fdot(map(mpmath.mpf, row), map(mpmath.mpf, w[:, column])) + mpmath.mpf(b[column])

    with mpmath.workdps(40):
        for item, i in np.ndindex(x.shape[:2]):
            joined = []
            for h in range(heads):
                g = h * kv_heads // heads
                q = [entry(x[item, i], wq, bq, h * d + c) for c in range(d)]
                rows = context[item]
                scores = [mpmath.fdot(q, [entry(r, wk, bk, g * d + c) for c in range(d)]) for r in rows]
                weights = [mpmath.exp(s / mpmath.sqrt(d)) for s in scores]
                for c in range(d):
                    values = [entry(r, wv, bv, g * d + c) for r in rows]
                    joined.append(mpmath.fdot(weights, values) / mpmath.fsum(weights))
            out[item, i] = [
                float(mpmath.fdot(joined, map(mpmath.mpf, wo[:, c])) + mpmath.mpf(bo[c])) for c in range(x.shape[2])
            ]
    return out


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(1, 1, 3), (2, 2, 2), (3, 3, 1), (4, 2, 1)])
def test_the_output_is_right_in_many_digits(witness, heads, kv_heads, head_dim):
    inputs, biases = drawn(heads, kv_heads, head_dim)
    named = dict(zip(("bq", "bk", "bv", "bo"), biases, strict=True))
    actual = witness(*inputs, heads=heads, kv_heads=kv_heads, **named)
    np.testing.assert_allclose(with_many_digits(inputs, biases, heads, kv_heads), actual, rtol=1e-12)


@pytest.mark.parametrize("witness", WITNESSES)
def test_zero_scores_give_the_mean_of_the_projected_context(witness):
    (x, context, _, wk, wv, wo), _ = drawn(2, 2, 2)
    expected = np.broadcast_to((context @ wv @ wo).mean(1, keepdims=True), x.shape)
    np.testing.assert_allclose(expected, witness(x, context, 0 * wk, wk, wv, wo, heads=2), rtol=1e-12)


@pytest.mark.parametrize(
    ("word", "expected"), [("zeros", 7.0), ("nans", np.nan), ("mean_value", 10.0)], ids=["zeros", "nans", "mean"]
)
@pytest.mark.parametrize("witness", WITNESSES)
def test_a_query_that_sees_nothing_follows_the_convention(witness, word, expected):
    one = np.ones((1, 1))
    context, mask = np.array([[[2.0], [4.0]]]), np.zeros((1, 2), bool)
    actual = witness(
        np.ones((1, 1, 1)), context, one, one, one, one, heads=1, mask=mask, bo=[7.0] * one[0], empty_row=word
    )
    np.testing.assert_array_equal([[[expected]]], actual)


@pytest.mark.parametrize(
    ("shapes", "heads", "kv_heads"),
    [
        (((4, 4), (4, 4), (4, 4), (4, 4)), 3, None),
        (((4, 4), (4, 4), (4, 4), (4, 4)), 2, 3),
        (((4, 4), (4, 4), (4, 2), (4, 4)), 2, None),
    ],
    ids=["columns", "groups", "values"],
)
def test_the_reference_refuses_maps_that_are_no_heads(shapes, heads, kv_heads):
    maps = [np.ones(shape) for shape in shapes]
    with pytest.raises(ValueError, match=r"heads|columns"):
        reference.multi_head(np.ones((1, 2, 4)), np.ones((1, 2, 4)), *maps, heads=heads, kv_heads=kv_heads)


# Layers, put together from parts of which some are exchanged


def split(y, heads):
    return y.unflatten(-1, (heads, -1)).transpose(1, 2)


def joined(y):
    return y.transpose(1, 2).flatten(2)


def factor(q, dim):
    return q.shape[-1] ** -0.5


def hidden(s, mask):
    return s if mask is None else s.masked_fill(~mask, float("-inf"))


def projected(x, w, b):
    return x @ w if b is None else x @ w + b


PARTS = {part.__name__: part for part in (split, joined, factor, hidden, projected)}


def layer_of(**exchanged):
    part = {**PARTS, **exchanged}

    def layer(x, context, wq, wk, wv, wo, *, heads, mask=None, bq=None, bk=None, bv=None, bo=None):
        rows = ((x, wq, bq), (context, wk, bk), (context, wv, bv))
        q, k, v = (part["split"](part["projected"](*row), heads) for row in rows)
        s = part["hidden"](q @ k.transpose(-1, -2) * part["factor"](q, x.shape[-1]), mask)
        return part["projected"](part["joined"](torch.softmax(s, -1).nan_to_num(0.0) @ v), wo, bo)

    return layer


def cells(function, laws=None):
    one = subject(Adapter("function", "multi_head", function, "torch", conventions={"empty_row": "zeros"}))
    return run(Request(one, MULTI_HEAD, "float32", PROFILES["quick"], laws=laws, first=laws is not None)).cells


def in_turns(y, heads):
    return y.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2)


def upside_down(s, mask):
    return s if mask is None else s.masked_fill(mask, float("-inf"))


def of_first_head(s, mask):
    return hidden(s, mask[..., :1, :, :] if mask is not None and mask.ndim > 2 else mask)


def of_first_item(s, mask):
    return hidden(s, mask[:1] if mask is not None and mask.ndim == 4 else mask)


def transposed(x, w, b):
    return projected(x, w.T if w.shape[0] == w.shape[1] else w, b)


EXCHANGED = {
    "heads cut out of the channels in turns": {"split": in_turns},
    "heads cut without moving the axis": {"split": lambda y, n: y.reshape(y.shape[0], n, y.shape[1], -1)},
    "heads joined without moving the axis": {"joined": lambda y: y.reshape(y.shape[0], y.shape[2], -1)},
    "scale of the model": {"factor": lambda q, dim: dim**-0.5},
    "scale left out": {"factor": lambda q, dim: 1.0},
    "mask left out": {"hidden": lambda s, mask: s},
    "mask upside down": {"hidden": upside_down},
    "mask of the first head": {"hidden": of_first_head},
    "mask of the first item": {"hidden": of_first_item},
    "biases left out": {"projected": lambda x, w, b: x @ w},
    "biases subtracted": {"projected": lambda x, w, b: x @ w if b is None else x @ w - b},
    "maps transposed": {"projected": transposed},
}


@pytest.mark.parametrize("exchanged", EXCHANGED.values(), ids=EXCHANGED)
def test_a_wrong_layer_is_found(exchanged):
    assert ["definition"] == [cell.law for cell in cells(layer_of(**exchanged), frozenset({"definition"})) if cell.bad]


def test_what_is_wrong_on_the_further_calls_of_a_law_alone_is_found():
    """Heads fill the model in every case; only a law has more of them."""
    layer = layer_of(factor=lambda q, dim: factor(q, dim) * (1 if q.shape[1] * q.shape[3] == dim else 0.97))
    broken = {cell.law for cell in cells(layer) if cell.bad and cell.level == "must"}
    assert len(broken) > 0
    assert broken <= {"idle_head", "contract.precision"}


def absorbed(x, context, wq, wk, wv, wo, *, heads, mask=None):
    """Head by head, with the maps of queries and keys multiplied beforehand, and those of values and output."""
    if wq.shape[1] % heads:
        raise ValueError("the columns are no heads")
    d, out = wq.shape[1] // heads, torch.zeros(x.shape, dtype=torch.float64)
    seen = torch.ones(1, 1, 1, 1, dtype=torch.bool) if mask is None else mask
    seen = seen.expand(x.shape[0], heads, x.shape[1], context.shape[1])
    x64, context64, wq, wk, wv, wo = (t.double() for t in (x, context, wq, wk, wv, wo))
    for h in range(heads):
        own = slice(h * d, (h + 1) * d)
        s = (x64 @ (wq[:, own] @ wk[:, own].T) @ context64.transpose(1, 2) / d**0.5).masked_fill(
            ~seen[:, h], -torch.inf
        )
        out += torch.softmax(s, -1).nan_to_num(0.0) @ context64 @ (wv[:, own] @ wo[own])
    return out.to(x.dtype)


@pytest.mark.parametrize("function", [layer_of(), absorbed], ids=["layer", "absorbed"])
def test_a_right_layer_breaks_nothing(function):
    assert [] == [(cell.law, cell.says) for cell in cells(function) if cell.bad and cell.level == "must"]


def with_a_fast_path(x, context, wq, wk, wv, wo, *, heads, mask=None):
    """Rows without keys are NaN, and zeros where a tensor attends to itself."""
    q, k, v = ((y @ w).unflatten(-1, (heads, -1)).transpose(1, 2) for y, w in ((x, wq), (context, wk), (context, wv)))
    s = q @ k.mT * q.shape[-1] ** -0.5
    p = torch.softmax(s if mask is None else s.masked_fill(~mask, -torch.inf), -1)
    p = p.nan_to_num(0.0) if x.shape == context.shape and torch.equal(x, context) else p
    return (p @ v).transpose(1, 2).flatten(-2) @ wo


@pytest.mark.parametrize("word", ["nans", "zeros", None])
def test_no_declaration_mends_a_path_that_follows_another_word(word):
    conventions = {"empty_row": word} if word else {}
    one = subject(
        Adapter("fast", "multi_head", with_a_fast_path, "torch", dtypes=("float32",), conventions=conventions)
    )
    scenarios = Profile("scenarios", covering=0, draws=0, admitted=1)
    result = run(Request(one, MULTI_HEAD, "float32", scenarios, laws=frozenset({"definition", "convention.empty_row"})))
    assert "definition" in {cell.law for cell in result.cells if cell.bad}
