"""Native sparse attention: both witnesses against three attentions under masks, and what goes wrong with blocks."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.native_sparse import control_sparse_by_masks, control_sparse_by_queries
from attnspec.adapters.faults.native_sparse import IN_CHUNKS
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda **values: Frame(library()["native_sparse_attention"], values).outputs(),
    "reference": lambda **values: {"out": reference.native_sparse_attention(**values)},
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
Q, K, V = (np.sin(by * np.arange(1, 1 + 2 * n * 4)).reshape(1, 2, n, 4) for by, n in ((1.1, 4), (1.7, 7), (0.9, 7)))
SELECTED = np.array([[[[1, -1], [-1, 0], [2, 1], [-1, -1]]] * 2])
GATES = dict(zip(("compressed_gate", "selected_gate", "window_gate"), np.full((3, 1, 2, 4), 0.5), strict=True))


@witnesses
def test_branches_are_attentions_under_masks(witness):
    found = witness(q=Q, k=K, v=V, selected=SELECTED, **GATES, block_size=3, window_left=1)
    row, column = np.arange(3, 7)[:, None], np.arange(7)
    means = [x[:, :, :6].reshape(1, 2, 2, 3, 4).mean(3) for x in (K, V)]
    seen = (SELECTED[0, 0][..., None] == column // 3).any(1) & (column <= row)
    attentions = [
        reference.attention(Q, *means, mask=(np.array([2, 5]) <= row)[None, None]),
        reference.attention(Q, K, V, mask=seen[None, None]),
        reference.attention(Q, K, V, mask=((column <= row) & (row - column <= 1))[None, None]),
    ]
    assert [True, False] == [*seen.any(1)][1:4:2]
    expected = 0.5 * sum(np.nan_to_num(one["out"]) for one in attentions)
    np.testing.assert_allclose(np.asarray(found["out"]), expected, rtol=1e-12)


@witnesses
def test_a_query_before_the_end_of_the_first_block_has_nothing_of_it(witness):
    gate = {"compressed_gate": np.ones((1, 2, 4))}
    found = witness(q=Q, k=K[:, :, :4], v=V[:, :, :4], selected=SELECTED, **gate, block_size=4, window_left=0)
    assert [0.0, True] == [
        np.abs(np.asarray(found["out"])[:, :, :3]).max(),
        bool(np.asarray(found["out"])[..., 3, 0].all()),
    ]


def test_the_reference_refuses_lists_of_other_queries():
    with pytest.raises(ValueError, match="every query has a list"):
        reference.native_sparse_attention(Q, K, V, SELECTED[:, :, :3])


def failures(function):
    one = subject(Adapter("function", "native_sparse_attention", function, "torch"))
    cells = run(Request(one, library()["native_sparse_attention"], "float32", PROFILES["smoke"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def begun_blocks(q, k, v, selected, compressed_gate=None, selected_gate=None, window_gate=None, **asked):
    """Sees a block from its first key on: the queries are taken for those of later tokens."""
    size, gates = asked.get("block_size", 4), (selected_gate, window_gate)
    ahead = q.new_zeros(*k.shape[:2], size - 1, k.shape[3]), q.new_zeros(*v.shape[:2], size - 1, v.shape[3])
    longer = [x if size == 1 else torch.cat((x, y), 2) for x, y in zip((k, v), ahead, strict=True)]
    rest = control_sparse_by_masks(q, k, v, selected, None, *gates, **asked)
    return rest + control_sparse_by_masks(q, *longer, selected, compressed_gate, None, None, **asked)


def test_a_block_that_is_seen_before_it_is_complete_is_found():
    assert "definition" in failures(begun_blocks)


RIGHT = [control_sparse_by_queries, control_sparse_by_masks, IN_CHUNKS.right()]


@pytest.mark.parametrize("right", RIGHT, ids=["by_queries", "by_masks", "in_chunks"])
def test_queries_one_by_one_masks_and_chunks_are_right(right):
    assert set() == failures(right)
