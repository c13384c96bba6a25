"""What of a mechanism a subject can be tried on: what it does not claim is named, and what it fixes is settled."""

import math

import pytest

from attnspec.cases.applicability import applicable, pins, undeclared
from attnspec.language.expressions import Expression
from attnspec.language.scopes import Scope
from attnspec.mechanisms.loader import library
from attnspec.subjects.claims import Claims

ATTENTION = library()["attention"]
EVERYTHING = Claims(frozenset({*ATTENTION.optional, *ATTENTION.options}), ("float32",))
FIXED = Claims(frozenset({"mask"}), ("float32",), fixed={"causal": True, "scale": 0.3})


@pytest.mark.parametrize(
    ("text", "pinned", "expected"),
    [
        ("3", {}, True),
        ("3", {"a": 3}, True),
        ("3", {"a": 4}, False),
        ("b + 1", {"a": 3}, False),
        ("none", {"a": None}, True),
        ("normal(b)", {"a": 0}, False),
        ("3", {"b": 1}, True),
        ("word", {"a": "word"}, True),
        ("word", {"a": "other"}, False),
        ("word", {"a": None}, False),
    ],
)
def test_a_setting_applies_where_it_asks_for_nothing_but_what_is_pinned(text, pinned, expected):
    assert expected is applicable({"a": Expression(text, Scope(frozenset({"b", "word"}), draws=True))}, pinned)


@pytest.mark.parametrize(
    ("name", "claims", "reason"),
    [
        ("attention", {}, None),
        ("softmax", {}, None),
        ("causal_mask", {}, "does not take causal"),
        ("causal_mask", {"names": {"causal"}}, None),
        ("causal_mask", {"fixed": {"causal": True}}, None),
        ("causal_mask", {"fixed": {"causal": False}}, "takes causal = False only"),
        ("sliding_window", {"names": {"causal"}}, "does not take window_left"),
        ("sliding_window", {"names": {"window_left"}}, None),
        ("sliding_window", {"names": {"window_right"}}, "does not take window_left"),
        ("padding_mask", {}, "does not take mask"),
        ("alibi", {"names": {"mask"}}, "does not take bias"),
        ("alibi_slopes", {}, "does not take heads"),
        ("alibi_slopes", {"fixed": {"heads": 8}}, None),
    ],
)
def test_a_mechanism_that_is_not_claimed_is_named_with_the_reason(name, claims, reason):
    declared = {"names": frozenset(claims.get("names", ())), "fixed": claims.get("fixed", {})}
    assert reason == undeclared(library()[name], Claims(dtypes=("float32",), **declared))


def test_what_is_not_claimed_is_pinned_to_its_default_and_what_is_fixed_to_its_value():
    expected = {"bias": 0, "sink": -math.inf, "window_left": None, "window_right": None, "softcap": None}
    expected |= {"dropout_p": 0.0, "seed": None}
    assert {**expected, "causal": True, "scale": 0.3} == pins(ATTENTION, FIXED)
    assert {} == pins(ATTENTION, EVERYTHING)


def test_codes_are_claimed_in_the_dtype_of_what_is_returned_for_them():
    m = library()["quantized_attention"]
    one = Claims(frozenset({*m.optional, *m.options}), ("float16",), of_codes="bfloat16")
    assert "returns bfloat16 for codes" == undeclared(m, one, "float16")
    assert (None, None) == (undeclared(m, one, "bfloat16"), undeclared(ATTENTION, one, "float16"))
