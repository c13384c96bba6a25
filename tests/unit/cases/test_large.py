"""Cases whose large arrays are keys."""

from __future__ import annotations

import numpy as np

from attnspec.adapters import Adapter
from attnspec.cases.large import large_again, large_sample
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


def test_a_pool_is_handed_with_the_same_pages_under_other_numbers():
    sample = sampled("page_numbers_over_16_bits", paged, "paged_attention")
    handed, values = sample.handed, sample.values
    places = handed["key_pages"].places
    assert 65536 + 99 == handed["key_pages"].pool == places[-1] + 1
    assert np.array_equal(places[values["table"]], handed["table"])
    assert handed["table"].max() > 65535
    assert (values["key_pages"].key, values["key_pages"].shape) == (handed["key_pages"].key, handed["key_pages"].shape)


def test_long_strides_are_those_of_all_large_arrays():
    handed = sampled("strides_over_31_bits", plain).handed
    assert [2**31 + 12345] * 3 == [handed[name].apart for name in "qkv"]


def test_other_cases_are_handed_as_they_are():
    sample = sampled("decode", plain)
    assert sample.values is sample.handed


def test_a_kept_case_lies_as_it_did():
    sample = sampled("strides_over_31_bits", plain)
    again = large_again(LIBRARY["attention"], sample.case, claims_of(plain, "attention"), "float32")
    assert sample.handed["q"] == again.handed["q"]
    assert sample.handed["q"] == sample.another(sample.case, claims_of(plain, "attention")).handed["q"]
