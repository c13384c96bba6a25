"""Tokens by expert and back: both witnesses by hand, each other's inverse, and indices that go wrong."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls import token_permutation as controls
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject


def defined(operator):
    return lambda **values: {name: np.asarray(x) for name, x in Frame(library()[operator], values).outputs().items()}


SORTED = pytest.mark.parametrize("witness", [defined("token_permutation"), reference.token_permutation])
CHOSEN = np.array([[2, 0], [-1, 2], [0, -1], [-1, -1]])
X = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, 40.0]])


@SORTED
def test_tokens_lie_in_the_blocks_of_their_experts(witness):
    found = witness(x=X, chosen=CHOSEN, experts=4)
    assert [2, 0, 2, 0] == found["block_sizes"].tolist()
    assert [0, 2, 0, 1] == found["sources"][:4].tolist()
    assert X[[0, 2, 0, 1]].tolist() == found["rows"][:4].tolist()
    assert [2, 0, 3, 1] == found["places"][CHOSEN >= 0].tolist()


def test_what_is_behind_the_last_row_is_left_open():
    assert np.isnan(defined("token_permutation")(x=X, chosen=CHOSEN, experts=4)["rows"][4:]).all()


@pytest.mark.parametrize(
    "witness",
    [
        lambda **given: defined("token_unpermutation")(**given)["out"],
        reference.token_unpermutation,
        lambda **given: controls.control_unpermutation_by_reading(**{n: torch.as_tensor(x) for n, x in given.items()}),
        lambda **given: controls.control_unpermutation_by_writing(**{n: torch.as_tensor(x) for n, x in given.items()}),
    ],
    ids=["definition", "reference", "reading", "writing"],
)
def test_tokens_are_brought_back_by_their_weights(witness):
    rows = np.vstack((X[[0, 2, 0, 1]], np.full((4, 2), 7.0)))
    weights = np.array([[0.5, 2.0], [9.0, 3.0], [1.0, 9.0], [9.0, 9.0]])
    expected = X * np.array([2.5, 3.0, 1.0, 0.0])[:, None]
    assert expected.tolist() == np.asarray(witness(rows=rows, chosen=CHOSEN, weights=weights)).tolist()


@pytest.mark.parametrize("changed", [{"chosen": CHOSEN[:3]}, {"experts": 2}])
def test_the_reference_refuses_choices_that_do_not_fit(changed):
    with pytest.raises(ValueError, match="every token has its choices"):
        reference.token_permutation(**{"x": X, "chosen": CHOSEN, "experts": 4, **changed})


@pytest.mark.parametrize("changed", [{"rows": X}, {"weights": np.ones((4, 1))}])
def test_the_reference_refuses_choices_without_a_row_or_a_weight(changed):
    with pytest.raises(ValueError, match="a row and a weight"):
        reference.token_unpermutation(**{"rows": np.zeros((8, 2)), "chosen": CHOSEN, "weights": 1.0, **changed})


def failures(operator, function):
    one = subject(Adapter("function", operator, function, "torch"))
    cells = run(Request(one, library()[operator], "float32", PROFILES["smoke"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def by_one_sort(x, chosen, *, experts):
    """Choices of none are sorted with the others, and so lie in front."""
    controls.known(chosen, len(x), experts)
    return x[chosen.flatten().argsort(stable=True) // chosen.shape[1]]


def by_the_order(rows, chosen, weights=None):
    """Rows are read by the order, and not by its inverse."""
    controls.matching(rows, chosen, weights)
    picked = rows[controls.placed(chosen)[0].argsort()].unflatten(0, chosen.shape)
    share = (chosen >= 0) * (1.0 if weights is None else weights)
    return (picked.nan_to_num() * share[..., None]).sum(1)


@pytest.mark.parametrize(
    ("operator", "wrong"), [("token_permutation", by_one_sort), ("token_unpermutation", by_the_order)]
)
def test_wrong_orders_are_found(operator, wrong):
    assert "definition" in failures(operator, wrong)
