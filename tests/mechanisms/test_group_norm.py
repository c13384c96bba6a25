"""Group normalisation: both witnesses by hand and against each other, gradients by small steps, plain functions."""

import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library


def given(seed=3):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=(2, 6, 3, 4)), "weight": rng.normal(size=6), "bias": rng.normal(size=6)}


def defined(operator, values, **options):
    found = Frame(library()[operator], {"eps": 1e-3, **values, **options}).outputs()
    return {name: np.asarray(x) for name, x in found.items()}


def test_a_group_has_all_pixels_of_its_channels():
    x = np.array([0.0, 2.0, 4.0, 6.0]).reshape(1, 2, 1, 2)
    one = {"x": x, "weight": np.ones(2), "bias": np.zeros(2)}
    expected = np.array([-3, -1, 1, 3]).reshape(x.shape) / 3
    np.testing.assert_allclose(reference.group_norm(**one, groups=1, eps=4.0), expected)
    np.testing.assert_allclose(defined("group_norm", one, groups=1, eps=4.0)["out"], expected)


@pytest.mark.parametrize("grouping", ["block", "tiled"])
@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_definition_and_reference_agree(groups, grouping):
    for silu in (False, True):
        expected = reference.group_norm(**given(), groups=groups, eps=1e-3, silu=silu, grouping=grouping)
        found = defined("group_norm", given(), groups=groups, silu=silu, grouping=grouping)
        np.testing.assert_allclose(found["out"], expected, atol=1e-12)


def test_the_reference_is_what_torch_has():
    arrays = [torch.as_tensor(x) for x in given().values()]
    expected = torch.nn.functional.group_norm(arrays[0], 3, *arrays[1:], eps=1e-3)
    np.testing.assert_allclose(reference.group_norm(**given(), groups=3, eps=1e-3), expected, atol=1e-12)


@pytest.mark.parametrize("grouping", ["block", "tiled"])
@pytest.mark.parametrize("name", ["x", "weight", "bias"])
def test_gradients_are_those_of_small_steps(name, grouping):
    values, rng = given(), np.random.default_rng(5)
    options = {"groups": 3, "eps": 1e-3, "grouping": grouping}
    own = {"x": values["x"], "weight": values["weight"], "d_out": rng.normal(size=values["x"].shape)}
    found = defined("group_norm_gradient", own, **options)
    expected = reference.group_norm_gradient(**own, **options)
    np.testing.assert_allclose(found[f"d_{name}"], expected[f"d_{name}"], atol=1e-12)
    step = 1e-6 * rng.normal(size=values[name].shape)
    ahead, behind = (
        (reference.group_norm(**{**values, name: values[name] + sign * step}, **options) * own["d_out"]).sum()
        for sign in (1, -1)
    )
    np.testing.assert_allclose((found[f"d_{name}"] * step).sum(), (ahead - behind) / 2, rtol=1e-5)


@pytest.mark.parametrize(("groups", "grouping"), [(4, "block"), (0, "block"), (7, "tiled")])
def test_the_reference_refuses_groups_that_do_not_divide_the_channels(groups, grouping):
    with pytest.raises(ValueError, match="groups divide the channels"):
        reference.group_norm(**given(), groups=groups, grouping=grouping)


def padded(lanes):
    """A function of torch's interface, which sums each group over `lanes` channels, of a group or of the next one."""

    def group_norm(input, num_groups, weight, bias, eps=1e-5):  # noqa: A002 - as torch has it
        batch, channels = input.shape[:2]
        if channels % num_groups or len(weight) != channels:
            raise ValueError("groups divide the channels")
        members, wide = channels // num_groups, input.double()
        out = torch.empty_like(wide)
        for first in range(0, channels, members):
            summed = wide[:, first : first + lanes(members)].reshape(batch, -1)
            size = members * wide[0, 0].numel()
            mean = summed.sum(1) / size
            variance = ((summed - mean[:, None]) ** 2).sum(1) / size
            own = wide[:, first : first + members] - mean[:, None, None, None]
            out[:, first : first + members] = own / (variance + eps).sqrt()[:, None, None, None]
        return (out * weight[:, None, None] + bias[:, None, None]).to(input.dtype)

    return group_norm


def test_groups_that_are_summed_up_to_a_power_of_two_are_found_and_named():
    def checked(lanes):
        return attnspec.check(padded(lanes), profile="smoke", dtypes=("float32",), conventions={"grouping": "block"})

    assert checked(lambda members: members).conformant
    wrong = checked(lambda members: 1 << (members - 1).bit_length())
    assert not wrong.conformant
    assert "lanes_of_the_next_group" in str(wrong)
