"""Where something happens, in words."""

import pytest

from attnspec.cases.samples import Case, Sample
from attnspec.judging.ranges import Range, conditions, range_of
from attnspec.mechanisms.loader import load

SPEC = """
mechanism: moved
title: Moved
version: 1
sources: ["none"]
summary: A row with an offset.
sizes:
  q_len: between(1, 4)
  k_len: between(1, 4)
  depth: between(1, 4)
inputs:
  q: normal(q_len, depth)
  k: normal(k_len, depth)
  plus: maybe(normal(k_len), 0)
options:
  flip: choice(false, true)
  left: choice(none, 0, 3)
definition:
  y: q @ transpose(k)
outputs: [y]
"""


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    path = tmp_path_factory.mktemp("spec") / "moved.yaml"
    path.write_text(SPEC)
    mechanism = load([path])["moved"]

    def sample(**given):
        plain = {"q_len": 2, "k_len": 2, "depth": 2, "flip": False, "left": None, "plus": 0}
        return Sample(mechanism, Case("moved", "case", 1, {**plain, **given}), "float32")

    return sample


def test_conditions_are_options_that_are_given_and_how_sizes_compare(sample):
    assert ["flip", "left given", "q_len < k_len", "q_len != k_len", "depth = 1"] == conditions(
        sample(flip=True, left=3, k_len=3, depth=1)
    )


def test_a_range_has_what_holds_wherever_it_happens_and_not_everywhere(sample):
    happens = [sample(flip=True, k_len=3), sample(flip=True, k_len=4, left=0)]
    others = [sample(), sample(flip=True), sample(k_len=3)]
    assert Range(("flip", "q_len < k_len"), 2, 2) == range_of(happens, others)


def test_a_range_says_on_how_many_such_cases_it_does_not_happen(sample):
    found = range_of([sample(flip=True)], [sample(flip=True, left=3), sample()])
    assert (("flip",), 1, 2) == (found.conditions, found.cases, found.such)


def test_what_the_smallest_case_is_without_is_no_condition(sample):
    happens = [sample(flip=True, left=3), sample(flip=True, left=0)]
    assert "flip" == str(range_of(happens, [sample()], sample(flip=True)))


def test_sizes_that_are_equal_on_few_cases_say_nothing(sample):
    assert "" == str(range_of([sample(depth=1)], [sample()]))
    assert "depth = 1" == str(range_of([sample(depth=1)] * 4, [sample()]))


def test_nothing_tells_where_everything_happens(sample):
    assert Range((), 1, 1) == range_of([sample(flip=True)], [])
