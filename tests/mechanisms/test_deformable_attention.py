"""Multi-scale deformable attention: both witnesses by hand and against each other, and functions of its interfaces."""

import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.adapters.controls import deformable as controls
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library

OPERATOR = "deformable_attention"
SHAPES = np.array([[3, 4], [2, 2]])


def defined(operator):
    return lambda **values: {name: np.asarray(x) for name, x in Frame(library()[operator], values).outputs().items()}


def referred(**values):
    return {"out": reference.deformable_attention(**values)}


def given(seed=3):
    rng = np.random.default_rng(seed)
    arrays = {"value": rng.normal(size=(2, 16, 2, 3)), "spatial_shapes": SHAPES}
    return {**arrays, "locations": rng.uniform(-0.2, 1.2, (2, 3, 2, 2, 4, 2)), "weights": rng.random((2, 3, 2, 2, 4))}


@pytest.mark.parametrize("witness", [defined(OPERATOR), referred])
@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [(0.125, 1 / 6, 0.0), (0.375, 1 / 6, 1.0), (0.25, 0.5, 4.5), (1.0, 1.0, 11 / 4), (0.0, 0.5, 2.0), (1.2, 0.5, 0.0)],
)
def test_a_point_reads_the_pixels_around_it(witness, x, y, expected):
    value = np.arange(12.0).reshape(1, 12, 1, 1)
    point = {"locations": np.array([x, y]).reshape(1, 1, 1, 1, 1, 2), "weights": np.ones((1, 1, 1, 1, 1))}
    found = witness(value=value, spatial_shapes=SHAPES[:1], **point)["out"]
    np.testing.assert_allclose(found, [[[expected]]], atol=1e-12)


def test_definition_and_reference_agree_on_several_levels():
    np.testing.assert_allclose(defined(OPERATOR)(**given())["out"], reference.deformable_attention(**given()))


@pytest.mark.parametrize("name", ["value", "locations", "weights"])
def test_gradients_are_those_of_small_steps(name):
    values, rng = given(), np.random.default_rng(5)
    d_out = rng.normal(size=(2, 3, 6))
    found = defined(f"{OPERATOR}_gradient")(**values, d_out=d_out)
    expected = reference.deformable_attention_gradient(**values, d_out=d_out)
    np.testing.assert_allclose(found[f"d_{name}"], expected[f"d_{name}"], atol=1e-12)
    step = 1e-6 * rng.normal(size=values[name].shape)
    ahead, behind = (
        (reference.deformable_attention(**{**values, name: values[name] + sign * step}) * d_out).sum()
        for sign in (1, -1)
    )
    np.testing.assert_allclose((found[f"d_{name}"] * step).sum(), (ahead - behind) / 2, rtol=1e-5)


def test_the_reference_refuses_maps_of_other_shapes():
    with pytest.raises(ValueError, match="as many pixels"):
        reference.deformable_attention(**{**given(), "spatial_shapes": SHAPES[::-1] + 1})


def by_torch(corners):
    def multi_scale_deformable_attn_pytorch(value, value_spatial_shapes, sampling_locations, attention_weights):
        batch, _, heads, dim = value.shape
        maps = value.split([int(h * w) for h, w in value_spatial_shapes], 1)
        found = []
        for level, (height, width) in enumerate(value_spatial_shapes.tolist()):
            own = maps[level].flatten(2).transpose(1, 2).reshape(batch * heads, dim, height, width)
            grid = (2 * sampling_locations - 1)[:, :, :, level].transpose(1, 2).flatten(0, 1)
            found.append(torch.nn.functional.grid_sample(own, grid, align_corners=corners))
        weights = attention_weights.transpose(1, 2).flatten(0, 1).flatten(2)[:, None]
        out = (torch.stack(found, -2).flatten(-2) * weights).sum(-1)
        return out.unflatten(0, (batch, heads)).permute(0, 3, 1, 2).flatten(2)

    return multi_scale_deformable_attn_pytorch


def by_starts(read):
    def ms_deform_attn_forward(value, spatial_shapes, level_start_index, sampling_loc, attn_weight, im2col_step):
        order = [read(int(start)) for start in level_start_index]
        pixels = [torch.arange(s, s + int(h * w)) for s, (h, w) in zip(order, spatial_shapes, strict=True)]
        value = value[:, torch.cat(pixels).clamp(max=value.shape[1] - 1)]
        return controls.control_deformable_by_corners(value, spatial_shapes, sampling_loc, attn_weight)

    return ms_deform_attn_forward


@pytest.mark.parametrize(
    ("right", "wrong"),
    [(by_torch(False), by_torch(True)), (by_starts(lambda start: start), by_starts(lambda start: 0))],
    ids=["torch", "starts"],
)
def test_functions_of_known_interfaces_are_checked(right, wrong):
    def checked(function):
        return attnspec.check(function, profile="smoke", dtypes=("float32",), explain_time=0)

    report = checked(right)
    assert report.conformant, report
    assert OPERATOR in {cell["operator"] for cell in report.lines if cell["kind"] == "cell"}
    assert not checked(wrong).conformant
