"""Short convolutions: both witnesses by hand, pieces of a sequence, and what is done wrongly with states."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.convolution import control_convolution_by_matrix, control_convolution_by_shifts
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda **values: Frame(library()["short_convolution"], values).outputs(),
    "reference": reference.short_convolution,
}
X = np.sin(1.7 * np.arange(1, 13)).reshape(1, 2, 6)
WEIGHT = np.cos(2.3 * np.arange(1, 7)).reshape(2, 3)


@pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
@pytest.mark.parametrize("silu", [False, True])
def test_each_token_sees_itself_and_as_many_before_it_as_there_are_further_weights(witness, silu):
    state, bias = np.array([[[5.0, 6.0], [7.0, 8.0]]]), np.array([0.5, -1.0])
    found = witness(x=X, weight=WEIGHT, bias=bias, state=state, silu=silu)
    for c in range(2):
        y = np.convolve(np.concatenate([state[0, c], X[0, c]]), WEIGHT[c, ::-1], "valid") + bias[c]
        np.testing.assert_allclose(found["out"][0, c], y / (1 + np.exp(-y)) if silu else y, rtol=1e-12)
    np.testing.assert_array_equal(found["final_state"], X[..., -2:])


def test_the_reference_refuses_what_is_outside_the_domain():
    with pytest.raises(ValueError, match="every channel has weights"):
        reference.short_convolution(X, WEIGHT[:1])


def test_the_variants_that_are_right_agree():
    given = [torch.from_numpy(x).float() for x in (X, WEIGHT)]
    one, other = control_convolution_by_shifts(*given), control_convolution_by_matrix(*given)
    torch.testing.assert_close(one["out"], other["out"])


def failures(changed):
    def kernel(x, weight, bias=None, state=None, *, silu=False):
        return changed(control_convolution_by_shifts(x, weight, bias, state, silu=silu), x, weight, state)

    one = subject(Adapter("function", "short_convolution", kernel, "torch"))
    cells = run(
        Request(
            one,
            library()["short_convolution"],
            "float32",
            PROFILES["quick"],
            laws=frozenset({"definition"}),
            first=True,
        )
    ).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def forgotten(found, x, weight, state):
    held = torch.nn.functional.pad(x, (weight.shape[1] - 1, 0))[..., x.shape[2] :]
    return {**found, "final_state": held}


def own_outputs(found, x, weight, state):
    return {**found, "final_state": found["final_state"].roll(1, -1)}


@pytest.mark.parametrize("changed", [forgotten, own_outputs])
def test_a_state_that_is_left_wrongly_is_found(changed):
    assert "definition" in failures(changed)
