"""Short convolutions over packed items: both witnesses against the items alone, and what leaks between them."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.convolution import (
    control_convolution_between_states,
    control_convolution_by_shifts,
    control_convolution_item_by_item,
)
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda **values: Frame(library()["packed_convolution"], values).outputs(),
    "reference": reference.packed_convolution,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
X, WEIGHT = np.sin(1.7 * np.arange(1, 13)).reshape(6, 2), np.cos(2.3 * np.arange(1, 9)).reshape(2, 4)
STATE, BIAS = np.cos(np.arange(24.0)).reshape(4, 2, 3), np.array([0.5, -1.0])
LENS = np.array([2, 0, 3, 1])


@witnesses
@pytest.mark.parametrize("silu", [False, True])
def test_every_item_is_the_convolution_of_its_own_tokens_behind_its_own_state(witness, silu):
    found = witness(x=X, weight=WEIGHT, lens=LENS, bias=BIAS, state=STATE, silu=silu)
    for item, (start, end) in enumerate([(0, 2), (2, 2), (2, 5), (5, 6)]):
        for c in range(2):
            whole = np.concatenate([STATE[item, c], X[start:end, c]])
            y = np.convolve(whole, WEIGHT[c, ::-1], "valid")[: end - start] + BIAS[c]
            np.testing.assert_allclose(found["out"][start:end, c], y / (1 + np.exp(-y)) if silu else y, rtol=1e-12)
            assert whole[-3:].tolist() == np.asarray(found["final_state"])[item, c].tolist()


@witnesses
def test_without_states_items_that_are_shorter_than_a_window_begin_with_zeros(witness):
    found = witness(x=X, weight=WEIGHT, lens=np.ones(6, int))
    np.testing.assert_allclose(found["out"], X * WEIGHT[:, 3], rtol=1e-12)


def test_the_reference_refuses_states_that_are_not_those_of_the_items():
    with pytest.raises(ValueError, match="every item has a state"):
        reference.packed_convolution(X, WEIGHT, LENS, BIAS, STATE[:3])


def failures(function):
    one = subject(Adapter("function", "packed_convolution", function, "torch"))
    cells = run(Request(one, library()["packed_convolution"], "float32", PROFILES["smoke"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def one_long_item(x, weight, lens, bias=None, state=None, *, silu=False):
    given = None if state is None else state[:1]
    return control_convolution_by_shifts(x.T[None], weight, bias, given, silu=silu)["out"][0].T


def states_that_forget(x, weight, lens, bias=None, state=None, *, silu=False):
    found = control_convolution_item_by_item(x, weight, lens, bias, state, silu=silu)
    return {**found, "final_state": found["final_state"].roll(1, 0)}


def test_a_window_that_reaches_into_the_item_before_is_found():
    assert {"definition"} <= failures(one_long_item)


def test_states_that_are_those_of_other_items_are_found():
    assert {"definition"} <= failures(states_that_forget)


@pytest.mark.parametrize("right", [control_convolution_item_by_item, control_convolution_between_states])
def test_items_by_themselves_and_items_between_states_are_right(right):
    assert set() == failures(right)


@pytest.mark.parametrize("witness", ["definition", "reference"])
@pytest.mark.parametrize("silu", [False, True])
def test_gradients_are_those_of_the_items_alone_and_of_the_states_that_they_leave(witness, silu):
    asked, d_out = np.sin(0.7 * np.arange(24.0)).reshape(4, 2, 3), np.cos(0.9 * np.arange(12.0)).reshape(6, 2)
    leaves = {name: torch.from_numpy(y).requires_grad_() for name, y in inputs().items()}
    total = torch.zeros((), dtype=torch.float64)
    for item, (start, end) in enumerate([(0, 2), (2, 2), (2, 5), (5, 6)]):
        whole = torch.cat([leaves["state"][item], leaves["x"][start:end].T], 1)
        for t in range(start, end):
            y = (whole[:, t - start : t - start + 4] * leaves["weight"]).sum(1) + leaves["bias"]
            total = total + ((y * y.sigmoid() if silu else y) * torch.from_numpy(d_out[t])).sum()
        total = total + (whole[:, -3:] * torch.from_numpy(asked[item])).sum()
    total.backward()
    given = {**inputs(), "lens": LENS, "d_out": d_out, "d_final_state": asked, "silu": silu}
    found = (
        reference.packed_convolution_gradient(**given)
        if witness == "reference"
        else Frame(library()["packed_convolution_gradient"], given).outputs()
    )
    for name, leaf in leaves.items():
        np.testing.assert_allclose(np.asarray(found[f"d_{name}"]), leaf.grad, rtol=1e-9, atol=1e-12, err_msg=name)


def inputs():
    return {"x": X, "weight": WEIGHT, "bias": BIAS, "state": STATE}
