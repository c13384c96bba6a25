"""Gated activations of one array: two witnesses against exact digits, known interfaces, faults and right variants."""

import mpmath
import numpy as np
import pytest
import torch
from torch.nn.functional import gelu, silu

import attnspec
from attnspec import reference
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library

SILU, GELU, TANH = "silu", "gelu", "gelu_tanh"
OPTIONS = [
    {},
    {"order": "interleaved", "alpha": 1.702, "beta": 1.0, "limit": 7.0},
    {"order": "up_first", "activation": GELU},
    {"activation": TANH, "limit": 0.5},
    {"limit": 0.5, "limit_opened": True, "beta": 1.0},
]


def exactly(x, activation=SILU, order="gate_first", alpha=1.0, beta=0.0, limit=None, limit_opened=False):
    n = len(x) // 2
    pairs = {"gate_first": (x[:n], x[n:]), "up_first": (x[n:], x[:n]), "interleaved": (x[::2], x[1::2])}[order]
    found = []
    with mpmath.workdps(40):
        for gate, up in zip(*(map(mpmath.mpf, part.tolist()) for part in pairs), strict=True):
            z = gate if limit is None or limit_opened else min(gate, limit)
            inner = mpmath.sqrt(2 / mpmath.pi) * (z + mpmath.mpf("0.044715") * z**3)
            opened = {
                SILU: lambda g=z: g / (1 + mpmath.exp(-alpha * g)),
                GELU: lambda g=z: g * mpmath.ncdf(g),
                TANH: lambda g=z, bent=inner: g * (1 + mpmath.tanh(bent)) / 2,
            }[activation]()
            opened = min(opened, limit) if limit_opened else opened
            found.append(opened * ((up if limit is None else max(min(up, limit), -limit)) + beta))
        return np.array(found, float)


@pytest.mark.parametrize("size", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_both_witnesses_have_the_digits_of_the_formula(options, size):
    x = size * np.random.default_rng(3).normal(size=16)
    expected = exactly(x, **options)
    mechanism = library()["gated_activation"]
    given = {"x": x, **{name: mechanism.meant(name, option) for name, option in options.items()}}
    np.testing.assert_allclose(reference.gated_activation(x, **options), expected, 1e-12, 1e-14)
    np.testing.assert_allclose(Frame(mechanism, given).outputs()["out"], expected, 1e-12, 1e-14)


@pytest.mark.parametrize(("x", "options"), [([1.0, 2.0, 3.0], {}), ([], {}), ([1.0, 2.0], {"limit": 0.0})])
def test_the_reference_refuses_what_has_no_partner_and_limits_that_are_none(x, options):
    with pytest.raises(ValueError, match="every gate has a partner"):
        reference.gated_activation(np.array(x), **options)


DEFINITION = ("gated_activation.definition",)


def failures(function, **more):
    more = {"dtypes": ("float32",), "isolate": False, "framework": "torch", "profile": "smoke", **more}
    return {cell["law"] for cell in attnspec.check(function, **more).failures}


# Known interfaces, as functions return their output or write it


def halves(x):
    return x.chunk(2, -1)


def right():
    def silu_and_mul(out, x):
        gate, up = halves(x)
        out.copy_(silu(gate) * up)

    def gelu_and_mul(x):
        gate, up = halves(x)
        return gelu(gate) * up

    def gelu_tanh_and_mul(x, out=None, enable_pdl=None):
        gate, up = halves(x)
        out.copy_(gelu(gate, approximate="tanh") * up)
        return out

    def mul_and_silu(x):
        up, gate = halves(x)
        return silu(gate) * up

    def swigluoai_and_mul(out, x, alpha=1.702, limit=7.0):
        gate, up = x[..., ::2].clamp(max=limit), x[..., 1::2].clamp(-limit, limit)
        out.copy_((up + 1) * gate * torch.sigmoid(gate * alpha))

    def silu_and_mul_with_clamp(out, x, limit, alpha=1.0, beta=0.0):
        gate, up = halves(x)
        gate = gate.clamp(max=limit)
        out.copy_(gate * torch.sigmoid(gate * alpha) * (up.clamp(-limit, limit) + beta))

    def swiglustep_and_mul(x, limit=7.0):
        gate, up = halves(x)
        return silu(gate).clamp(max=limit) * up.clamp(-limit, limit)

    return (
        silu_and_mul,
        gelu_and_mul,
        gelu_tanh_and_mul,
        mul_and_silu,
        swigluoai_and_mul,
        silu_and_mul_with_clamp,
        (swiglustep_and_mul),
    )


@pytest.mark.parametrize("function", right(), ids=lambda f: f.__name__)
def test_a_function_of_a_known_name_is_checked_as_it_is(function):
    assert set() == failures(function)


def wrong():
    def silu_and_mul(out, x):
        up, gate = halves(x)
        out.copy_(silu(gate) * up)

    def gelu_and_mul(x):
        gate, up = halves(x)
        return gelu(gate, approximate="tanh") * up

    def gelu_tanh_and_mul(x, out=None):
        gate, up = halves(x)
        return gelu(gate) * up

    def mul_and_silu(x):
        gate, up = halves(x)
        return silu(gate) * up

    def swigluoai_and_mul(out, x, alpha=1.702, limit=7.0):
        gate, up = x[..., ::2].clamp(-limit, limit), x[..., 1::2].clamp(-limit, limit)
        out.copy_((up + 1) * gate * torch.sigmoid(gate * alpha))

    def silu_and_mul_with_clamp(out, x, limit, alpha=1.0, beta=0.0):
        gate, up = halves(x)
        gate = gate.clamp(max=limit)
        out.copy_(gate * torch.sigmoid(gate * alpha) * (up + beta).clamp(-limit, limit))

    def swiglustep_and_mul(x, limit=7.0):
        gate, up = halves(x)
        return silu(gate.clamp(max=limit)) * up.clamp(-limit, limit)

    return (
        silu_and_mul,
        gelu_and_mul,
        gelu_tanh_and_mul,
        mul_and_silu,
        swigluoai_and_mul,
        silu_and_mul_with_clamp,
        (swiglustep_and_mul),
    )


@pytest.mark.parametrize("function", wrong(), ids=lambda f: f.__name__)
def test_a_fault_under_a_known_name_is_found(function):
    assert {"definition"} == failures(function, laws=DEFINITION)


# Faults of an operator that is called as it is


def by_exponentials(x):
    gate, up = halves(x)
    return gate * gate.exp() / (1 + gate.exp()) * up


def first_entries(x):
    gate, up = halves(x)
    return silu(gate) * up * (torch.arange(gate.shape[-1]) < 1024)


def gates_overwritten(x):
    gate, up = halves(x)
    return silu(gate, inplace=True) * up


@pytest.mark.parametrize(
    ("function", "laws"),
    [
        (by_exponentials, DEFINITION),
        (first_entries, DEFINITION),
        (gates_overwritten, ("gated_activation.contract.inputs_unchanged",)),
    ],
)
def test_a_fault_is_found(function, laws):
    assert failures(function, operator="gated_activation", laws=laws)


def test_numpy_serves_as_well():
    def gated_activation(x, *, limit=None, beta=0.0):
        gate, up = np.split(x, 2, -1)
        if limit is not None:
            gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
        return gate / (1 + np.exp(np.minimum(-gate, 80))) * (up + beta)

    assert set() == failures(gated_activation, framework="numpy")
