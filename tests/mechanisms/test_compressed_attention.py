"""Compressed attention: both witnesses against convolutions and equation 9 by hand, and a wrong stride."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.compressed import control_compressed_by_convolution, control_compressed_by_queries
from attnspec.adapters.faults.compressed import IN_CHUNKS
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

COMPRESSED = library()["compressed_attention"]
WITNESSES = {
    "definition": lambda **values: Frame(COMPRESSED, values).outputs(),
    "reference": reference.compressed_attention,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
Q, K, V = (np.sin(by * np.arange(1, 1 + 2 * n * 4)).reshape(1, 2, n, 4) for by, n in ((1.1, 4), (1.7, 7), (0.9, 7)))
MAP, SECOND = (np.cos(np.arange(n)).reshape(shape) for n, shape in ((128, (2, 4, 4, 4)), (32, (2, 4, 4))))
POSITIONS = np.cos(np.arange(32) / 2).reshape(2, 4, 4)
SIZES = {"stride": 2, "block_size": 4, "select_size": 4}


def listed(found):
    return {name: np.asarray(found[name]).tolist() for name in ("out", "importance")}


@witnesses
def test_blocks_overlap_and_are_seen_when_they_are_complete(witness):
    found = witness(q=Q, k=K, v=V, **SIZES)
    means = [np.stack([x[:, :, start : start + 4].mean(2) for start in (0, 2)], 2) for x in (K, V)]
    seen = np.array([3, 5]) <= np.arange(3, 7)[:, None]
    expected = reference.attention(Q, *means, mask=seen[None, None])["out"]
    np.testing.assert_allclose(np.asarray(found["out"]), expected, rtol=1e-12)


@witnesses
def test_a_map_adds_positions_and_has_two_layers(witness):
    maps = {"k_positions": POSITIONS, "k_map": MAP, "k_second": SECOND}
    maps |= {"v_positions": POSITIONS, "v_map": MAP, "v_second": SECOND}
    found = witness(q=Q, k=K, v=V, **maps, **SIZES)
    blocks = [
        np.stack(
            [
                np.maximum(np.einsum("bgrd,grde->bge", x[:, :, s : s + 4] + POSITIONS, MAP), 0)[:, :, None] @ SECOND
                for s in (0, 2)
            ],
            2,
        )[:, :, :, 0]
        for x in (K, V)
    ]
    seen = np.array([3, 5]) <= np.arange(3, 7)[:, None]
    expected = reference.attention(Q, *blocks, mask=seen[None, None])["out"]
    np.testing.assert_allclose(np.asarray(found["out"]), expected, rtol=1e-12)


@witnesses
def test_equation_9_counts_a_block_once_for_each_stride_of_overlap(witness):
    # Three blocks of 4 keys from 0, 2 and 4 on, with equal weights; the middle one lies in both selection blocks.
    found = witness(q=0 * Q[:, :, :1], k=np.ones((1, 2, 8, 4)), v=np.ones((1, 2, 8, 4)), **SIZES)
    expected = [[[[1.0, 1.0]], [[1.0, 1.0]]]]
    np.testing.assert_allclose(np.asarray(found["importance"]), expected, rtol=1e-12)


@witnesses
def test_the_first_selection_block_has_fewer_blocks_than_one_in_the_middle(witness):
    sizes = {"stride": 1, "block_size": 3, "select_size": 2}
    found = witness(q=0 * Q[:, :, :1], k=np.ones((1, 2, 6, 4)), v=np.ones((1, 2, 6, 4)), **sizes)
    expected = np.array([3, 6, 3]) / 4 + np.zeros((1, 2, 1, 3))
    np.testing.assert_allclose(np.asarray(found["importance"]), expected, rtol=1e-12)


@witnesses
def test_keys_that_fill_no_block_give_zeros(witness):
    found = witness(q=Q[:, :, :3], k=K[:, :, :3], v=V[:, :, :3], **SIZES)
    zeros = {"out": np.zeros((1, 2, 3, 4)).tolist(), "importance": np.zeros((1, 2, 3, 1)).tolist()}
    assert zeros == listed(found)


def test_the_reference_refuses_values_of_other_keys():
    with pytest.raises(ValueError, match="belong together"):
        reference.compressed_attention(Q, K, V[:, :, :3], **SIZES)


def failures(function):
    one = subject(Adapter("function", "compressed_attention", function, "torch"))
    cells = run(Request(one, COMPRESSED, "float32", PROFILES["smoke"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def counted_from_zero(q, k, v, *, stride, block_size, select_size, scale=None):
    """Treats the numbers of equation 9, which counts from one, as those of an array: blocks begin one block early."""
    asked = {"stride": stride, "block_size": block_size, "select_size": stride, "scale": scale}
    found = control_compressed_by_queries(q, k, v, **asked)
    per, blocks = select_size // stride, -(-k.shape[2] // select_size)
    units = torch.nn.functional.pad(found["importance"], (per - 1, per))[..., : blocks * per]
    return {**found, "importance": units.unflatten(3, (blocks, per)).sum(4)}


def test_sums_of_equation_9_that_begin_one_block_early_are_found():
    assert "definition" in failures(counted_from_zero)


RIGHT = [control_compressed_by_queries, control_compressed_by_convolution, IN_CHUNKS.right()]


@pytest.mark.parametrize("right", RIGHT, ids=["by_queries", "by_convolution", "in_chunks"])
def test_queries_one_by_one_convolutions_and_chunks_are_right(right):
    assert set() == failures(right)
