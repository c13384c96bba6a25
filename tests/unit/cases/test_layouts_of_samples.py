"""The arrays of a case: rounded, in the domain and the limits, as scenarios, regimes and layouts have them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attnspec.cases.samples import Case, Sample, Unfit
from attnspec.errors import SpecError
from attnspec.language.expressions import Expression
from attnspec.language.scopes import Scope
from attnspec.mechanisms.loader import library, load
from attnspec.mechanisms.mechanism import LAYOUTS
from attnspec.numerics.formats import FORMATS, holds
from attnspec.numerics.streams import Stream
from attnspec.subjects.claims import Claims

DRAWS = """\
mechanism: draws
title: Draws
version: 1
sources: [Someone 2020]
summary: Draws of some kinds.
sizes:
  a: between(2, 6)
  b: choice(3, 4, 5)
  c: a + 1
inputs:
  x: normal(a, b)
  y: 0.1 * normal(a, spread = 2)
  whole: indices(5, b)
options:
  rate: choice(0.5, 0.25)
requires:
  few: a + b < 10
definition:
  z: sum(x)
outputs: [z]
regimes:
  large: x = 100 * x
  shifted: x = x + y[:, none]
scenarios:
  small: a = 2, b = 3
  turned: a = 3, b = 4, layout = transposed
  large_x: a = 2, b = 3, x = 2 * x
examples:
  one:
    given: a = 2, b = 3, x = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    gives: z = [6.0, 15.0]
