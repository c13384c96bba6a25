"""Normalisations: two witnesses against exact digits, faults as people make them, and what is right in its own way."""

import itertools

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

DTYPES = ("float32", "bfloat16", "float16")
LAYER = {"eps_place": "inside", "variance": "biased"}
ROOT = {"eps_place": "inside", "weight_form": "plain"}


def failures(function, operator, dtype="float32", framework="torch", first=False, **declared):
    """The laws that a function breaks; with `first`, of those up to the first violation."""
    one = subject(Adapter("function", operator, function, framework, dtypes=(dtype,), **declared))
    cells = run(Request(one, library()[operator], dtype, PROFILES["quick"], first=first)).cells
    return [cell.law for cell in cells if cell.bad and cell.level == "must"]


# The witnesses


def exactly(row, weight, bias, eps, *, centred, outside, divisor):
    with mpmath.workdps(60):
        x = [mpmath.mpf(float(t)) for t in row]
        mu = mpmath.fsum(x) / len(x) if centred else mpmath.mpf(0)
        square = mpmath.fsum((t - mu) ** 2 for t in x) / divisor
        root = mpmath.sqrt(square) + eps if outside else mpmath.sqrt(square + eps)
        return [float((t - mu) / root * float(w) + float(b)) for t, w, b in zip(x, weight, bias, strict=True)]


def parameters(n, offset):
    draw = np.random.default_rng(n)
    return offset + draw.normal(size=(2, n)), draw.normal(size=n), draw.normal(size=n)


@pytest.mark.parametrize("eps_place", ["inside", "outside"])
@pytest.mark.parametrize("variance", ["biased", "unbiased"])
@pytest.mark.parametrize(("n", "offset"), [(2, 0.0), (7, 3.0), (300, -1000.0)])
def test_layer_norm_has_the_digits_of_its_formula(n, offset, variance, eps_place):
    x, weight, bias = parameters(n, offset)
    words = {"eps_place": eps_place, "variance": variance}
    divisor = n if variance == "biased" else n - 1
    more = {"centred": True, "outside": eps_place == "outside", "divisor": divisor}
    expected = np.array([exactly(row, weight, bias, 0.001, **more) for row in x])
    given = {"x": x, "weight": weight, "bias": bias, "eps": 0.001, **words}
    np.testing.assert_allclose(reference.layer_norm(x, weight, bias, eps=0.001, **words), expected, 0, 1e-10)
    np.testing.assert_allclose(Frame(library()["layer_norm"], given).outputs()["out"], expected, 0, 1e-10)


@pytest.mark.parametrize("eps_place", ["inside", "outside"])
@pytest.mark.parametrize("weight_form", ["plain", "one_plus"])
@pytest.mark.parametrize("n", [1, 7, 300])
def test_rms_norm_has_the_digits_of_its_formula(n, weight_form, eps_place):
    x, weight, _ = parameters(n, 0.5)
    words = {"eps_place": eps_place, "weight_form": weight_form}
    gain = weight if weight_form == "plain" else weight + 1
    more = {"centred": False, "outside": eps_place == "outside", "divisor": n}
    expected = np.array([exactly(row, gain, 0 * gain, 0.001, **more) for row in x])
    given = {"x": x, "weight": weight, "eps": 0.001, **words}
    np.testing.assert_allclose(reference.rms_norm(x, weight, eps=0.001, **words), expected, 0, 1e-13)
    np.testing.assert_allclose(Frame(library()["rms_norm"], given).outputs()["out"], expected, 0, 1e-13)


@pytest.mark.parametrize("norm_before_gate", [True, False])
@pytest.mark.parametrize("activation", ["silu", "sigmoid"])
@pytest.mark.parametrize("groups", [1, 3])
def test_gated_norms_have_the_digits_of_their_formula(groups, activation, norm_before_gate):
    draw = np.random.default_rng(groups)
    x, gate, weight = draw.normal(size=(2, 1, 6)), 3 * draw.normal(size=(2, 1, 6)), draw.normal(size=6)

    def opened(z):
        passed = 1 / (1 + mpmath.exp(-mpmath.mpf(float(z))))
        return passed * float(z) if activation == "silu" else passed

    expected = np.empty(x.shape)
    for item, part in itertools.product(range(2), np.split(np.arange(6), groups)):
        with mpmath.workdps(60):
            a = [opened(z) for z in gate[item, 0, part]]
            y = [mpmath.mpf(float(t)) for t in x[item, 0, part]]
            y = y if norm_before_gate else [t * b for t, b in zip(y, a, strict=True)]
            root = mpmath.sqrt(mpmath.fsum(t**2 for t in y) / len(part) + mpmath.mpf(0.001))
            after = a if norm_before_gate else [1] * len(part)
            row = [float(t / root * float(w) * b) for t, w, b in zip(y, weight[part], after, strict=True)]
        expected[item, 0, part] = row
    options = {"groups": groups, "norm_before_gate": norm_before_gate, "activation": activation, "eps": 0.001}
    np.testing.assert_allclose(reference.gated_rms_norm(x, gate, weight, **options), expected, 0, 1e-13)
    given = {"x": x, "gate": gate, "weight": weight, **options, "activation": f"{activation}_gate"}
    np.testing.assert_allclose(Frame(library()["gated_rms_norm"], given).outputs()["out"], expected, 0, 1e-13)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ({"gate": np.ones((1, 2, 3))}, "a gate for every channel"),
        ({"groups": 3}, "groups divide the channels"),
        ({"eps": 0.0}, "epsilon is positive"),
    ],
)
def test_the_reference_of_gated_norms_refuses_what_is_outside_the_domain(call, says):
    given = {"x": np.ones((1, 2, 4)), "gate": np.ones((1, 2, 4)), "weight": np.ones(4), **call}
    with pytest.raises(ValueError, match=says):
        reference.gated_rms_norm(**given)


