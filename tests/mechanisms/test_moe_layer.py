"""A mixture-of-experts layer: both witnesses by hand, and layers that go wrong."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.experts import control_moe_dense, control_moe_in_turn
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

RNG = np.random.default_rng(0)
GIVEN = {
    "x": RNG.normal(size=(5, 3)),
    "w_router": RNG.normal(size=(3, 4)),
    "w_gate": RNG.normal(size=(4, 3, 6)),
    "w_up": RNG.normal(size=(4, 3, 6)),
    "w_down": RNG.normal(size=(4, 6, 3)),
}


def defined(scoring="softmax", **values):
    given = {**values, "scoring": f"{scoring}_scores"}
    return np.asarray(Frame(library()["moe_layer"], given).outputs()["out"])


@pytest.mark.parametrize("witness", [defined, reference.moe_layer], ids=["definition", "reference"])
@pytest.mark.parametrize("renormalise", [False, True])
@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
def test_a_token_takes_what_its_best_experts_make(witness, renormalise, scoring):
    expected = np.zeros((5, 3))
    for t, x in enumerate(GIVEN["x"]):
        logits = x @ GIVEN["w_router"]
        scores = np.exp(logits) / np.exp(logits).sum() if scoring == "softmax" else 1 / (1 + np.exp(-logits))
        best = np.argsort(-logits)[:2]
        weights = 1.5 * scores[best] / (scores[best].sum() if renormalise else 1)
        for weight, e in zip(weights, best, strict=True):
            gate = x @ GIVEN["w_gate"][e]
            expected[t] += weight * ((gate / (1 + np.exp(-gate)) * (x @ GIVEN["w_up"][e])) @ GIVEN["w_down"][e])
    found = witness(**GIVEN, k=2, scoring=scoring, renormalise=renormalise, scaling=1.5)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("right", [control_moe_in_turn, control_moe_dense])
def test_expert_by_expert_and_all_at_once_are_the_reference(right):
    given = {name: torch.from_numpy(x).float() for name, x in GIVEN.items()}
    found = right(**given, k=2, scoring="sigmoid", renormalise=True)
    expected = reference.moe_layer(**GIVEN, k=2, scoring="sigmoid", renormalise=True)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def failures(function):
    one = subject(Adapter("function", "moe_layer", function, "torch", fixed={"scoring": "softmax"}))
    cells = run(Request(one, library()["moe_layer"], "float32", PROFILES["smoke"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def layer(x, w_router, w_gate, w_up, w_down, k, renormalise, scaling, write):
    if k > w_router.shape[1]:
        raise ValueError("too many")
    weights, chosen = (x @ w_router).softmax(-1).topk(k, -1)
    weights = scaling * (weights / weights.sum(-1, keepdim=True) if renormalise else weights)
    out = torch.zeros_like(x)
    for e in range(w_router.shape[1]):
        token, choice = (chosen == e).nonzero(as_tuple=True)
        made = F.silu(x[token] @ w_gate[e]) * (x[token] @ w_up[e]) @ w_down[e]
        write(out, token, made * weights[token, choice, None])
    return out


@pytest.mark.parametrize(
    ("write", "right"),
    [
        (lambda out, token, made: out.index_add_(0, token, made), True),
        (lambda out, token, made: out.index_copy_(0, token, made), False),  # each expert over the one before
        (lambda out, token, made: out.index_add_(0, token[:32], made[:32]), False),  # dropped beyond a capacity
        (lambda out, token, made: out.index_add_(0, token, made.flip(0)), False),  # brought back in another order
    ],
)
def test_what_experts_make_is_added_up_where_it_belongs(write, right):
    def function(x, w_router, w_gate, w_up, w_down, *, k, renormalise=False, scaling=1.0):
        return layer(x, w_router, w_gate, w_up, w_down, k, renormalise, scaling, write)

    assert right == (not failures(function))
