"""Gradients: two witnesses against derivatives of exact digits, faults as people make them, and what is right."""

import mpmath
import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.torch.gradients import differentiated
from attnspec.cases.profiles import PROFILES
from attnspec.frameworks.known import framework_named
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

DTYPES = ("float32", "bfloat16", "float16")
LAYER = {"eps_place": "inside", "variance": "biased"}
ROOT = {"eps_place": "inside", "weight_form": "plain"}


def failures(function, operator, dtype="float32", first=False, **declared):
    """The laws that a function breaks; with `first`, of those up to the first violation."""
    one = subject(Adapter("function", operator, function, "torch", dtypes=(dtype,), **declared))
    cells = run(Request(one, library()[operator], dtype, PROFILES["quick"], first=first)).cells
    return [cell.law for cell in cells if cell.bad and cell.level == "must"]


# The witnesses


def derived(function, inputs, d_out):
    """The gradients of sum(function(*inputs) * d_out), entry by entry, by differences of sixty digits."""
    with mpmath.workdps(60):
        exact = [np.vectorize(mpmath.mpf, otypes=[object])(x) for x in inputs]

        def along(number, place):
            def moved(t):
                x = [x.copy() for x in exact]
                x[number][place] += t
                return np.sum(function(*x) * d_out)

            return float(mpmath.diff(moved, 0))

        return [
            np.array([along(number, place) for place in np.ndindex(x.shape)]).reshape(x.shape)
            for number, x in enumerate(exact)
        ]


def witnessed(operator, outputs, expected, *inputs, **options):
    """Reference and definition have the gradients that are expected."""
    named = dict(zip(library()[operator].required, inputs, strict=True))
    by_reference = getattr(reference, operator)(*inputs, **options)
    by_definition = Frame(library()[operator], {**named, **options}).outputs()
    for witness in (by_reference, by_definition):
        for name, gradient in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(witness[name], gradient, 1e-12, 1e-12)


def arrays(*shapes, offset=0.0):
    draw = np.random.default_rng(len(shapes))
    return [draw.normal(size=shape) + (offset if i == 0 else 0) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize("eps_place", ["inside", "outside"])
@pytest.mark.parametrize("weight_form", ["plain", "one_plus"])
@pytest.mark.parametrize("n", [1, 5])
def test_the_gradient_of_rms_norm_is_the_derivative_of_its_formula(n, weight_form, eps_place):
    def rms_norm(x, weight):
        square = np.mean(x * x, -1, keepdims=True)
        root = np.vectorize(mpmath.sqrt, otypes=[object])(square + (0.5 if eps_place == "inside" else 0))
        return x / (root + (0.5 if eps_place == "outside" else 0)) * (weight + (weight_form == "one_plus"))

    x, weight, d_out = arrays((2, n), (n,), (2, n))
    expected = derived(rms_norm, (x, weight), d_out)
    words = {"eps_place": eps_place, "weight_form": weight_form}
    witnessed("rms_norm_gradient", ("d_x", "d_weight"), expected, x, weight, d_out, eps=0.5, **words)


@pytest.mark.parametrize("eps_place", ["inside", "outside"])
@pytest.mark.parametrize("variance", ["biased", "unbiased"])
@pytest.mark.parametrize("offset", [0.0, -30.0])
def test_the_gradient_of_layer_norm_is_the_derivative_of_its_formula(offset, variance, eps_place):
    def layer_norm(x, weight, bias):
        centred = x - np.mean(x, -1, keepdims=True)
        square = np.sum(centred * centred, -1, keepdims=True) / (4 if variance == "biased" else 3)
        root = np.vectorize(mpmath.sqrt, otypes=[object])(square + (0.5 if eps_place == "inside" else 0))
        return centred / (root + (0.5 if eps_place == "outside" else 0)) * weight + bias

    x, weight, d_out = arrays((2, 4), (4,), (2, 4), offset=offset)
    expected = derived(layer_norm, (x, weight, 0 * weight), d_out)
    words = {"eps_place": eps_place, "variance": variance}
    witnessed("layer_norm_gradient", ("d_x", "d_weight", "d_bias"), expected, x, weight, d_out, eps=0.5, **words)


@pytest.mark.parametrize("n", [1, 5])
def test_the_gradient_of_softmax_is_the_derivative_of_its_formula(n):
    def softmax(x):
        terms = np.vectorize(mpmath.exp, otypes=[object])(x)
        return terms / np.sum(terms, -1, keepdims=True)

    x, d_out = arrays((2, n), (2, n), offset=40.0)
    witnessed("softmax_gradient", ("d_x",), derived(softmax, (x,), d_out), x, d_out)


@pytest.mark.parametrize("n", [1, 5])
def test_the_gradient_of_the_logarithm_of_softmax_is_the_derivative_of_its_formula(n):
    def log_softmax(x):
        terms = np.vectorize(mpmath.exp, otypes=[object])(x)
        return x - np.vectorize(mpmath.log, otypes=[object])(np.sum(terms, -1, keepdims=True))

    x, d_out = arrays((2, n), (2, n), offset=40.0)
    witnessed("log_softmax_gradient", ("d_x",), derived(log_softmax, (x,), d_out), x, d_out)


@pytest.mark.parametrize("hidden", [1, 3])
def test_the_gradient_of_swiglu_is_the_derivative_of_its_formula(hidden):
    def swiglu(x, w_gate, w_up, w_down):
        gate = x @ w_gate
        opened = gate / (1 + np.vectorize(mpmath.exp, otypes=[object])(-gate))
        return (opened * (x @ w_up)) @ w_down

    *inputs, d_out = arrays((2, 4), (4, hidden), (4, hidden), (hidden, 4), (2, 4), offset=0.5)
    outputs = ("d_x", "d_w_gate", "d_w_up", "d_w_down")
    witnessed("swiglu_gradient", outputs, derived(swiglu, inputs, d_out), *inputs, d_out)


def test_the_reference_refuses_a_cotangent_of_another_shape():
    with pytest.raises(ValueError, match="one entry of the cotangent"):
        reference.rms_norm_gradient(np.ones((2, 3)), np.ones(3), np.ones((1, 3)))


# What a call is like


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided", "expanded"])
def test_the_layout_of_the_cotangent_reaches_what_is_differentiated(layout):
    seen = []

    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, d_out):
            seen.append(d_out.stride())
            return d_out.clone()

    framework = framework_named("torch")
    x, d_out = (framework.make(np.ones((3, 4)), "float32", "cpu", layout, index) for index in range(2))
    with framework.session():
        differentiated(Watched.apply, d_out, x=x)
    assert [d_out.stride()] == seen
    assert not x.requires_grad


