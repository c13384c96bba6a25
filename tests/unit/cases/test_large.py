"""Cases whose large arrays are keys."""

from __future__ import annotations

import numpy as np

from attnspec.adapters import Adapter
from attnspec.cases.large import large_sample
from attnspec.mechanisms.loader import NONE
from attnspec.mechanisms.serving import serving
from attnspec.numerics.drawn import Drawn
from attnspec.subjects.targets import subject

LIBRARY = NONE.library()


def claims_of(function, operator, **more):
    return subject(Adapter("kernel", operator, function, "numpy", **more)).claims


def sampled(name, function, operator="attention", **more):
    claims = claims_of(function, operator, **more)
    return large_sample(LIBRARY[operator], name, serving(LIBRARY[operator])[name], claims, "float32", 0)


def plain(q, k, v): ...


def paged(q, key_pages, value_pages, table, k_lens): ...


def test_large_arrays_are_keys_and_small_ones_are_arrays():
    values = sampled("pages_of_256", paged, "paged_attention").values
    assert isinstance(values["key_pages"], Drawn)
    assert values["pages"] == values["key_pages"].shape[0]
    assert [1100, 257] == np.asarray(values["k_lens"]).tolist()
    assert isinstance(values["table"], np.ndarray)


def test_a_case_has_the_same_key_again():
    assert sampled("decode", plain).key == sampled("decode", plain).key
    assert sampled("decode", plain).values["k"] == sampled("decode", plain).values["k"]


def test_what_a_subject_does_not_take_is_said():
    assert "does not take causal" == sampled("window_at_an_edge", plain)


def test_a_size_is_the_nearest_within_the_limits():
    assert 64 == sampled("latent", plain, limits={"head_dim": (64,)}).values["head_dim"]


def test_a_row_is_tried_without_what_a_subject_does_not_take():
    found = sampled("pair_1", plain)
    assert (False, None) == (found.values["causal"], found.values["window_left"])
