"""The gated delta rule over packed items: both witnesses against the items alone, and what leaks between them."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.delta_rule import (
    control_delta_rule_along_the_pack,
    control_delta_rule_item_by_item,
)
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda **values: Frame(library()["packed_delta_rule"], values).outputs(),
    "reference": reference.packed_delta_rule,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
Q, K, V = (np.sin(by * np.arange(1, 1 + 6 * 2 * 3)).reshape(6, 2, 3) for by in (1.1, 1.7, 0.9))
BETA, GATE = 0.5 + 0.25 * np.sin(np.arange(12.0)).reshape(6, 2), -0.3 * np.abs(np.cos(np.arange(12.0))).reshape(6, 2)
STATE = np.cos(np.arange(4 * 2 * 9)).reshape(4, 2, 3, 3)
LENS = np.array([2, 0, 3, 1])


@witnesses
def test_every_item_is_the_rule_over_its_own_tokens(witness):
    found = witness(q=Q, k=K, v=V, beta=BETA, lens=LENS, gate=GATE, state=STATE)
    for item, (start, end) in enumerate([(0, 2), (2, 2), (2, 5), (5, 6)]):
        q, k, v, beta, gate = (x[start:end].swapaxes(0, 1)[None] for x in (Q, K, V, BETA, GATE))
        alone = reference.gated_delta_rule(q, k, v, beta, gate, STATE[item : item + 1])
        own = np.asarray(found["out"])[start:end].swapaxes(0, 1)[None]
        np.testing.assert_allclose(own, alone["out"], rtol=1e-12)
        np.testing.assert_allclose(np.asarray(found["final_state"])[item : item + 1], alone["final_state"], rtol=1e-12)


@witnesses
def test_an_item_without_tokens_leaves_the_state_that_it_was_given(witness):
    found = witness(q=Q, k=K, v=V, beta=BETA, lens=LENS, state=STATE)
    assert STATE[1].tolist() == np.asarray(found["final_state"])[1].tolist()


def test_the_reference_refuses_states_that_are_not_those_of_the_items():
    with pytest.raises(ValueError, match="every item a state"):
        reference.packed_delta_rule(Q, K, V, BETA, LENS, GATE, STATE[:3])


def failures(function):
    one = subject(Adapter("function", "packed_delta_rule", function, "torch"))
    cells = run(Request(one, library()["packed_delta_rule"], "float32", PROFILES["smoke"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def one_long_item(q, k, v, beta, lens, gate=None, state=None, *, scale=None, normalise=False):
    whole = torch.tensor([len(k)])
    state = state[:1] if state is not None else None
    asked = {"scale": scale, "normalise": normalise}
    return control_delta_rule_along_the_pack(q, k, v, beta, whole, gate, state, **asked)["out"]


def state_of_the_last_item(q, k, v, beta, lens, gate=None, state=None, *, scale=None, normalise=False):
    asked = {"scale": scale, "normalise": normalise}
    found = control_delta_rule_along_the_pack(q, k, v, beta, lens, gate, state, **asked)
    return {"out": found["out"], "final_state": found["final_state"][-1:].expand_as(found["final_state"]).clone()}


def test_a_state_that_goes_on_to_the_next_item_is_found():
    assert {"definition", "is_delta_rule"} <= failures(one_long_item)


def test_states_that_are_those_of_the_last_item_are_found():
    assert {"definition"} <= failures(state_of_the_last_item)


@pytest.mark.parametrize("right", [control_delta_rule_item_by_item, control_delta_rule_along_the_pack])
def test_items_by_themselves_and_tokens_along_the_pack_are_right(right):
    assert set() == failures(right)
