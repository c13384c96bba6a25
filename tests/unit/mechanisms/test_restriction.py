"""Definitions for chosen positions of axes alone."""

from __future__ import annotations

import numpy as np
import pytest

from attnspec.errors import SpecError
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import NONE
from attnspec.mechanisms.restriction import hiding, output_shape, restricted

ATTENTION = NONE.library()["attention"]


def inputs(**more):
    noise = np.random.default_rng(0)
    q, k, v = (noise.normal(size=shape) for shape in ((2, 6, 5, 4), (2, 3, 7, 4), (2, 3, 7, 2)))
    return {"q": q, "k": k, "v": v, "mask": True, "bias": 0, "sink": -np.inf, **more}


@pytest.mark.parametrize("grouping", ["block", "tiled"])
def test_rows_of_some_heads_are_those_of_the_whole(grouping):
    values = inputs(causal=True, window_left=3, grouping=grouping, mask=np.arange(35).reshape(5, 7) % 3 > 0)
    positions = {"batch": [1], "heads": [1, 4], "q_len": [0, 3]}
    part = restricted(ATTENTION, positions).frame(values, positions).outputs("out")["out"]
    whole = Frame(ATTENTION, values).outputs("out")["out"]
    np.testing.assert_allclose(part, whole[1:][:, [1, 4]][:, :, [0, 3]], rtol=1e-14)


def test_hidden_keys_may_be_left_out():
    values = inputs(causal=True, causal_alignment="top_left")
    whole = Frame(ATTENTION, values).outputs("out")["out"]
    places = {"q_len": np.arange(3), "k_len": np.arange(3)}
    trimmed = restricted(ATTENTION, {"q_len"}, trimmed={"k_len"}).frame(values, places)
    np.testing.assert_allclose(trimmed.outputs("out")["out"], whole[:, :, :3], rtol=1e-14)
    with pytest.raises(SpecError, match="the axis k_len cannot be restricted"):
        restricted(ATTENTION, {"q_len", "k_len"})


def test_what_is_hidden_is_found_in_the_text():
    known = NONE.library()
    assert ("allowed", "k_len") == hiding(ATTENTION)
    assert ("allowed", "k_tokens") == hiding(known["packed_attention"])
    assert None is hiding(known["rms_norm"])


def test_heads_bring_the_heads_of_keys_along():
    found = restricted(ATTENTION, {"heads"})
    assert {"heads", "kv_heads"} == found.axes
    closed = found.closed({"heads": np.array([5])}, {"heads": 6, "kv_heads": 3})
    assert [2] == closed["kv_heads"].tolist()


def test_what_may_reach_every_query_is_a_fault_once_it_is_there():
    values = inputs(k=np.where(np.arange(7)[:, None] == 2, np.nan, inputs()["k"]))
    frame = restricted(ATTENTION, {"q_len"}).frame(values, {"q_len": [0]})
    with pytest.raises(SpecError, match="the axis q_len cannot be restricted: any goes along it"):
        frame.outputs("out")


def test_an_input_of_another_length_is_refused():
    found = restricted(ATTENTION, {"q_len"})
    with pytest.raises(SpecError, match="mask has 3 entries along q_len = 5"):
        found.frame(inputs(mask=np.ones((3, 7), bool)), {"q_len": [0]})


def test_the_shape_of_an_output_follows_from_sizes():
    sizes = {"batch": 2, "heads": 6, "q_len": 5, "k_len": 7, "value_dim": 2}
    assert (2, 6, 5, 2) == output_shape(ATTENTION, "out", sizes)
