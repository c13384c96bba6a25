"""Tokens through experts: both witnesses by hand, and permutations that go wrong."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.experts import control_experts_all, control_experts_in_blocks
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject


def defined(**values):
    mechanism = library()["expert_parallel" if "expert_map" in values else "routed_experts"]
    return np.asarray(Frame(mechanism, values).outputs()["out"])


WITNESSES = {
    "definition": defined,
    "reference": reference.routed_experts,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
RNG = np.random.default_rng(0)
GIVEN = {
    "x": RNG.normal(size=(5, 3)),
    "chosen": np.array([[2, 0], [0, 3], [3, 2], [2, 0], [0, 2]]),
    "weights": RNG.normal(size=(5, 2)),
    "w_gate": RNG.normal(size=(4, 3, 6)),
    "w_up": RNG.normal(size=(4, 3, 6)),
    "w_down": RNG.normal(size=(4, 6, 3)),
}


@pytest.mark.parametrize("witness", ["definition", "reference"])
def test_biases_are_added_before_the_limit_and_the_last_one_is_weighed(witness):
    biases = {"b_gate": 3 * np.cos(np.arange(24.0)).reshape(4, 6), "b_up": 3 * np.sin(np.arange(24.0)).reshape(4, 6)}
    biases["b_down"] = np.cos(2 * np.arange(12.0)).reshape(4, 3)
    expected = np.zeros((5, 3))
    for t, j in np.ndindex(5, 2):
        c = GIVEN["chosen"][t, j]
        gate = np.minimum(GIVEN["x"][t] @ GIVEN["w_gate"][c] + biases["b_gate"][c], 1.0)
        up = np.clip(GIVEN["x"][t] @ GIVEN["w_up"][c] + biases["b_up"][c], -1.0, 1.0)
        made = (gate / (1 + np.exp(-1.702 * gate)) * (up + 1)) @ GIVEN["w_down"][c] + biases["b_down"][c]
        expected[t] += GIVEN["weights"][t, j] * made
    given = {**GIVEN, **biases, "alpha": 1.702, "beta": 1.0, "limit": 1.0}
    found = (
        reference.routed_experts(**given)
        if witness == "reference"
        else np.asarray(Frame(library()["biased_experts"], given).outputs()["out"])
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@witnesses
def test_a_token_takes_what_its_experts_make_by_its_weights(witness):
    expected = np.zeros((5, 3))
    for t, j in np.ndindex(5, 2):
        c = GIVEN["chosen"][t, j]
        gate, up = GIVEN["x"][t] @ GIVEN["w_gate"][c], GIVEN["x"][t] @ GIVEN["w_up"][c]
        expected[t] += GIVEN["weights"][t, j] * (gate / (1 + np.exp(-gate)) * up) @ GIVEN["w_down"][c]
    np.testing.assert_allclose(witness(**GIVEN), expected, rtol=1e-12)


@witnesses
def test_a_rank_adds_up_what_its_own_experts_make(witness):
    chosen = np.array([[5, 0], [0, 3], [-1, 5], [4, 0], [1, -1]])
    rank = witness(**{**GIVEN, "chosen": chosen, "expert_map": np.array([1, -1, 3, 2, 0, -1])})
    places = np.array([[-1, 1], [1, 2], [-1, -1], [0, 1], [-1, -1]])
    weights = np.where(places < 0, 0, GIVEN["weights"])
    np.testing.assert_allclose(rank, witness(**{**GIVEN, "chosen": places.clip(min=0), "weights": weights}), rtol=1e-12)
    assert not rank[[2, 4]].any()


def test_the_reference_refuses_choices_without_a_weight():
    with pytest.raises(ValueError, match="every choice has a weight"):
        reference.routed_experts(**{**GIVEN, "weights": GIVEN["weights"][:, :1]})


@pytest.mark.parametrize("right", [control_experts_in_blocks, control_experts_all])
@pytest.mark.parametrize("given", [{}, {"expert_map": np.array([2, -1, 0, 3])}], ids=["alone", "one rank"])
def test_blocks_and_masks_are_the_reference(right, given):
    found = right(**{name: torch.from_numpy(x) for name, x in {**GIVEN, **given}.items()})
    np.testing.assert_allclose(found, reference.routed_experts(**GIVEN, **given), rtol=1e-5, atol=1e-6)


def failures(function):
    one = subject(Adapter("function", "routed_experts", function, "torch"))
    cells = run(Request(one, library()["routed_experts"], "float32", PROFILES["smoke"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def in_blocks(x, chosen, weights, w_gate, w_up, w_down, read, back, skipped=False):
    """Sorted pairs, each with the expert of its block."""
    if chosen.shape != weights.shape:
        raise ValueError("every choice has a weight")
    k, order = chosen.shape[1], chosen.flatten().argsort(stable=True)
    experts = chosen.flatten()[order]
    experts = experts.unique(return_inverse=True)[1] if skipped else experts
    rows = x[read(order, k).clamp(max=len(x) - 1)]
    inner = torch.nn.functional.silu(rows[:, None] @ w_gate[experts]) * (rows[:, None] @ w_up[experts])
    made = (inner @ w_down[experts])[:, 0]
    return (made[back(order)].unflatten(0, chosen.shape) * weights[..., None]).sum(1)


def by_token(order, k):
    return order // k


@pytest.mark.parametrize(
    ("read", "back", "skipped", "wrong"),
    [
        (by_token, torch.argsort, False, False),
        (lambda order, k: order, torch.argsort, False, True),
        (by_token, lambda order: order, False, True),
        (by_token, torch.argsort, True, True),
    ],
    ids=["right", "pair for token", "order for its inverse", "empty experts"],
)
def test_wrong_indices_are_found(read, back, skipped, wrong):
    def kernel(x, chosen, weights, w_gate, w_up, w_down):
        return in_blocks(x, chosen, weights, w_gate, w_up, w_down, read, back, skipped)

    assert wrong == ("definition" in failures(kernel))