"""


@pytest.fixture
def draws(tmp_path):
    Path("draws.yaml").write_text(DRAWS, "utf-8")
    return load([tmp_path / "draws.yaml"])["draws"]


def drawn(mechanism, dtype="float64", **case):
    """The first sample from this seed on that is inside the domain."""
    first = case.pop("seed", 0)
    for seed in range(first, first + 50):
        try:
            return Sample(mechanism, Case(mechanism.name, "test", seed, **case), dtype)
        except Unfit:
            continue
    raise AssertionError("nothing is inside the domain")


@pytest.mark.parametrize("dtype", FORMATS)
def test_inputs_are_rounded_to_the_dtype_under_test(draws, dtype):
    values = drawn(draws, dtype, regime="shifted").values
    exact = drawn(draws, regime="shifted").values
    for name in ("x", "y"):
        assert all(holds(float(x), FORMATS[dtype]) for x in values[name].ravel())
        np.testing.assert_allclose(exact[name], values[name], rtol=4 * FORMATS[dtype].unit, atol=1e-4)
    assert np.array_equal(exact["whole"], values["whole"])


def test_a_regime_sees_the_draw_that_it_replaces(draws):
    plain, large, shifted = (drawn(draws, "float32", regime=regime).values for regime in ("", "large", "shifted"))
    single = np.float32
    np.testing.assert_array_equal((100 * plain["x"]).astype(single), large["x"])
    np.testing.assert_array_equal((plain["x"] + plain["y"][:, None]).astype(single), shifted["x"])
    assert np.array_equal(plain["y"], large["y"])


def test_a_scenario_replaces_draws_and_sees_what_it_replaces(draws):
    small, large = drawn(draws, scenario="small"), drawn(draws, scenario="large_x")
    assert (2, 3, 3) == tuple(small.values[n] for n in ("a", "b", "c"))
    np.testing.assert_array_equal(2 * small.values["x"], large.values["x"])


def test_a_worked_example_is_a_scenario_too(draws):
    sample = drawn(draws, scenario="example:one")
    np.testing.assert_array_equal([[1, 2, 3], [4, 5, 6]], sample.values["x"])


def test_a_scenario_may_choose_a_layout(draws):
    assert "transposed" == drawn(draws, scenario="turned").layout
    assert "transposed" == drawn(draws, scenario="turned", layout="strided").case.layout


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_leaves_the_values_alone_unless_it_is_expanded(draws, layout):
    plain, other = drawn(draws, fixed={"a": 3, "b": 4}), drawn(draws, fixed={"a": 3, "b": 4}, layout=layout)
    assert (layout, layout) == (other.layout, other.case.layout)
    for name in draws.required:
        expected = plain.values[name]
        if layout == "expanded" and expected.ndim > 1:
            expected = np.broadcast_to(expected[:1], expected.shape)
        np.testing.assert_array_equal(expected, other.values[name])


def test_an_expanded_layout_repeats_the_first_of_several():
    sample = drawn(library()["attention"], fixed={"batch": 1, "kv_heads": 3, "head_dim": 4}, layout="expanded")
    q = sample.values["q"]
    assert 1 == q.shape[0]
    np.testing.assert_array_equal(np.broadcast_to(q[:, :1], q.shape), q)


def test_literals_take_the_place_of_draws(draws):
    x = np.arange(6.0).reshape(2, 3)
    sample = drawn(draws, fixed={"a": 2, "b": 3}, literals={"x": x}, regime="large")
    np.testing.assert_array_equal(x, sample.values["x"])


def test_what_lies_outside_the_domain_is_unfit(draws):
    with pytest.raises(Unfit, match=r"not a \+ b < 10"):
        Sample(draws, Case("draws", "", 0, fixed={"a": 6, "b": 5}), "float64")


def limited(mechanism, limits, **case):
    return Sample(
        mechanism,
        Case(mechanism.name, "", 0, **case),
        "float64",
        claims=Claims(frozenset(), ("float64",), limits=limits),
    )


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ((3,), 3),
        ((7,), 7),
        ((9, 2), 2),
        ([4, 7], 4),
        ((5, 1), 1),
        (range(2, 100, 4), 2),
        (range(1, 100, 4), 1),
        (range(8, 100, 8), 8),
    ],
)
def test_a_size_of_three_moves_to_the_nearest_allowed_and_of_two_to_the_smaller(draws, limits, expected):
    anywhere = replace(draws, requires={})
    assert expected == limited(anywhere, {"a": limits}, scenario="turned").values["a"]


def test_an_option_outside_the_limits_is_the_first_that_is_allowed(draws):
    assert 0.125 == limited(draws, {"rate": (0.125, 0.0625)}).values["rate"]
    assert 0.25 == limited(draws, {"rate": (0.125, 0.25)}).values["rate"]


def test_sizes_that_follow_from_others_keep_to_the_limits_too(draws):
    found = limited(draws, {"c": range(3, 5)}).values
    assert found["c"] in (3, 4)


def test_a_size_that_arrays_fix_outside_the_limits_is_unfit(draws):
    x, y, whole = np.ones((2, 3)), np.ones(2), np.zeros(3, np.int64)
    with pytest.raises(Unfit, match="b = 3 is outside the limits"):
        limited(draws, {"b": (8,)}, literals={"x": x, "y": y, "whole": whole})


def test_draws_that_need_one_another_are_named(draws):
    scope = Scope(frozenset({"a", "b"}))
    circle = {"a": Expression("b", scope), "b": Expression("a", scope)}
    with pytest.raises(SpecError, match="a cycle of draws: a -> b -> a"):
        drawn(replace(draws, sizes={**draws.sizes, **circle}))
    with pytest.raises(SpecError, match="a is drawn from itself"):
        drawn(replace(draws, sizes={**draws.sizes, "a": circle["b"]}))


def test_the_number_of_entries_is_that_of_all_arrays(draws):
    sample = drawn(draws, fixed={"a": 2, "b": 3})
    assert 6 + 2 + 3 == sample.entries


def test_every_name_has_a_stream_of_its_own(draws):
    sample = drawn(draws, fixed={"a": 2, "b": 3})
    np.testing.assert_array_equal(Stream(sample.case.seed, "draws", "x.0").normal((2, 3)), sample.values["x"])
