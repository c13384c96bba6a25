"""Linear attention over packed items: both witnesses against the items alone, and what leaks between them."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.linear_attention import (
    control_linear_attention_across_the_pack,
    control_linear_attention_item_by_item,
)
from attnspec.adapters.faults.packed_linear_attention import IN_TILES
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda **values: Frame(library()["packed_linear_attention"], values).outputs(),
    "reference": reference.packed_linear_attention,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
Q, K, V = (np.sin(by * np.arange(1, 1 + 6 * 2 * 3)).reshape(6, 2, 3) for by in (1.1, 1.7, 0.9))
GATE, STATE = -0.3 * np.abs(np.cos(np.arange(36.0))).reshape(6, 2, 3), np.cos(np.arange(4 * 2 * 9)).reshape(4, 2, 3, 3)
LENS = np.array([2, 0, 3, 1])


@witnesses
@pytest.mark.parametrize("gate", [GATE, GATE[..., :1]], ids=["by_channels", "by_heads"])
def test_every_item_is_linear_attention_over_its_own_tokens(witness, gate):
    found = witness(q=Q, k=K, v=V, lens=LENS, gate=gate, state=STATE)
    for item, (start, end) in enumerate([(0, 2), (2, 2), (2, 5), (5, 6)]):
        state = STATE[item]
        for t in range(start, end):
            state = np.exp(gate[t])[..., None] * state + K[t][..., None] * V[t][:, None]
            row = np.einsum("hd,hde->he", Q[t], state) / np.sqrt(3)
            np.testing.assert_allclose(np.asarray(found["out"])[t], row, rtol=1e-12)
        np.testing.assert_allclose(np.asarray(found["final_state"])[item], state, rtol=1e-12)


@witnesses
def test_an_item_without_tokens_leaves_the_state_that_it_was_given(witness):
    found = witness(q=Q, k=K, v=V, lens=LENS, state=STATE)
    assert STATE[1].tolist() == np.asarray(found["final_state"])[1].tolist()


def test_the_reference_refuses_states_that_are_not_those_of_the_items():
    with pytest.raises(ValueError, match="every item a state"):
        reference.packed_linear_attention(Q, K, V, LENS, GATE, STATE[:3])


def failures(function):
    one = subject(Adapter("function", "packed_linear_attention", function, "torch"))
    cells = run(Request(one, library()["packed_linear_attention"], "float32", PROFILES["smoke"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def one_long_item(q, k, v, lens, gate=None, state=None, *, scale=None):
    given = None if state is None else state[:1]
    found = control_linear_attention_item_by_item(q, k, v, torch.tensor([len(k)]), gate, given, scale=scale)
    return found["out"]


def states_of_other_items(q, k, v, lens, gate=None, state=None, *, scale=None):
    found = control_linear_attention_item_by_item(q, k, v, lens, gate, state, scale=scale)
    return {**found, "final_state": found["final_state"].roll(1, 0)}


def test_a_state_that_goes_on_to_the_next_item_is_found():
    assert {"definition"} <= failures(one_long_item)


def test_states_that_are_those_of_other_items_are_found():
    assert {"definition"} <= failures(states_of_other_items)


RIGHT = [control_linear_attention_item_by_item, control_linear_attention_across_the_pack, IN_TILES.right()]


@pytest.mark.parametrize("right", RIGHT, ids=["item_by_item", "across_the_pack", "in_tiles"])
def test_items_by_themselves_all_products_and_tiles_are_right(right):
    assert set() == failures(right)
