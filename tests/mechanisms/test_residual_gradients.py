"""Gradients of residual sums and their norms: witnesses, faults as people make them, and what is right."""

import mpmath
import numpy as np
import pytest
import torch

from .test_gradients import DTYPES, arrays, derived, failures, witnessed


@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize("eps_place", ["inside", "outside"])
@pytest.mark.parametrize("weight_form", ["plain", "one_plus"])
def test_the_gradient_of_a_sum_and_its_rms_norm_is_the_derivative_of_its_formula(weight_form, eps_place, used):
    def fused(x, residual, weight):
        summed = x + residual
        square = np.mean(summed * summed, -1, keepdims=True)
        root = np.vectorize(mpmath.sqrt, otypes=[object])(square + (0.5 if eps_place == "inside" else 0))
        out = summed / (root + (0.5 if eps_place == "outside" else 0)) * (weight + (weight_form == "one_plus"))
        return np.array([out, summed])

    x, residual, weight, d_out, d_summed = arrays((2, 5), (2, 5), (5,), (2, 5), (2, 5))
    d_summed = d_summed if used else np.zeros(())
    expected = derived(fused, (x, residual, weight), np.array([d_out, d_summed + 0 * d_out]))
    options = {"eps": 0.5, "eps_place": eps_place, "weight_form": weight_form, "d_summed": d_summed}
    outputs = ("d_x", "d_residual", "d_weight")
    witnessed("residual_rms_norm_gradient", outputs, expected, x, residual, weight, d_out, **options)


@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize("eps_place", ["inside", "outside"])
def test_the_gradient_of_a_sum_and_its_layer_norm_is_the_derivative_of_its_formula(eps_place, used):
    def fused(x, residual, weight, bias):
        summed = x + residual
        centred = summed - np.mean(summed, -1, keepdims=True)
        square = np.mean(centred * centred, -1, keepdims=True)
        root = np.vectorize(mpmath.sqrt, otypes=[object])(square + (0.5 if eps_place == "inside" else 0))
        out = centred / (root + (0.5 if eps_place == "outside" else 0)) * weight + bias
        return np.array([out, summed])

    x, residual, weight, d_out, d_summed = arrays((2, 4), (2, 4), (4,), (2, 4), (2, 4))
    d_summed = d_summed if used else np.zeros(())
    expected = derived(fused, (x, residual, weight, 0 * weight), np.array([d_out, d_summed + 0 * d_out]))
    options = {"eps": 0.5, "eps_place": eps_place, "d_summed": d_summed}
    outputs = ("d_x", "d_residual", "d_weight", "d_bias")
    witnessed("residual_layer_norm_gradient", outputs, expected, x, residual, weight, d_out, **options)


def through_rms_norm(summed, weight, d_out, eps):
    """What comes back to a sum through its norm, and the gradient of the weight."""
    root = (summed.square().mean(-1, keepdim=True) + eps).sqrt()
    normed, v = summed / root, d_out * weight
    d_weight = (d_out * normed).reshape(-1, summed.shape[-1]).sum(0)
    return (v - normed * (v * normed).mean(-1, keepdim=True)) / root, d_weight


def wide(*arrays):
    return [None if x is None else x.to(torch.promote_types(x.dtype, torch.float32)) for x in arrays]


def residual_rms_norm_gradient(x, residual, weight, d_out, *, d_summed=None, eps=1e-5):
    a, b, w, d, s = wide(x, residual, weight, d_out, d_summed)
    d_row, d_weight = through_rms_norm((a + b).to(x.dtype).to(a.dtype), w, d, eps)
    d_x = (d_row if s is None else d_row + s).to(x.dtype)
    return {"d_x": d_x, "d_residual": d_x, "d_weight": d_weight.to(x.dtype)}


def cotangent_of_the_sum_left_out(x, residual, weight, d_out, *, d_summed=None, eps=1e-5):
    return residual_rms_norm_gradient(x, residual, weight, d_out, eps=eps)


def both_cotangents_through_the_norm(x, residual, weight, d_out, *, d_summed=None, eps=1e-5):
    whole = d_out if d_summed is None else d_out + d_summed
    return residual_rms_norm_gradient(x, residual, weight, whole, eps=eps)


def stream_without_the_cotangent_of_the_sum(x, residual, weight, d_out, *, d_summed=None, eps=1e-5):
    found = residual_rms_norm_gradient(x, residual, weight, d_out, d_summed=d_summed, eps=eps)
    return found | {"d_residual": residual_rms_norm_gradient(x, residual, weight, d_out, eps=eps)["d_x"]}


def input_for_the_sum(x, residual, weight, d_out, *, d_summed=None, eps=1e-5):
    return residual_rms_norm_gradient(x, 0 * residual, weight, d_out, d_summed=d_summed, eps=eps)


@pytest.mark.parametrize(
    "function",
    [
        cotangent_of_the_sum_left_out,
        both_cotangents_through_the_norm,
        stream_without_the_cotangent_of_the_sum,
        input_for_the_sum,
    ],
    ids=lambda f: f.__name__,
)
def test_a_faulty_gradient_of_a_sum_and_its_rms_norm_is_found(function):
    assert failures(function, "residual_rms_norm_gradient", first=True)


def residual_layer_norm_gradient(x, residual, weight, d_out, *, d_summed=None, eps=1e-5):
    a, b, w, d, s = wide(x, residual, weight, d_out, d_summed)
    centred = (a + b).to(x.dtype).to(a.dtype)
    centred = centred - centred.mean(-1, keepdim=True)
    d_centred, d_weight = through_rms_norm(centred, w, d, eps)
    d_row = d_centred - d_centred.mean(-1, keepdim=True)
    d_x, d_bias = d_row if s is None else d_row + s, d.reshape(-1, x.shape[-1]).sum(0)
    found = {"d_x": d_x, "d_residual": d_x, "d_weight": d_weight, "d_bias": d_bias}
    return {name: gradient.to(x.dtype) for name, gradient in found.items()}


def mean_of_the_cotangent_of_the_sum_taken_off(x, residual, weight, d_out, *, d_summed=None, eps=1e-5):
    centred = None if d_summed is None else d_summed - d_summed.mean(-1, keepdim=True)
    return residual_layer_norm_gradient(x, residual, weight, d_out, d_summed=centred, eps=eps)


def bias_of_both_cotangents(x, residual, weight, d_out, *, d_summed=None, eps=1e-5):
    found = residual_layer_norm_gradient(x, residual, weight, d_out, d_summed=d_summed, eps=eps)
    whole = d_out if d_summed is None else d_out + d_summed
    return found | {"d_bias": whole.reshape(-1, x.shape[-1]).sum(0)}


@pytest.mark.parametrize(
    "function", [mean_of_the_cotangent_of_the_sum_taken_off, bias_of_both_cotangents], ids=lambda f: f.__name__
)
def test_a_faulty_gradient_of_a_sum_and_its_layer_norm_is_found(function):
    assert failures(function, "residual_layer_norm_gradient", first=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "function", [residual_rms_norm_gradient, residual_layer_norm_gradient], ids=lambda f: f.__name__
)
def test_a_right_gradient_is_not_accused(function, dtype):
    assert [] == failures(function, function.__name__, dtype)
