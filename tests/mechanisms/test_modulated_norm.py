"""Normalisation with scale and shift of its item: both witnesses, variants beside them, functions of interfaces."""

import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.adapters.controls import modulated_norms as controls
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library

OPERATOR = "modulated_norm"


def given(stream=True, seed=3):
    rng = np.random.default_rng(seed)
    shapes = {"x": (2, 6, 5), "scales": (2, 3, 5), "shifts": (2, 3, 5)}
    further = {"weight": (5,), "bias": (5,), "residual": (2, 6, 5), "gate": (2, 3, 5)} if stream else {}
    return {name: rng.normal(size=shape) for name, shape in {**shapes, **further}.items()}


def test_a_frame_scales_and_shifts_its_own_tokens():
    x = np.array([[[-1.0, 1.0], [1.0, -1.0]]])
    scales, shifts = np.array([[[1.0, 1.0], [0.0, 0.0]]]), np.array([[[0.0, 0.0], [7.0, 7.0]]])
    found = reference.modulated_norm(x, scales, shifts, eps=3.0)["out"]
    np.testing.assert_allclose(found, [[[-1.0, 1.0], [7.5, 6.5]]])


@pytest.mark.parametrize("rms", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_definition_reference_and_variants_agree(stream, rms):
    values, options = given(stream), {"rms": rms, "eps": 1e-3}
    expected = reference.modulated_norm(**values, **options)
    found = Frame(library()[OPERATOR], {**values, **options}).outputs()
    arrays = {name: torch.as_tensor(x) for name, x in values.items()}
    variants = (controls.control_modulated_norm_by_frames, controls.control_modulated_norm_narrow)
    for name in ("out", "summed"):
        np.testing.assert_allclose(np.asarray(found[name]), expected[name], atol=1e-12)
        for variant in variants:
            np.testing.assert_allclose(variant(**arrays, **options)[name], expected[name], atol=1e-5)


def test_the_reference_refuses_frames_that_do_not_divide_the_tokens():
    values = given()
    with pytest.raises(ValueError, match="a scale and a shift for every channel of a frame"):
        reference.modulated_norm(values["x"][:, :5], values["scales"], values["shifts"])


def modulated(x, weight, bias, scale, shift, norm_type, eps, one):
    if scale.shape != shift.shape or scale.shape[-1] != x.shape[-1]:
        raise ValueError("a scale and a shift for every channel")
    wide = x.float()
    centred = wide if norm_type == "rms" else wide - wide.mean(-1, keepdim=True)
    y = centred * (centred.square().mean(-1, keepdim=True) + eps).rsqrt()
    y = y if weight is None else y * weight.float()
    y = y if bias is None else y + bias.float()
    rows = [part.float().expand(-1, -1, x.shape[1] // part.shape[1], -1).flatten(1, 2) for part in (scale, shift)]
    return (y * (one + rows[0]) + rows[1]).to(x.dtype)


def norming(one):
    def fused_norm_scale_shift(x, weight, bias, scale, shift, norm_type, eps=1e-5):
        return modulated(x, weight, bias, scale, shift, norm_type, eps, one)

    return fused_norm_scale_shift


def streaming(one):
    def fused_scale_residual_norm_scale_shift(residual, x, gate, weight, bias, scale, shift, norm_type, eps=1e-5):
        gates = 1 if gate is None else gate.float().expand(-1, -1, x.shape[1] // gate.shape[1], -1).flatten(1, 2)
        stream = (residual.float() + gates * x.float()).to(x.dtype)
        return modulated(stream, weight, bias, scale, shift, norm_type, eps, one), stream

    return fused_scale_residual_norm_scale_shift


@pytest.mark.parametrize("made", [norming, streaming])
def test_a_scale_without_one_is_found_and_named(made):
    def checked(one):
        return attnspec.check(made(one), profile="smoke", dtypes=("float32",))

    assert checked(1).conformant
    wrong = checked(0)
    assert not wrong.conformant
    assert "scale_without_one" in str(wrong)
