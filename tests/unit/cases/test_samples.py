"""A case is drawn from its seed alone, the same everywhere, and inside the domain and the limits."""

import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attnspec.cases.samples import Case, Sample, Unfit
from attnspec.diagnosis.stored import read_case, stored_case
from attnspec.mechanisms.loader import library, load

DRAWS = """\
mechanism: draws
title: Every draw
version: 1
sources: [Someone 2020]
summary: Draws of all kinds.
sizes:
  a: between(2, 6)
  b: choice(3, 4, 5)
  c: a + 1
inputs:
  x: normal(a, b)
  y: 0.1 * normal(a, spread = 2)
  whole: indices(5, b)
  places: permutation(b)
  parts: partition(8)
  extra: maybe(flags(a, b, chance = 0.4), true)
options:
  word: choice(first, second)
  rate: choice(0.5, 0.25)
conventions:
  which:
    first: The first.
    second: The second.
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


def digest(sample):
    parts = [(n, x.tolist() if isinstance(x, np.ndarray) else x) for n, x in sorted(sample.values.items())]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def same(first, second):
    return list(first.values) == list(second.values) and all(
        np.array_equal(x, second.values[n], equal_nan=True) if isinstance(x, np.ndarray) else x == second.values[n]
        for n, x in first.values.items()
    )


@pytest.mark.parametrize("name", library())
@pytest.mark.parametrize("seed", [0, 1])
def test_the_same_seed_draws_the_same_case(name, seed):
    first, second = (drawn(library()[name], "bfloat16", seed=seed) for _ in range(2))
    assert same(first, second)
    assert first.case.key == second.case.key


GOLDEN = [
    ({}, "PRZxPZC", "4dc3fb748d47d32e"),
    ({"seed": 7}, "VFWVvZ7", "cba254438046884e"),
    ({"regime": "shifted"}, "PCFdbRm", "df476badc3277d3b"),
    ({"scenario": "turned"}, "QnFA8By", "d569102b7298da9e"),
    ({"layout": "expanded", "fixed": {"a": 3, "b": 5}, "dtype": "bfloat16"}, "FCy6nFE", "2722de9359ae66e1"),
]


@pytest.mark.parametrize(("case", "key", "expected"), GOLDEN)
def test_a_case_is_the_same_wherever_it_is_drawn(draws, case, key, expected):
    sample = drawn(draws, **case)
    assert (key, expected) == (sample.case.key, digest(sample))


def test_another_seed_draws_other_numbers(draws):
    one, other = (drawn(draws, fixed={"a": 2, "b": 3, "rate": 0.5}, seed=seed) for seed in (0, 100))
    assert not np.array_equal(one.values["x"], other.values["x"])


def test_the_order_of_entries_is_immaterial(draws):
    moved = replace(
        draws,
        sizes=dict(reversed(draws.sizes.items())),
        inputs=dict(reversed(draws.inputs.items())),
        options=dict(reversed(draws.options.items())),
    )
    assert digest(drawn(draws)) == digest(drawn(moved))


def test_what_is_fixed_is_not_drawn(draws):
    sample = drawn(draws, fixed={"a": 3, "b": 4, "word": "second", "rate": 0.125})
    assert (3, 4, 4, "second", 0.125) == tuple(sample.values[n] for n in ("a", "b", "c", "word", "rate"))
    assert (3, 4) == sample.values["x"].shape


def test_a_settled_case_holds_what_was_drawn_and_not_what_follows(draws):
    case = drawn(draws).case
    assert {"a", "b", "word", "rate"} == set(case.fixed) - set(draws.inputs)
    assert [] == [name for name in draws.required if name in case.fixed]


@pytest.mark.parametrize("case", [case for case, *_ in GOLDEN])
def test_a_settled_case_draws_the_same_again(draws, case):
    sample = drawn(draws, **case)
    again = Sample(draws, sample.case, sample.dtype)
    assert same(sample, again)
    assert sample.case == again.case


def test_picks_inside_arrays_are_kept(draws):
    m = library()["attention"]
    sample = drawn(m, fixed={"batch": 2, "kv_heads": 2, "q_len": 2, "k_len": 3}, seed=1)
    picks = dict.fromkeys(("mask.0", "mask.2", "mask.3"), 1)
    other = Sample(
        m,
        replace(sample.case, fixed={n: x for n, x in sample.case.fixed.items() if n != "mask"}, picks=picks),
        "float64",
    )
    assert (1, 2, 2, 3) == other.values["mask"].shape
    assert picks.items() <= other.case.picks.items()
    assert same(other, Sample(m, other.case, "float64"))


@pytest.mark.parametrize(
    "change",
    [
        {"mechanism": "other"},
        {"seed": 1},
        {"fixed": {"a": 4}},
        {"picks": {"x.0": 1}},
        {"scenario": "small"},
        {"regime": "large"},
        {"layout": "strided"},
        {"literals": {"x": np.ones(3)}},
    ],
)
def test_the_key_of_a_case_tells_it_from_others(change):
    case = Case("draws", "a", 0, fixed={"a": 3})
    assert case.key != replace(case, **change).key


def test_the_label_of_a_case_is_not_in_its_key():
    assert Case("draws", "a", 0).key == Case("draws", "b", 0).key


@pytest.mark.parametrize("case", [case for case, *_ in GOLDEN])
def test_a_case_comes_back_from_json(draws, case):
    sample = drawn(draws, **case)
    stored = json.loads(json.dumps(stored_case(sample, None, ())))
    again = read_case(stored)
    assert same(sample, Sample(draws, again, sample.dtype))
    assert (sample.case.seed, dict(sample.case.fixed), sample.case.layout) == (again.seed, again.fixed, again.layout)


def test_infinities_and_nan_come_back_from_json(draws):
    x = np.array([[math.inf, -math.inf, math.nan], [0.0, 1e-300, -0.0]])
    sample = drawn(draws, fixed={"a": 2, "b": 3, "rate": math.inf}, literals={"x": x})
    stored = json.loads(json.dumps(stored_case(sample, None, ()), allow_nan=False))
    again = read_case(stored)
    np.testing.assert_array_equal(x, again.literals["x"])
    assert math.inf == again.fixed["rate"]