# Faults


def rms_norm_gradient(x, weight, d_out, *, eps=1e-5):
    root = (x.float().square().mean(-1, keepdim=True) + eps).sqrt()
    y, v = x.float() / root, d_out.float() * weight.float()
    d_x = (v - y * (v * y).mean(-1, keepdim=True)) / root
    return {"d_x": d_x.to(x.dtype), "d_weight": (d_out * y).reshape(-1, x.shape[-1]).sum(0).to(x.dtype)}


def in_the_memory_of_the_cotangent(x, weight, d_out, *, eps=1e-5):
    result = rms_norm_gradient(x, weight, d_out, eps=eps)
    return {**result, "d_x": d_out.copy_(result["d_x"])}


def of_a_contiguous_cotangent(x, weight, d_out, *, eps=1e-5):
    memory = torch.empty(0, dtype=d_out.dtype).set_(d_out.untyped_storage())
    return rms_norm_gradient(x, weight, memory[: d_out.numel()].expand(d_out.numel()).view(d_out.shape), eps=eps)


def of_two_axes(x, weight, d_out, *, eps=1e-5):
    result = rms_norm_gradient(x, weight, d_out, eps=eps)
    return {**result, "d_weight": rms_norm_gradient(x[:1], weight, d_out[:1])["d_weight"] if x.ndim > 2 else 0 * weight}


