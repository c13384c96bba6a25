"""Attention to blocks of keys: both witnesses against attention under a mask, and what goes wrong with it."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.block_sparse import control_blocks_as_mask, control_blocks_by_rows
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda **values: Frame(library()["block_sparse_attention"], values).outputs(),
    "reference": reference.block_sparse_attention,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
Q, K, V = (np.sin(by * np.arange(1, 1 + 2 * n * 4)).reshape(1, 2, n, 4) for by, n in ((1.1, 7), (1.7, 10), (0.9, 10)))
BLOCKS = np.array([[[[1, 0, 0, 1], [0, 1, 1, 0], [0, 0, 0, 0]], [[0, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1]]]]) == 1


def mask_of_blocks():
    mask = np.zeros((1, 2, 7, 10), bool)
    for head, row, column in np.argwhere(BLOCKS[0]):
        mask[0, head, 3 * row : 3 * row + 3, 3 * column : 3 * column + 3] = True
    return mask


@witnesses
@pytest.mark.parametrize(
    "asked", [{}, {"causal": True}, {"causal": True, "window_left": 4}, {"window_right": 2}], ids=str
)
def test_blocks_are_attention_under_their_mask(witness, asked):
    found = witness(q=Q, k=K, v=V, blocks=BLOCKS, q_block_size=3, k_block_size=3, **asked)
    expected = reference.attention(Q, K, V, mask=mask_of_blocks(), **asked)
    np.testing.assert_allclose(np.asarray(found["out"]), expected["out"], rtol=1e-13)
    np.testing.assert_allclose(np.asarray(found["lse"]), expected["lse"], rtol=1e-13)


@witnesses
def test_a_tail_of_one_key_of_64_returns_its_value(witness):
    q, k, v = np.ones((1, 1, 2, 4)), np.ones((1, 1, 65, 4)), np.arange(65.0)[None, None, :, None]
    found = witness(q=q, k=k, v=v, blocks=np.array([[[[False, True]]]]), q_block_size=64, k_block_size=64)
    assert [64.0, 64.0] == np.asarray(found["out"]).ravel().tolist()
    assert [2.0, 2.0] == np.asarray(found["lse"]).ravel().tolist()


@pytest.mark.parametrize("shape", [(1, 2, 2, 4), (1, 2, 3, 3), (1, 1, 3, 4)])
def test_the_reference_refuses_layouts_that_do_not_cover_the_lengths(shape):
    with pytest.raises(ValueError, match="a row for every block"):
        reference.block_sparse_attention(Q, K, V, np.ones(shape, bool), q_block_size=3, k_block_size=3)


def failures(function, **words):
    one = subject(Adapter("function", "block_sparse_attention", function, "torch", conventions=words))
    cells = run(Request(one, library()["block_sparse_attention"], "float32", PROFILES["smoke"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def tail_filled_with_zeros(q, k, v, blocks, *, q_block_size, k_block_size, **asked):
    padded = (torch.nn.functional.pad(x, (0, 0, 0, -x.shape[2] % k_block_size)) for x in (k, v))
    sizes = {"q_block_size": q_block_size, "k_block_size": k_block_size}
    return control_blocks_by_rows(q, *padded, blocks, **sizes, **asked)["out"]


def positions_forgotten(q, k, v, blocks, *, q_block_size, k_block_size, scale=None, causal=False, **window):
    return control_blocks_by_rows(q, k, v, blocks, q_block_size=q_block_size, k_block_size=k_block_size, scale=scale)


@pytest.mark.parametrize("wrong", [tail_filled_with_zeros, positions_forgotten])
def test_zeros_behind_the_tail_and_forgotten_positions_are_found(wrong):
    assert "definition" in failures(wrong)


@pytest.mark.parametrize("right", [control_blocks_by_rows, control_blocks_as_mask])
def test_compressed_rows_and_dense_masks_are_right(right):
    assert set() == failures(right)
