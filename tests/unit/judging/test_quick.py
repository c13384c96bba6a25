"""The definition on rows of a large case, as quickly as it can be had."""

from __future__ import annotations

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.large import large_sample
from attnspec.judging.bench import Bench
from attnspec.judging.portions import Item, Portions
from attnspec.judging.quick import Quick
from attnspec.language.expressions import Expression
from attnspec.language.scopes import Scope
from attnspec.language.syntax import assignments
from attnspec.mechanisms.loader import NONE
from attnspec.subjects.targets import subject

KNOWN = NONE.library()
ATTENTION, PACKED = KNOWN["attention"], KNOWN["packed_attention"]
SIZES = "batch = 1, kv_heads = 2, heads = 4, q_len = 300, k_len = 300, head_dim = 32, value_dim = 32"
ITEMS = (
    "items = 3, kv_heads = 1, heads = 2, q_tokens = 300, k_tokens = 600, head_dim = 16, value_dim = 16, "
    "q_lens = [100, 100, 100], k_lens = [100, 300, 200]"
)


def portions(text, dtype="bfloat16", mechanism=ATTENTION, **words):
    function = lambda q, k, v, *, causal=False, window_left=None: q  # noqa: E731 - nobody calls it
    if mechanism is PACKED:
        function = lambda q, k, v, q_lens, k_lens: q  # noqa: E731
    one = subject(Adapter("kernel", mechanism.name, function, "numpy", dtypes=(dtype,), conventions=words))
    scope = Scope(frozenset({*mechanism.sizes, *mechanism.inputs, *mechanism.options}), draws=True)
    assigned = {name: Expression(own, scope, place) for name, (own, place) in assignments(text).items()}
    sample = large_sample(mechanism, "case", assigned, one.claims, dtype, 0)
    assert not isinstance(sample, str), sample
    return Portions(Bench(one, mechanism, dtype, "cpu", {**mechanism.words, **words}), sample)


def item(own):
    return next(own.items())


def places(quick, monkeypatch, *rows):
    """How many places of the axis are looked at for some rows."""
    frames, made = [], quick.portions.frame
    monkeypatch.setattr(quick.portions, "frame", lambda *a, **k: frames.append(k.get("between")) or made(*a, **k))
    quick.outputs(item(quick.portions), np.arange(*rows))
    last = frames[-1]
    return None if last is None else (last.start, last.stop)


@pytest.mark.parametrize("options", ["", ", causal = true", ", causal = true, window_left = 20"])
def test_rows_are_those_of_the_definition_but_for_the_rounding_of_single_precision(options):
    own = portions(SIZES + options)
    rows = np.arange(100, 140)
    exact = own.outputs(own.frame(item(own), rows, None), ["out"])["out"]
    found = Quick(own, ["out"]).outputs(item(own), rows)["out"]
    np.testing.assert_allclose(found, exact, atol=2e-6)
    assert np.abs(found - exact).max() > 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_other_dtypes_are_computed_with_in_double_precision(dtype):
    own = portions(f"{SIZES}, causal = true", dtype)
    rows = np.arange(100, 140)
    exact = own.outputs(own.frame(item(own), rows, None), ["out"])["out"]
    np.testing.assert_allclose(Quick(own, ["out"]).outputs(item(own), rows)["out"], exact, rtol=1e-13, atol=1e-15)


def test_keys_that_no_row_sees_are_left_out(monkeypatch):
    causal, window = (
        Quick(portions(SIZES + more), ["out"]) for more in (", causal = true", ", causal = true, window_left = 20")
    )
    assert (0, 110) == places(causal, monkeypatch, 100, 110)
    assert (80, 110) == places(window, monkeypatch, 100, 110)


def test_nothing_is_left_out_where_a_row_sees_most_or_none(monkeypatch):
    assert places(Quick(portions(SIZES), ["out"]), monkeypatch, 100, 110) is None
    assert places(Quick(portions(f"{SIZES}, causal = true"), ["out"]), monkeypatch, 290, 300) is None
    fewer = SIZES.replace("k_len = 300", "k_len = 200")
    own = portions(f"{fewer}, causal = true", causal_alignment="bottom_right", empty_row="mean_value")
    assert places(Quick(own, ["out"]), monkeypatch, 90, 110) is None


def test_an_output_along_the_keys_is_computed_for_all_of_them():
    own = portions(f"{SIZES}, causal = true")
    found = Quick(own, ["out", "weights"]).outputs(item(own), np.arange(10))
    assert 300 == found["weights"].shape[-1]


def test_items_see_their_own_keys_alone(monkeypatch):
    own = portions(ITEMS, mechanism=PACKED)
    quick = Quick(own, ["out"])
    assert (100, 400) == places(quick, monkeypatch, 100, 200)
    rows = np.arange(100, 120)
    one = Item(item(own).positions)
    exact = own.outputs(own.frame(one, rows, None), ["out"])["out"]
    np.testing.assert_allclose(quick.outputs(one, rows)["out"], exact, atol=2e-6)


def test_how_many_places_were_looked_at_is_known_where_others_are_left_out():
    quick = Quick(portions(SIZES + ", causal = true"), ["out"])
    quick.outputs(item(quick.portions), np.arange(100, 140))
    assert quick.looked == 140
    quick.outputs(item(quick.portions), np.arange(280, 300))
    assert quick.looked == 0
