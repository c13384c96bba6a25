"""Masks of trees: both witnesses against attention over every path alone, and what has been reported as wrong."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.trees import control_trees_by_rows
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda **values: Frame(library()["tree_mask"], values).outputs()["mask"],
    "reference": reference.tree_mask,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
PARENTS = np.array([[-1, 0, 0, 1, 2, 2, -1, 6]])
PATHS = [[0], [0, 1], [0, 2], [0, 1, 3], [0, 2, 4], [0, 2, 5], [6], [6, 7]]


@witnesses
@pytest.mark.parametrize("window", [None, 0, 1, 4])
def test_every_node_is_given_what_its_path_alone_is_given(witness, window):
    q, k, v = (
        np.sin(by * np.arange(1, 1 + 2 * n * 3)).reshape(1, 2, n, 3) for by, n in ((1.1, 8), (1.7, 11), (0.9, 11))
    )
    mask = witness(parents=PARENTS, cached=3, window_left=window)
    found = reference.attention(q, k, v, mask=mask[:, None])["out"]
    for node, path in enumerate(PATHS):
        keys = [0, 1, 2, *(3 + one for one in path)]
        alone = reference.attention(q[:, :, path], k[:, :, keys], v[:, :, keys], causal=True, window_left=window)
        np.testing.assert_allclose(found[:, :, node], alone["out"][:, :, -1], rtol=1e-13)


@witnesses
def test_a_chain_may_be_as_long_as_is_followed(witness):
    mask = witness(parents=np.arange(129)[None] - 1, cached=0, window_left=None)
    assert np.array_equal(np.tril(np.ones((129, 129), bool)), mask[0])


def test_the_reference_refuses_a_parent_behind_its_child():
    with pytest.raises(ValueError, match="before its children"):
        reference.tree_mask(np.array([[1, -1]]), cached=0)


def failures(function):
    one = subject(Adapter("function", "tree_mask", function, "torch"))
    cells = run(Request(one, library()["tree_mask"], "float32", PROFILES["smoke"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def window_by_number(parents, *, cached, window_left=None):
    seen = control_trees_by_rows(parents, cached=cached)
    back = cached + torch.arange(parents.shape[1])[:, None] - torch.arange(cached + parents.shape[1])
    return seen if window_left is None else seen & (back <= window_left)


def all_earlier(parents, *, cached, window_left=None):
    chain = torch.arange(parents.shape[1]).expand_as(parents) - 1
    return control_trees_by_rows(chain, cached=cached, window_left=window_left)


@pytest.mark.parametrize("wrong", [window_by_number, all_earlier])
def test_what_has_been_reported_is_found(wrong):
    assert "definition" in failures(wrong)


def test_rows_of_parents_are_right():
    assert set() == failures(control_trees_by_rows)
