"""Attention-free transformers: both witnesses, wrong kernels found, and other right ones left alone."""

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

OPERATORS = ("aft_full", "aft_local", "aft_simple")
LOCAL = {"aft_local": {"window": 2}}


def by_definition(operator):
    def evaluated(*inputs, **more):
        m = library()[operator]
        return Frame(m, {**dict(zip(m.required, inputs, strict=True)), **more}).outputs()["out"]

    return evaluated


WITNESSES = [
    pytest.param(by_definition, id="definition"),
    pytest.param(lambda n: getattr(reference, n), id="reference"),
]


def drawn(operator, batch=2, length=4, dim=3, spread=1.0):
    rng = np.random.default_rng(0)
    q, k, v = (spread * rng.standard_normal((batch, length, dim)) for _ in range(3))
    return (q, k, v) if operator == "aft_simple" else (q, k, v, spread * rng.standard_normal((length, length)))


def with_many_digits(operator, q, k, v, w=None, outside="zero_bias"):
    length, out = q.shape[1], np.zeros(q.shape)
    with mpmath.workdps(40):
        for b, t, c in np.ndindex(q.shape):
            near = [operator == "aft_full" or (operator == "aft_local" and abs(t - u) < 2) for u in range(length)]
            seen = [u for u in range(length) if near[u] or outside == "zero_bias"]
            weights = [mpmath.exp(mpmath.mpf(k[b, u, c]) + (mpmath.mpf(w[t, u]) if near[u] else 0)) for u in seen]
            mixed = mpmath.fdot(weights, [mpmath.mpf(v[b, u, c]) for u in seen]) / mpmath.fsum(weights)
            out[b, t, c] = mixed / (1 + mpmath.exp(-mpmath.mpf(q[b, t, c])))
    return out


@pytest.mark.parametrize("spread", [1.0, 300.0])
@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_the_output_is_right_in_many_digits(operator, witness, spread):
    inputs = drawn(operator, spread=spread)
    actual = witness(operator)(*inputs, **LOCAL.get(operator, {}))
    np.testing.assert_allclose(with_many_digits(operator, *inputs), actual, rtol=1e-11, atol=1e-300)


@pytest.mark.parametrize("witness", WITNESSES)
def test_what_is_outside_the_window_may_be_hidden(witness):
    inputs = drawn("aft_local")
    actual = witness("aft_local")(*inputs, window=2, outside_window="hidden")
    np.testing.assert_allclose(with_many_digits("aft_local", *inputs, outside="hidden"), actual, rtol=1e-11)


@pytest.mark.parametrize("witness", WITNESSES)
def test_a_window_of_zero_leaves_the_mean_or_nothing(witness):
    q, k, v, w = (
        np.zeros((1, 2, 1)),
        np.zeros((1, 2, 1)),
        np.array([[[2.0], [6.0]]]),
        np.array([[9.0, 0.0], [0.0, 9.0]]),
    )
    np.testing.assert_array_equal([[[2.0], [2.0]]], witness("aft_local")(q, k, v, w, window=0))
    np.testing.assert_array_equal(
        [[[np.nan], [np.nan]]], witness("aft_local")(q, k, v, w, window=0, outside_window="hidden")
    )


def test_the_references_refuse_what_is_no_window_and_no_bias():
    q, k, v, w = drawn("aft_local")
    with pytest.raises(ValueError, match="a window of -1"):
        reference.aft_local(q, k, v, w, window=-1)
    with pytest.raises(ValueError, match="do not fit"):
        reference.aft_full(q, k, v, w[:, :-1])


# Kernels, put together from parts of which some are exchanged


def gate(q):
    return torch.sigmoid(q)


def lowered(a):
    """Less the maximum over the positions: [batch, queries, positions, dim]."""
    return a - a.amax(2, keepdim=True)


def normalised(p):
    return p / p.sum(2, keepdim=True)


def restricted(w, window):
    t = torch.arange(len(w))
    return torch.where((t[:, None] - t).abs() < window, w, 0.0)


PARTS = {part.__name__: part for part in (gate, lowered, normalised, restricted)}


def kernel_of(operator, **exchanged):
    part = {**PARTS, **exchanged}

    def mixed(q, k, v, w):
        p = part["normalised"](torch.exp(part["lowered"](k[:, None] + w[..., None])))
        return part["gate"](q) * (p * v[:, None]).sum(2)

    def full(q, k, v, w):
        return mixed(q, k, v, w)

    def local(q, k, v, w, *, window):
        return mixed(q, k, v, part["restricted"](w, window))

    def simple(q, k, v):
        return mixed(q, k, v, torch.zeros(q.shape[1], q.shape[1]))

    return {"aft_full": full, "aft_local": local, "aft_simple": simple}[operator]


def inclusive(w, window):
    return restricted(w, window + 1)


def backwards_only(w, window):
    return restricted(w, window).tril()


EXCHANGED = {
    "no gate": {"gate": lambda q: 1.0},
    "gate of another function": {"gate": torch.tanh},
    "nothing subtracted": {"lowered": lambda a: a},
    "maximum over the channels": {"lowered": lambda a: a - a.amax(3, keepdim=True)},
    "shares of the channels": {"normalised": lambda p: p / p.sum(3, keepdim=True)},
    "shares of the queries": {"normalised": lambda p: p / p.sum(1, keepdim=True)},
    "weights not shares": {"normalised": lambda p: p},
    "a small number in the sum": {"normalised": lambda p: p / (p.sum(2, keepdim=True) + 0.1)},
    "positions in whole blocks of four": {"normalised": lambda p: normalised(p[:, :, : p.shape[2] // 4 * 4 or 1])},
}
WINDOWS = {
    "one more within the window": inclusive,
    "a window to one side": backwards_only,
    "no window": lambda w, window: w,
    "zero taken for none": lambda w, window: restricted(w, window or len(w)),
    "transposed": lambda w, window: restricted(w.T, window),
}


def cells(operator, function, laws=None, dtype="float32"):
    words = {"outside_window": "zero_bias"} if operator == "aft_local" else {}
    one = subject(Adapter("function", operator, function, "torch", dtypes=(dtype,), conventions=words))
    return run(Request(one, library()[operator], dtype, PROFILES["quick"], laws=laws, first=laws is not None)).cells


@pytest.mark.parametrize("exchanged", EXCHANGED.values(), ids=EXCHANGED)
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_wrong_kernel_is_found(operator, exchanged):
    found = cells(operator, kernel_of(operator, **exchanged), frozenset({"definition"}))
    assert ["definition"] == [cell.law for cell in found if cell.bad]


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_a_wrong_window_is_found(window):
    found = cells("aft_local", kernel_of("aft_local", restricted=window), frozenset({"definition"}))
    assert ["definition"] == [cell.law for cell in found if cell.bad]


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_right_kernel_breaks_nothing(operator):
    found = cells(operator, kernel_of(operator))
    assert [] == [(cell.law, cell.says) for cell in found if cell.bad and cell.level == "must"]