@pytest.mark.parametrize("call", [{"weight": np.ones(2)}, {"bias": np.ones(4)}, {"eps": -1.0}, {"eps": 0.0}])
def test_the_reference_refuses_what_is_outside_the_domain(call):
    given = {"x": np.ones((2, 3)), "weight": np.ones(3), "bias": np.ones(3), **call}
    with pytest.raises(ValueError, match=r"there is one weight|epsilon"):
        reference.layer_norm(**given)


# Faults


def layer_norm(x, weight, bias, *, eps=1e-5):
    y = x.float()
    centred = y - y.mean(-1, keepdim=True)
    return (centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps) * weight + bias).to(x.dtype)


def rms_norm(x, weight, *, eps=1e-5):
    y = x.float()
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps) * weight).to(x.dtype)


def unbiased_and_outside(x, weight, bias, *, eps=1e-5):
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps) * weight + bias


def mean_square_less_squared_mean(x, weight, bias, *, eps=1e-5):
    mean = x.float().mean(-1, keepdim=True)
    variance = (x.float().square().mean(-1, keepdim=True) - mean.square()).clamp(min=0)
    return ((x.float() - mean) * torch.rsqrt(variance + eps) * weight.float() + bias.float()).to(x.dtype)


def masked_lanes_counted(x, weight, bias, *, eps=1e-5):
    n = x.shape[-1]
    tile = torch.nn.functional.pad(x.float(), (0, -n % 16))
    centred = tile - tile.sum(-1, keepdim=True) / n
    y = centred * torch.rsqrt(centred.square().sum(-1, keepdim=True) / n + eps)
    return (y[..., :n] * weight + bias).to(x.dtype)


def one_block_of_channels(x, weight, bias, *, eps=1e-5):
    y = x.float()
    mean, variance = y[..., :1024].mean(-1, keepdim=True), y[..., :1024].var(-1, correction=0, keepdim=True)
    return ((y - mean) * torch.rsqrt(variance + eps) * weight + bias).to(x.dtype)


def over_all_trailing_axes(x, weight, bias, *, eps=1e-5):
    axes = tuple(range(1, x.ndim)) or (0,)
    y = x.float()
    mean, variance = y.mean(axes, keepdim=True), y.var(axes, correction=0, keepdim=True)
    return ((y - mean) * torch.rsqrt(variance + eps) * weight + bias).to(x.dtype)


def of_the_storage(x, weight, bias, *, eps=1e-5):
    return layer_norm(x.as_strided(x.shape, torch.empty(x.shape).stride()), weight, bias, eps=eps)


def epsilon_of_its_own(x, weight, bias, *, eps=1e-5):
    return layer_norm(x, weight, bias, eps=1e-6)


LAYER_FAULTS = (
    unbiased_and_outside,
    mean_square_less_squared_mean,
    masked_lanes_counted,
    one_block_of_channels,
    over_all_trailing_axes,
    of_the_storage,
    epsilon_of_its_own,
)


@pytest.mark.parametrize("function", LAYER_FAULTS, ids=lambda f: f.__name__)
def test_a_faulty_layer_norm_is_found(function):
    assert failures(function, "layer_norm", conventions=LAYER, first=True)


def in_place(x, weight, *, eps=1e-5):
    y = x.float()  # the input itself, if it is float32
    return y.mul_(torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)).mul(weight).to(x.dtype)


def by_the_sum(x, weight, *, eps=1e-5):
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + eps) * weight


def like_layer_norm(x, weight, *, eps=1e-5):
    return layer_norm(x, weight, 0 * weight, eps=eps)


def one_plus(x, weight, *, eps=1e-5):
    return rms_norm(x, 1 + weight.float(), eps=eps)


def first_axis(x, weight, *, eps=1e-5):
    return x * torch.rsqrt(x.square().mean(0, keepdim=True) + eps) * weight


@pytest.mark.parametrize("function", [in_place, by_the_sum, like_layer_norm, one_plus, first_axis])
def test_a_faulty_rms_norm_is_found(function):
    assert failures(function, "rms_norm", conventions=ROOT, first=True)


def squares_in_half(x, weight, *, eps=1e-5):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def epsilon_in_half(x, weight, bias, *, eps=1e-8):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + torch.tensor(eps, dtype=x.dtype)).sqrt() * weight + bias


@pytest.mark.parametrize(("function", "operator"), [(squares_in_half, "rms_norm"), (epsilon_in_half, "layer_norm")])
def test_statistics_in_half_precision_are_found(function, operator):
    assert failures(function, operator, "float16", first=True)


# What is right


def unbiased(x, weight, bias, *, eps=1e-5):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + eps).sqrt() * weight + bias


def outside(x, weight, bias, *, eps=1e-5):
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, correction=0, keepdim=True) + eps) * weight + bias


@pytest.mark.parametrize("function", [layer_norm, unbiased, outside, unbiased_and_outside])
def test_every_word_of_the_conventions_of_layer_norm_is_right_where_none_is_declared(function):
    assert [] == failures(function, "layer_norm")


def another_default(x, weight, *, eps=1e-3):
    return rms_norm(x, weight, eps=eps)


def by_length(x, weight, *, eps=1e-5):
    length = torch.linalg.vector_norm(x.double(), dim=-1, keepdim=True)
    return (x / torch.hypot(length / x.shape[-1] ** 0.5, torch.tensor(eps) ** 0.5) * weight).to(x.dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [rms_norm, one_plus, another_default, by_length])
def test_a_right_rms_norm_is_not_accused(function, dtype):
    assert [] == failures(function, "rms_norm", dtype)
