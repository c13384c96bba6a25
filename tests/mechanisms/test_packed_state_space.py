"""State spaces over packed items: both witnesses against the items alone, and what leaks between them."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.state_space import (
    control_state_space_across_the_pack,
    control_state_space_item_by_item,
)
from attnspec.adapters.faults.packed_state_space import IN_TILES
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda **values: Frame(library()["packed_state_space"], values).outputs(),
    "reference": reference.packed_state_space,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
X, B, C = np.sin(np.arange(1.0, 25)).reshape(6, 2, 2), *np.cos(np.arange(36.0)).reshape(2, 6, 1, 3)
DT, A, D, BIAS = np.abs(np.sin(np.arange(12.0))).reshape(6, 2) - 0.2, -np.array([0.5, 2]), np.array([3, -1.0]), 0.3
STATE, LENS = np.cos(np.arange(4 * 2 * 6.0)).reshape(4, 2, 2, 3), np.array([2, 0, 3, 1])


@witnesses
@pytest.mark.parametrize("softplus", [False, True])
def test_every_item_is_a_state_space_over_its_own_tokens(witness, softplus):
    given = {"x": X, "dt": DT, "a": A, "b": B, "c": C, "lens": LENS, "d": D, "dt_bias": np.array([BIAS, BIAS])}
    found = witness(**given, state=STATE, softplus=softplus)
    for item, (start, end) in enumerate([(0, 2), (2, 2), (2, 5), (5, 6)]):
        state = STATE[item]
        for t in range(start, end):
            step = np.log1p(np.exp(DT[t] + BIAS)) if softplus else DT[t] + BIAS
            state = np.exp(A * step)[:, None, None] * state + (step[:, None] * X[t])[..., None] * B[t, 0]
            np.testing.assert_allclose(np.asarray(found["out"])[t], state @ C[t, 0] + D[:, None] * X[t], rtol=1e-11)
        np.testing.assert_allclose(np.asarray(found["final_state"])[item], state, rtol=1e-11)


@witnesses
def test_an_item_without_tokens_leaves_its_state_as_it_was(witness):
    found = witness(x=X, dt=DT + 0.2, a=A, b=B, c=C, lens=LENS, state=STATE)
    assert STATE[1].tolist() == np.asarray(found["final_state"])[1].tolist()


def test_the_reference_refuses_other_states_than_those_of_the_items():
    with pytest.raises(ValueError, match="every item a state"):
        reference.packed_state_space(X, DT, A, B, C, LENS, state=STATE[:3])


def failures(function):
    one = subject(Adapter("function", "packed_state_space", function, "torch"))
    cells = run(Request(one, library()["packed_state_space"], "float32", PROFILES["smoke"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def one_long_item(x, dt, a, b, c, lens, d=None, dt_bias=None, state=None, *, softplus=False):
    given, lens = None if state is None else state[:1], torch.tensor([len(x)])
    found = control_state_space_item_by_item(x, dt, a, b, c, lens, d, dt_bias, given, softplus=softplus)
    return found["out"]


def states_of_other_items(x, dt, a, b, c, lens, d=None, dt_bias=None, state=None, *, softplus=False):
    found = control_state_space_item_by_item(x, dt, a, b, c, lens, d, dt_bias, state, softplus=softplus)
    return {**found, "final_state": found["final_state"].roll(1, 0)}


@pytest.mark.parametrize("wrong", [one_long_item, states_of_other_items])
def test_states_that_go_to_other_items_are_found(wrong):
    assert {"definition"} <= failures(wrong)


RIGHT = [control_state_space_item_by_item, control_state_space_across_the_pack, IN_TILES.right()]


@pytest.mark.parametrize("right", RIGHT, ids=["item_by_item", "across_the_pack", "in_tiles"])
def test_items_by_themselves_all_products_at_once_and_tiles_are_right(right):
    assert set() == failures(right)
