"""Large calls in the forms of functions."""

from __future__ import annotations

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.execution.calling import Call
from attnspec.numerics.drawn import Drawn
from attnspec.subjects.large import large_subject
from attnspec.subjects.targets import subject

Q, K = Drawn("q", (2, 4, 6, 8)), Drawn("k", (2, 2, 5, 8))
CALL = Call({"q": Q, "k": K, "v": K}, {}, "float32")
SHAPES = {"out": (2, 4, 6, 8)}


def held(function, **more):
    found = large_subject(subject(Adapter("kernel", "attention", function, "numpy", **more)))
    return found, found.hold(CALL, SHAPES)


def test_an_output_stays_and_is_asked_for_in_parts():
    found, answer = held(lambda q, k, v: 2 * q)
    assert answer.fault is None
    assert {"out": "float32"} == answer.dtypes
    part = found.part("out", ((1, 2), (0, 4), (2, 5), (0, 8)))
    assert np.array_equal(2 * Q.whole()[1:, :, 2:5], part)


@pytest.mark.parametrize("layout", ["bshd", "sbhd"])
def test_parts_come_back_from_another_layout(layout):
    found, answer = held(lambda q, k, v: 2 * q, layout=layout)
    assert answer.fault is None
    assert np.array_equal(2 * Q.whole()[1:, 1:3, 2:5], found.part("out", ((1, 2), (1, 3), (2, 5), (0, 8))))


def test_whole_axes_are_folded():
    found, answer = held(lambda q, k, v, heads, kv_heads: 2 * q, layout="bsd")
    assert answer.fault is None
    assert np.array_equal(2 * Q.whole()[:, 1:3], found.part("out", ((0, 2), (1, 3), (0, 6), (0, 8))))


def test_an_output_may_be_written_to_a_parameter():
    def kernel(q, k, v, out):
        out[...] = 2 * q

    found, answer = held(kernel)
    assert answer.fault is None
    assert np.array_equal(2 * Q.whole(), found.part("out", tuple((0, n) for n in SHAPES["out"])))


def test_an_output_of_another_shape_is_a_fault():
    _, answer = held(lambda q, k, v: q[:, :, :3])
    assert "out has the shape [2, 4, 3, 8], not [2, 4, 6, 8]" == answer.fault.says


def test_what_is_raised_is_a_fault():
    def kernel(q, k, v):
        raise RuntimeError("no")

    assert "RuntimeError: no" == held(kernel)[1].fault.says


def test_arrays_that_are_held_in_one_are_not_supported():
    _, answer = held(lambda q, kv: q, layout="kv")
    assert "unsupported" == answer.fault.kind


def test_an_array_has_a_further_axis_of_one_where_an_interface_has_it():
    def flash_mla_with_kvcache(
        q, k_cache, block_table, cache_seqlens, head_dim_v, tile_scheduler_metadata, num_splits=None
    ):
        return 0 * q[..., :head_dim_v] + k_cache[0, 0, :, :head_dim_v]

    rows = Drawn("rows", (2, 4, 6))
    inputs = {"q": Drawn("q", (1, 1, 3, 6)), "rows": rows, "table": np.array([[1, 0]]), "k_lens": np.array([5])}
    name = "flash_mla_with_kvcache"
    found = large_subject(subject(Adapter("kernel", "latent_pages", flash_mla_with_kvcache, "numpy", like=name)))
    answer = found.hold(Call(inputs, {"value_dim": 4}, "float32"), {"out": (1, 1, 3, 4)})
    assert answer.fault is None
    assert np.array_equal(
        np.tile(rows.whole()[0, 0, :4], (1, 1, 3, 1)), found.part("out", ((0, 1), (0, 1), (0, 3), (0, 4)))
    )
