"""Gradients of gated activations: both witnesses against exact digits, and backward passes as people write them."""

import mpmath
import numpy as np
import pytest
import torch
from torch.nn import functional

import attnspec
from attnspec import reference
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library

OPTIONS = [
    {},
    {"order": "interleaved", "alpha": 1.702, "beta": 1.0, "limit": 7.0},
    {"order": "up_first", "activation": "gelu"},
    {"activation": "gelu_tanh", "limit": 0.5},
    {"limit": 0.5, "limit_opened": True, "beta": 1.0},
]


def opening(activation, alpha):
    def tangent(z):
        return z * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (z + mpmath.mpf("0.044715") * z**3))) / 2

    return {
        "silu": lambda z: z / (1 + mpmath.exp(-alpha * z)),
        "gelu": lambda z: z * mpmath.ncdf(z),
        "gelu_tanh": tangent,
    }[activation]


def exactly(x, d, activation="silu", order="gate_first", alpha=1.0, beta=0.0, limit=None, limit_opened=False):
    """The derivative of the formula of a gated activation, by differences of forty digits."""
    n, function, found = len(d), opening(activation, alpha), np.empty(len(x))
    bound = np.inf if limit is None else limit
    for i in range(n):
        gate, up = (2 * i, 2 * i + 1) if order == "interleaved" else (i, i + n)
        gate, up = (up, gate) if order == "up_first" else (gate, up)

        def out(g, u):
            opened = min(function(g), bound) if limit_opened else function(min(g, bound))
            return opened * (max(min(u, bound), -bound) + beta)

        with mpmath.workdps(40):
            g, u = mpmath.mpf(x[gate]), mpmath.mpf(x[up])
            found[gate] = d[i] * mpmath.diff(lambda g, u=u: out(g, u), g)
            found[up] = d[i] * mpmath.diff(lambda u, g=g: out(g, u), u)
    return found


@pytest.mark.parametrize("size", [0.01, 1.0, 6.0])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_both_witnesses_have_the_derivative_of_the_formula(options, size):
    draw = np.random.default_rng(3)
    x, d_out = size * draw.normal(size=16), draw.normal(size=8)
    expected = exactly(x, d_out, **options)
    mechanism = library()["gated_activation_gradient"]
    given = {"x": x, "d_out": d_out, **{name: mechanism.meant(name, option) for name, option in options.items()}}
    np.testing.assert_allclose(reference.gated_activation_gradient(x, d_out, **options), expected, 1e-10, 1e-12)
    np.testing.assert_allclose(Frame(mechanism, given).outputs()["d_x"], expected, 1e-10, 1e-12)


@pytest.mark.parametrize(("x", "d_out", "limit"), [((2, 3), (2, 1), None), ((2, 4), (2, 1), None), ((4,), (2,), 0.0)])
def test_the_reference_refuses_what_does_not_go_together(x, d_out, limit):
    with pytest.raises(ValueError, match=r"every gate has a partner|a cotangent of the shape"):
        reference.gated_activation_gradient(np.ones(x), np.ones(d_out), limit=limit)


def shares(dy, gate, up):
    """Both gradients of SiLU(gate) * up."""
    z, d = gate.float(), dy.float()
    share = torch.sigmoid(z)
    return (d * up.float() * share * (1 + z * (1 - share))).to(gate.dtype), (d * z * share).to(gate.dtype)


def swiglu_backward(dy, gate, up):
    return shares(dy, gate, up)


def swiglu_backward_kernel(dy, gate, up, dgate, dup):
    for array, gradient in zip((dgate, dup), shares(dy, gate, up), strict=True):
        array.copy_(gradient)


def silu_and_mul_backward(grad_output, x):
    return torch.cat(shares(grad_output, *x.chunk(2, -1)), -1)


def geglu_backward(dy, gate, up):
    leaves = [x.detach().requires_grad_() for x in (gate, up)]
    with torch.enable_grad():
        out = functional.gelu(leaves[0]) * leaves[1]
    return torch.autograd.grad(out, leaves, dy)


def liger():
    def swiglu_backward(a, b, dc):
        for array, gradient in zip((a, b), shares(dc, a, b), strict=True):
            array.copy_(gradient)
        return a, b

    return swiglu_backward


RIGHT = (swiglu_backward, swiglu_backward_kernel, silu_and_mul_backward, geglu_backward, liger())


def swiglu_backward_of_the_share(dy, gate, up):
    share = torch.sigmoid(gate)
    return dy * up * share * (1 - share), dy * gate * share


def swiglu_backward_in_another_order(dy, gate, up):
    d_gate, d_up = shares(dy, gate, up)
    return d_up, d_gate


def silu_and_mul_backward_with_gates_behind(grad_output, x):
    gate, up = x.chunk(2, -1)
    d_gate, d_up = shares(grad_output, gate, up)
    return torch.cat((d_up, d_gate), -1)


def geglu_backward_of_another_gate(dy, gate, up):
    return shares(dy, gate, up)


def swiglu_backward_of_the_gate_alone(dy, gate, up):
    return shares(dy, gate, up)[0]


WRONG = (
    swiglu_backward_of_the_share, swiglu_backward_in_another_order, silu_and_mul_backward_with_gates_behind,
    geglu_backward_of_another_gate, swiglu_backward_of_the_gate_alone,
)  # fmt: skip


def report_of(function):
    return attnspec.check(function, dtypes=("float32",), isolate=False, explain_time=0)


@pytest.mark.parametrize("function", RIGHT, ids=lambda f: f.__name__)
def test_a_right_backward_pass_conforms(function):
    report = report_of(function)
    assert {function.__name__: "conformant"} == report.verdicts, [cell["law"] for cell in report.failures]
    assert {"gated_activation_gradient"} == {cell["mechanism"] for cell in report.cells}


@pytest.mark.parametrize("function", WRONG, ids=lambda f: f.__name__)
def test_a_wrong_backward_pass_does_not(function):
    assert {function.__name__: "violated"} == report_of(function).verdicts


class Opened(torch.autograd.Function):
    """SiLU(gate) * up, whose gate has the slope of its share alone."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        gate, up = x.chunk(2, -1)
        return functional.silu(gate) * up

    @staticmethod
    def backward(ctx, d):
        (x,) = ctx.saved_tensors
        return torch.cat(swiglu_backward_of_the_share(d, *x.chunk(2, -1)), -1)


def test_the_backward_pass_of_a_function_is_checked_with_it():
    def silu_and_mul(x):
        return Opened.apply(x)

    failing = {cell["mechanism"] for cell in report_of(silu_and_mul).failures}
    assert {"gated_activation_gradient"} == failing
