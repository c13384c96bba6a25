"""A failure is known by its law, by the calls that it makes, and by what it says; a law goes on after it."""

import pytest
import torch

from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.judging.recognition import Mark, scope_of
from attnspec.judging.shrinking import made_small
from attnspec.language.expressions import Expression
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

SOFTMAX = library()["softmax"]
ONE_ENTRY = Expression("n == 1", scope_of(SOFTMAX))
MARK = Mark("one-entry", frozenset({"definition"}), ONE_ENTRY)


def single_entries(x):
    """Wrong where there is one entry."""
    return torch.softmax(x, -1) * (0.5 if x.shape[-1] == 1 else 1.0)


def single_entries_and_triples(x):
    """Wrong where there are one or three."""
    return torch.softmax(x, -1) * (0.5 if x.shape[-1] in (1, 3) else 1.0)


def result_of(function, *marks):
    one = subject(Adapter("function", "softmax", function, "torch"))
    return run(Request(one, SOFTMAX, "float32", PROFILES["quick"], marks=marks))


def definition(result):
    return next(cell for cell in result.cells if cell.law == "definition")


def test_a_failure_that_meets_the_condition_is_known():
    assert ("fail", "one-entry") == (
        definition(found := result_of(single_entries, MARK)).verdict,
        definition(found).finding,
    )


def test_a_new_fault_is_found_behind_the_known_one():
    cell = definition(result_of(single_entries_and_triples, MARK))
    assert ("fail", "", 3) == (cell.verdict, cell.finding, cell.failure.sample.values["n"])


@pytest.mark.parametrize(
    ("function", "finding", "entries"), [(single_entries, "one-entry", 1), (single_entries_and_triples, "", 3)]
)
def test_a_failure_stays_what_it_is_while_it_is_made_small(function, finding, entries):
    result = result_of(function, MARK)
    small = made_small(definition(result).failure, result)
    assert (finding, entries) == (small.finding, small.sample.values["n"])


@pytest.mark.parametrize(
    "mark",
    [
        Mark("other-law", frozenset({"order"}), ONE_ENTRY),
        Mark("other-words", frozenset({"definition"}), ONE_ENTRY, shows="is NaN"),
        Mark("other-calls", frozenset({"definition"}), Expression("n == 2", scope_of(SOFTMAX))),
    ],
)
def test_what_the_mark_does_not_say_is_new(mark):
    assert "" == definition(result_of(single_entries, mark)).finding


def test_a_condition_that_a_case_met_is_told_though_nothing_fails():
    right = result_of(lambda x: torch.softmax(x, -1), MARK)
    assert ("pass", frozenset({"one-entry"})) == (definition(right).verdict, right.met)