def sixty_four_programs(x, weight, d_out, *, eps=1e-5):
    rows, others = x.reshape(-1, x.shape[-1]), d_out.reshape(-1, x.shape[-1])
    each = max(len(rows) // 64, 1)
    result = rms_norm_gradient(rows[: 64 * each], weight, others[: 64 * each], eps=eps)
    return {**rms_norm_gradient(x, weight, d_out, eps=eps), "d_weight": result["d_weight"]}


def another_epsilon_backwards(x, weight, d_out, *, eps=1e-5):
    return rms_norm_gradient(x, weight, d_out, eps=1e-6)


ROOT_FAULTS = (
    in_the_memory_of_the_cotangent,
    of_a_contiguous_cotangent,
    of_two_axes,
    sixty_four_programs,
    another_epsilon_backwards,
)


@pytest.mark.parametrize("function", ROOT_FAULTS, ids=lambda f: f.__name__)
def test_a_faulty_gradient_of_rms_norm_is_found(function):
    assert failures(function, "rms_norm_gradient", conventions=ROOT, first=True)


def layer_norm_gradient(x, weight, d_out, *, eps=1e-5):
    centred = x.float() - x.float().mean(-1, keepdim=True)
    root = (centred.square().mean(-1, keepdim=True) + eps).sqrt()
    y, v = centred / root, d_out.float() * weight.float()
    d_x = (v - v.mean(-1, keepdim=True) - y * (v * y).mean(-1, keepdim=True)) / root
    shares = {"d_weight": d_out * y, "d_bias": d_out.float()}
    sums = {name: share.reshape(-1, x.shape[-1]).sum(0).to(x.dtype) for name, share in shares.items()}
    return {"d_x": d_x.to(x.dtype), **sums}


def mean_of_the_tile(x, weight, d_out, *, eps=1e-5):
    tile = x.shape[-1] + -x.shape[-1] % 16
    root = (x.float().var(-1, correction=0, keepdim=True) + eps).sqrt()
    v = d_out.float() * weight.float()
    missing = (v.mean(-1, keepdim=True) - v.sum(-1, keepdim=True) / tile) / root
    right = layer_norm_gradient(x, weight, d_out, eps=eps)
    return {**right, "d_x": (right["d_x"].float() + missing).to(x.dtype)}


def sums_of_the_last_axis_alone(x, weight, d_out, *, eps=1e-5):
    right = layer_norm_gradient(x, weight, d_out, eps=eps)
    return {**right, "d_bias": d_out.reshape(-1, *d_out.shape[-2:])[-1].sum(0) if x.ndim > 2 else right["d_bias"]}


def averages_over_the_rows(x, weight, d_out, *, eps=1e-5):
    rows = x.reshape(-1, x.shape[-1])
    right = layer_norm_gradient(x, weight, d_out, eps=eps)
    return {**right, "d_weight": right["d_weight"] / max(len(rows), 1)}


@pytest.mark.parametrize(
    "function", [mean_of_the_tile, sums_of_the_last_axis_alone, averages_over_the_rows], ids=lambda f: f.__name__
)
def test_a_faulty_gradient_of_layer_norm_is_found(function):
    assert failures(function, "layer_norm_gradient", conventions=LAYER, first=True)


def softmax_gradient(x, d_out):
    p = x.float().softmax(-1)
    return (p * (d_out - (p * d_out).sum(-1, keepdim=True))).to(x.dtype)


def sum_in_the_dtype_of_the_shares(x, d_out):
    p = x.float().softmax(-1).bfloat16()
    return (p * (d_out - (p * d_out.bfloat16()).sum(-1, keepdim=True))).to(x.dtype)


def each_entry_alone(x, d_out):
    p = x.float().softmax(-1)
    return (p * (1 - p) * d_out).to(x.dtype)


def nothing_behind_the_first_tile(x, d_out):
    p = x.float().softmax(-1)
    return (p * (d_out - (p * d_out)[..., :64].sum(-1, keepdim=True))).to(x.dtype)


@pytest.mark.parametrize(
    "function",
    [sum_in_the_dtype_of_the_shares, each_entry_alone, nothing_behind_the_first_tile],
    ids=lambda f: f.__name__,
)
def test_a_faulty_gradient_of_softmax_is_found(function):
    assert failures(function, "softmax_gradient", conventions={"empty_row": "nans"}, first=True)


def log_softmax_gradient(x, d_out):
    return (d_out.float() - x.float().softmax(-1) * d_out.float().sum(-1, keepdim=True)).to(x.dtype)


def mean_in_place_of_the_sum(x, d_out):
    return (d_out - x.float().softmax(-1) * d_out.mean(-1, keepdim=True)).to(x.dtype)


def exponentials_of_the_entries(x, d_out):
    return (d_out - x.float().exp() * d_out.sum(-1, keepdim=True)).to(x.dtype)


def cotangents_of_the_first_tile(x, d_out):
    return (d_out - x.float().softmax(-1) * d_out[..., :64].sum(-1, keepdim=True)).to(x.dtype)


@pytest.mark.parametrize(
    "function",
    [mean_in_place_of_the_sum, exponentials_of_the_entries, cotangents_of_the_first_tile],
    ids=lambda f: f.__name__,
)
def test_a_faulty_gradient_of_the_logarithm_of_softmax_is_found(function):
    assert failures(function, "log_softmax_gradient", first=True)


# What is right


def gradient_of_the_row_alone(x, weight, d_out, *, eps=1e-5):
    return rms_norm_gradient(x, weight, d_out, eps=eps)["d_x"]


def with_epsilon_outside(x, weight, d_out, *, eps=1e-5):
    def rms_norm(x, weight):
        return x / (x.square().mean(-1, keepdim=True).sqrt() + eps) * weight

    return differentiated(rms_norm, d_out, x=x, weight=weight)


def with_an_offset(x, weight, d_out, *, eps=1e-5):
    return rms_norm_gradient(x, 1 + weight.float(), d_out, eps=eps)


@pytest.mark.parametrize(
    "function", [rms_norm_gradient, gradient_of_the_row_alone, with_epsilon_outside, with_an_offset]
)
def test_every_word_of_the_conventions_is_right_where_none_is_declared(function):
    assert [] == failures(function, "rms_norm_gradient")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "function",
    [rms_norm_gradient, layer_norm_gradient, softmax_gradient, log_softmax_gradient],
    ids=lambda f: f.__name__,
)
def test_a_right_gradient_is_not_accused(function, dtype):
    assert [] == failures(function, function.__name__, dtype)
