"""Outputs are assembled from what is returned, by expressions that only select and arrange."""

import numpy as np
import pytest

from attnspec.errors import SpecError
from attnspec.mechanisms.assembled import assembled, expression, faults_in, in_numpy
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.signatures import signatures

ROUTING = library()["moe_routing"]
RETURNS = ("own", "ids")
SCATTER = "sum(where(ids[..., none] == range(experts), own[..., none], 0), 1)"
OWN, IDS = np.array([[0.75, 0.25], [0.5, 0.5]]), np.array([[2, 0], [1, 2]])
DENSE = [[0.25, 0, 0.75], [0, 0.5, 0.5]]


def made(returned):
    return assembled({"weights": expression(SCATTER, ROUTING, RETURNS)}, returned, {"experts": 3}, "float32")


SIZES = {"experts": 3, "pages": 2, "page_size": 3, "kv_heads": 2, "head_dim": 2}


def test_weights_of_chosen_experts_become_those_of_all():
    assert DENSE == made({"own": OWN, "ids": IDS})["weights"].tolist()


def test_a_number_of_no_expert_has_no_place():
    assert [0, 0, 0.75] == made({"own": OWN, "ids": np.array([[2, 3], [1, 2]])})["weights"][0].tolist()


def test_an_output_of_which_a_part_is_lacking_is_left_out():
    assert {} == made({"own": OWN})


def test_parts_that_do_not_fit_are_told_with_their_shapes():
    with pytest.raises(SpecError, match=r"weights cannot be assembled from own of \[2, 2\], ids of \[2, 3\]"):
        made({"own": OWN, "ids": np.zeros((2, 3), int)})


@pytest.mark.parametrize("name", [name for name, one in signatures().items() if one.outputs])
def test_every_shipped_expression_is_the_same_in_numpy(name):
    one = signatures()[name]
    for output, text in one.outputs.items():
        made = expression(text, library()[one.operator], one.returns)
        returned = {"topk_weights": OWN, "topk_ids": IDS, "pool": np.arange(24.0).reshape(2, 2, 3, 2)}
        returned |= {"d_gates": OWN, "d_partners": 2 * OWN, "heads_first": OWN, "last_state": returned["pool"]}
        returned |= {
            "own": OWN,
            "cache": returned["pool"],
            "value_pool": returned["pool"],
            "key_pool": returned["pool"][..., None],
        }
        found = assembled({output: made}, returned, SIZES, "float64")[output]
        assert found.tolist() == eval(in_numpy(text), {"np": np, **SIZES, **returned}).tolist()


@pytest.mark.parametrize(
    ("text", "numpy"),
    [
        ("sum(own)", "np.sum(own, -1)"),
        ("reshape(permute(own, 1, 0), 2, k)", "np.reshape(np.transpose(own, (1, 0)), (2, k))"),
        ("concat(own[:, :1], where(ids > 0, own, infinity), 0)", None),
        ("range(1, experts)[none]", "np.arange(1, experts)[None]"),
    ],
)
def test_an_expression_in_terms_of_numpy(text, numpy):
    assert (numpy or "np.concatenate([own[:, :1], np.where(ids > 0, own, np.inf)], 0)") == in_numpy(text)


@pytest.mark.parametrize(
    ("outputs", "returns", "says"),
    [
        ({"weight": SCATTER}, RETURNS, "outputs: moe_routing has no output 'weight'; did you mean 'weights'?"),
        ({"weights": SCATTER}, (*RETURNS, "weights"), "outputs.weights: it is returned or written as it is"),
        ({"weights": "range(experts)"}, RETURNS, "outputs.weights: it uses nothing that is returned"),
        ({"weights": "own + logits"}, RETURNS, "outputs.weights: unknown name 'logits'"),
        ({"weights": "exp(own)"}, RETURNS, "outputs.weights: outputs are assembled without exp(...)"),
        (
            {"weights": "sum(own, axis = 1)"},
            RETURNS,
            "outputs.weights: outputs are assembled with arguments by position",
        ),
        ({"weights": "own if k > 1 else ids"}, RETURNS, "outputs.weights: outputs are assembled without 'and'"),
        ({"weights": SCATTER}, (*RETURNS, "weigths"), "has no output 'weigths'; did you mean 'weights'?, and none is"),
        ({"weights": SCATTER}, (*RETURNS, "tokens"), "returns: 'tokens' has another meaning"),
        ({}, ("weights", "_"), None),
    ],
)
def test_what_does_not_go_together_is_told(outputs, returns, says):
    found = [text for _, text in faults_in(outputs, ROUTING, returns, ())]
    assert (says is None) == (not found)
    assert not found or any(str(says) in text for text in found), found
