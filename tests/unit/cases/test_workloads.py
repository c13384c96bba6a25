"""Cases of a workload: all of a call is in its case."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attnspec.cases.large import LargeSample
from attnspec.cases.samples import Sample
from attnspec.cases.workloads import LIES, strides_in, worked, worked_sample
from attnspec.mechanisms.loader import NONE
from attnspec.mechanisms.workloads import Use
from attnspec.numerics.drawn import Drawn
from attnspec.subjects.claims import Claims

KNOWN = NONE.library()
ATTENTION, PACKED = KNOWN["attention"], KNOWN["packed_attention"]
SIZES = {"batch": 2, "heads": 8, "kv_heads": 2, "q_len": 5, "k_len": 7, "head_dim": 8, "value_dim": 4}
EVERYTHING = Claims(names=frozenset({*ATTENTION.optional, *ATTENTION.options}), dtypes=("float32",))


def sample(use, claims=EVERYTHING, mechanism=ATTENTION):
    found = worked_sample(mechanism, use, claims, use.dtype, 0)
    assert isinstance(found, Sample), found
    return found


def test_sizes_and_options_are_those_of_the_call():
    found = sample(Use("attention", "float32", SIZES, {"causal": True, "scale": 0.25}))
    assert SIZES == {name: found.values[name] for name in SIZES}
    assert (True, 0.25, None) == tuple(found.values[name] for name in ("causal", "scale", "window_left"))


def test_optional_inputs_have_the_shapes_of_the_call_and_others_are_absent():
    found = sample(Use("attention", "float32", SIZES, optional={"mask": (2, 1, 5, 7)}))
    assert (2, 1, 5, 7) == found.values["mask"].shape
    assert 0 == found.values["bias"]


def test_a_shape_that_is_never_drawn_is_a_reason():
    use = Use("attention", "float32", SIZES, optional={"mask": (1, 1, 1, 7)})
    assert "mask of [1, 1, 1, 7] is never drawn" == worked_sample(ATTENTION, use, EVERYTHING, "float32", 0)


def test_what_a_subject_does_not_take_is_a_reason():
    use = Use("attention", "float32", SIZES, {"causal": True})
    claims = replace(EVERYTHING, fixed={"causal": False})
    assert "does not take causal = True" == worked_sample(ATTENTION, use, claims, "float32", 0)
    limited = replace(EVERYTHING, limits={"head_dim": (64,)})
    assert "head_dim = 8 is outside the limits" == worked_sample(ATTENTION, use, limited, "float32", 0)


def test_the_case_is_found_again_without_the_workload():
    found = sample(Use("attention", "float32", SIZES, {"causal": True}, {"mask": (2, 1, 5, 7)}))
    again = worked(ATTENTION, found.case, EVERYTHING, "float32")
    assert [True] * 4 == [np.array_equal(found.values[name], again.values[name]) for name in ("q", "k", "v", "mask")]
    assert 8 == again.values["heads"]


def test_large_calls_are_keys():
    assert isinstance(sample(Use("attention", "float32", {**SIZES, "k_len": 4096})), LargeSample)
    assert not isinstance(sample(Use("attention", "float32", SIZES)), LargeSample)


def test_arrays_lie_as_they_did():
    found = sample(Use("attention", "float32", SIZES, strides={"q": (320, 8, 64, 1)}))
    assert isinstance(found, LargeSample)
    q, k = found.handed["q"], found.handed["k"]
    assert isinstance(q, Drawn)
    assert ((320, 8, 64, 1), False) == (q.strides, isinstance(k, Drawn))
    assert {"q": (320, 8, 64, 1)} == strides_in(found.case.layout)
    assert LIES.fullmatch(found.case.layout)


def test_the_longest_item_is_as_long_as_it_was():
    sizes = {"items": 4, "q_tokens": 20, "k_tokens": 20, "heads": 2, "kv_heads": 2, "head_dim": 4, "value_dim": 4}
    claims = Claims(names=frozenset({*PACKED.optional, *PACKED.options}), dtypes=("float32",))
    found = sample(Use("packed_attention", "float32", sizes, most={"q_lens": 9, "k_lens": 5}), claims, PACKED)
    assert ([9, 4, 4, 3], [5, 5, 5, 5]) == tuple(found.values[name].tolist() for name in ("q_lens", "k_lens"))


def test_lengths_that_do_not_fit_are_drawn():
    sizes = {"items": 2, "q_tokens": 20, "k_tokens": 20, "heads": 2, "kv_heads": 2, "head_dim": 4, "value_dim": 4}
    claims = Claims(names=frozenset({*PACKED.optional, *PACKED.options}), dtypes=("float32",))
    found = sample(Use("packed_attention", "float32", sizes, most={"q_lens": 9}), claims, PACKED)
    assert 20 == found.values["q_lens"].sum()
