"""Neighborhood attention: windows by hand, witnesses, variants, gradients, functions of NATTEN's kind."""

import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.adapters.controls import neighborhood as controls
from attnspec.adapters.controls import neighborhood_gradient as backward
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.reference.neighborhood import window

OPERATOR = "neighborhood_attention"
EVERYTHING = {
    "kernel_height": 3,
    "kernel_width": 4,
    "dilation_height": 2,
    "dilation_width": 2,
    "stride_height": 2,
    "stride_width": 3,
    "causal_width": True,
    "scale": 0.3,
}


@pytest.mark.parametrize(
    ("place", "asked", "seen"),
    [
        (0, (6, 3, 1, 1, False), [0, 1, 2]),  # moved inside
        (5, (6, 3, 1, 1, False), [3, 4, 5]),
        (3, (6, 4, 1, 1, False), [1, 2, 3, 4]),  # one more before than behind
        (2, (7, 2, 2, 1, False), [0, 2]),
        (5, (7, 2, 2, 1, False), [3, 5]),  # the map of odd places is shorter
        (1, (6, 4, 1, 1, True), [0, 1]),
        (5, (6, 4, 1, 1, True), [2, 3, 4, 5]),
        (3, (8, 3, 1, 3, False), [3, 4, 5]),  # the window of place 4
        (7, (8, 3, 1, 3, False), [5, 6, 7]),
        (3, (8, 4, 1, 3, True), [2, 3]),  # as far back as place 5 sees
        (7, (8, 4, 1, 3, True), [4, 5, 6, 7]),  # place 8 is not there
    ],
)
def test_windows_of_one_axis(place, asked, seen):
    assert seen == window(place, *asked)
    assert seen == controls.seen_along(*asked)[place].nonzero()[:, 0].tolist()


def given(height=6, width=11, seed=3):
    rng = np.random.default_rng(seed)
    shapes = {"q": (2, height, width, 4, 3), "k": (2, height, width, 2, 3), "v": (2, height, width, 2, 5)}
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


@pytest.mark.parametrize("options", [{"kernel_height": 3, "kernel_width": 5}, EVERYTHING], ids=["plain", "everything"])
def test_definition_reference_and_variants_agree(options):
    expected = reference.neighborhood_attention(**given(), **options)
    found = Frame(library()[OPERATOR], {**given(), **options}).outputs()
    arrays = {name: torch.as_tensor(x) for name, x in given().items()}
    variants = [
        f(**arrays, **options)
        for f in (controls.control_neighborhood_by_masks, controls.control_neighborhood_by_windows)
    ]
    for name in ("out", "lse"):
        np.testing.assert_allclose(np.asarray(found[name]), expected[name], atol=1e-12)
        for variant in variants:
            np.testing.assert_allclose(variant[name], expected[name], atol=1e-5)


@pytest.mark.parametrize("options", [{"kernel_height": 3, "kernel_width": 5}, EVERYTHING], ids=["plain", "everything"])
def test_gradients_agree_and_are_those_of_small_steps(options):
    values, rng = given(), np.random.default_rng(5)
    d_out = rng.normal(size=(2, 6, 11, 4, 5))
    expected = reference.neighborhood_attention_gradient(**values, d_out=d_out, **options)
    found = Frame(library()[f"{OPERATOR}_gradient"], {**values, "d_out": d_out, **options}).outputs()
    arrays = {name: torch.as_tensor(x) for name, x in {**values, "d_out": d_out}.items()}
    variants = (backward.control_neighborhood_differentiated, backward.control_neighborhood_back_by_windows)
    for name in ("d_q", "d_k", "d_v"):
        np.testing.assert_allclose(np.asarray(found[name]), expected[name], atol=1e-12)
        for variant in variants:
            np.testing.assert_allclose(variant(**arrays, **options)[name], expected[name], atol=1e-5)
    steps = {name: 1e-6 * rng.normal(size=x.shape) for name, x in values.items()}
    ahead, behind = (
        reference.neighborhood_attention(**{name: x + sign * steps[name] for name, x in values.items()}, **options)
        for sign in (1, -1)
    )
    slope = ((ahead["out"] - behind["out"]) * d_out).sum() / 2
    np.testing.assert_allclose(
        sum((expected[f"d_{name}"] * step).sum() for name, step in steps.items()), slope, rtol=1e-5
    )


@pytest.mark.parametrize("wrong", [{"kernel_width": 12}, {"kernel_width": 6, "dilation_width": 2}, {"stride_width": 4}])
def test_the_reference_refuses_windows_beyond_the_map_and_strides_beyond_the_window(wrong):
    with pytest.raises(ValueError, match="a window is inside of the map"):
        reference.neighborhood_attention(**given(), **{"kernel_height": 3, "kernel_width": 3, **wrong})


def natten(axes, filled):
    """A function of NATTEN's kind for maps of one or two axes, `filled` up to a multiple of the dilation or not."""

    def na(query, key, value, kernel_size, stride=1, dilation=1, is_causal=False, scale=None, return_lse=False):
        arrays = [x.unflatten(1, (1, -1)) if axes == 1 else x for x in (query, key, value)]
        length = arrays[0].shape[1:3]
        missing = [-size % step if filled else 0 for size, step in zip(length, (1, *dilation)[-2:], strict=True)]
        pads = (0, 0, 0, 0, 0, missing[1], 0, missing[0])
        options = {"kernel_height": 1, "scale": scale}
        for axis, *values in zip(("height", "width")[-axes:], kernel_size, stride, dilation, is_causal, strict=True):
            names = (f"{name}_{axis}" for name in ("kernel", "stride", "dilation", "causal"))
            options |= dict(zip(names, values, strict=True))
        found = controls.control_neighborhood_by_masks(*(torch.nn.functional.pad(x, pads) for x in arrays), **options)
        outs = [x[:, : length[0], : length[1]].flatten(1, 3 - axes) for x in (found["out"], found["lse"])]
        return tuple(outs) if return_lse else outs[0]

    na.__name__ = f"na{axes}d"
    return na


@pytest.mark.parametrize("axes", [1, 2])
def test_a_map_that_is_filled_up_for_its_dilation_is_found(axes):
    def conformant(filled):
        how = {"profile": "smoke", "dtypes": ("float32",), "explain_time": 0}
        return attnspec.check(natten(axes, filled), **how).conformant

    assert conformant(filled=False)
    assert not conformant(filled=True)
