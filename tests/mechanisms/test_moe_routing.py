"""Routing: both witnesses by hand, the identities that models rely on, and what has been reported as wrong."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.routing import control_routing_one_by_one
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda **values: Frame(library()["moe_routing"], values).outputs()["weights"],
    "reference": reference.moe_routing,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)


def sigmoid(x):
    return 1 / (1 + np.exp(-np.asarray(x, float)))


@witnesses
def test_a_bias_chooses_and_does_not_weigh(witness):
    given = {"logits": np.array([[3.0, 1.0, -2.0, 0.0]]), "bias": np.array([-1.0, 0.0, 1.0, 0.0])}
    found = witness(**given, k=2, scoring="sigmoid" if witness is reference.moe_routing else "sigmoid_scores")
    np.testing.assert_allclose(found, [[0, sigmoid(1), sigmoid(-2), 0]], rtol=1e-13)


@witnesses
@pytest.mark.parametrize(("word", "group"), [("top_two", 1), ("greatest", 0)])
def test_a_group_counts_by_its_best_or_by_its_two_best(witness, word, group):
    x = np.array([[3.0, -3.0, -3.0, 2.5, 2.5, -3.0]])
    found = witness(logits=x, k=2, groups=2, kept_groups=1, group_score=word)
    assert [3 * group <= e < 3 * group + 3 for e in range(6)] == [
        bool(found[0, 3 * g : 3 * g + 3].any()) for g in (0, 1) for _ in range(3)
    ]


@witnesses
def test_renormalised_shares_are_the_softmax_of_the_chosen(witness):
    x = np.array([[-801.0, -800.0, -803.0, -900.0]])
    found = witness(logits=x, k=2, renormalise=True, scaling=2.0)
    np.testing.assert_allclose(found, [[2 * sigmoid(-1), 2 * sigmoid(1), 0, 0]], rtol=1e-12)


@pytest.mark.parametrize("changed", [{"k": 5}, {"groups": 3}, {"k": 3, "groups": 2}])
def test_the_reference_refuses_what_is_outside_the_domain(changed):
    with pytest.raises(ValueError, match="experts can be chosen"):
        reference.moe_routing(np.zeros((1, 4)), **{"k": 1, **changed})


def failures(function):
    words = {"group_score": "top_two"}
    one = subject(Adapter("function", "moe_routing", function, "torch", conventions=words))
    cells = run(Request(one, library()["moe_routing"], "float32", PROFILES["quick"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def floored(logits, *, k, renormalise=False):
    """The registers of the best begin at zero."""
    weights = control_routing_one_by_one(logits.clamp(min=0) + 1e-3 * (logits > 0), k=k)
    picked = torch.where(weights > 0, logits.softmax(-1), 0.0)
    return picked / picked.sum(-1, keepdim=True) if renormalise else picked


def of_first_block(logits, *, k, renormalise=False):
    """Experts behind the first 256 cannot be chosen."""
    right = torch.softmax(logits.float(), -1)
    at = right[:, :256].topk(min(k, 256), -1).indices
    kept = torch.zeros_like(right).scatter(1, at, right.gather(1, at))
    return (kept / kept.sum(-1, keepdim=True) if renormalise else kept).to(logits.dtype)


def test_experts_behind_a_block_are_chosen():
    assert "definition" in failures(of_first_block)


def test_logits_that_are_all_negative_choose_as_others_do():
    assert {"definition", "largest_chosen"} & failures(floored)


CAPPED = {
    "definition": lambda **values: Frame(library()["expert_capacity"], values).outputs()["weights"],
    "reference": reference.moe_routing,
}
TO_THE_FIRST = np.log([[6.0, 3.0, 1.0], [8.0, 1.0, 1.0], [3.0, 6.0, 1.0], [7.0, 2.0, 1.0]])
"""Three tokens choose the first expert before the second, and one chooses it after that."""


@pytest.mark.parametrize("witness", CAPPED.values(), ids=CAPPED)
@pytest.mark.parametrize(
    ("order", "first", "second"),
    [
        ("by_position", [0, 1], [0, 1]),
        ("by_choice", [0, 1], [0, 2]),
        ("by_importance", [1, 3], [1, 2]),
        ("by_weight", [1, 3], [0, 2]),
    ],
)
def test_an_expert_takes_those_first_that_its_order_says(witness, order, first, second):
    logits = TO_THE_FIRST.copy()
    logits[1] = np.log([8.0, 1.5, 0.5])
    found = witness(logits=logits, k=2, capacity=2, drop_order=order, renormalised_over="all_kept")
    assert [first, second] == [np.nonzero(found[:, expert])[0].tolist() for expert in (0, 1)]


@pytest.mark.parametrize("witness", CAPPED.values(), ids=CAPPED)
@pytest.mark.parametrize(("over", "left"), [("all_chosen", [1 / 3, 7 / 9]), ("all_kept", [1, 1])])
def test_weights_are_divided_by_the_chosen_or_by_the_kept(witness, over, left):
    words = {"drop_order": "by_weight", "renormalised_over": over}
    found = witness(logits=TO_THE_FIRST[[0, 3]], k=2, capacity=1, renormalise=True, **words)
    np.testing.assert_allclose(found[found > 0], left, rtol=1e-12)
