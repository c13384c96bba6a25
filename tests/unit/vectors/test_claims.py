"""Laws are taken apart into comparisons."""

import numpy as np
import pytest

from attnspec.language.expressions import Expression
from attnspec.language.scopes import Scope, Values
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.mechanism import Law
from attnspec.vectors.claims import comparisons

SCOPE = Scope(frozenset({"x", "c"}), outputs=frozenset({"out"}), replaceable=frozenset({"x"}))


def law(text, when="true", asking=()):
    holds, always = (Expression(part, SCOPE, claim=True) for part in (text, when))
    return Law("law", "It holds.", {}, always, holds, "must", "", (), None, frozenset(asking))


def told(text):
    return [(one.kind, one.left.text, one.right.text, one.exact) for one in comparisons(law(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("out(x = x) == out", [("equal", "out(x = x)", "out", False)]),
        ("out <= 2 * out(x = c)", [("at_most", "out", "2 * out(x = c)", False)]),
        ("out >= out(x = c)", [("at_most", "out(x = c)", "out", False)]),
        ("identical(out(x = c), out)", [("equal", "out(x = c)", "out", True)]),
        ("not identical(out(x = c), out)", [("differ", "out(x = c)", "out", True)]),
        ("all(out == c) and c > 0", [("equal", "out", "c", False)]),
        ("out == c and x == out", [("equal", "out", "c", False), ("equal", "x", "out", False)]),
        ("implies(c > 0, out == c)", [("equal", "out", "c", False)]),
        ("out == c or c > 0", [("equal", "out", "c", False)]),
        ("implies(out > 0, out == c)", []),
        ("out == c or out == x", []),
        ("out < c", []),
        ("0 <= out <= c", []),
        ("out == c and any(out > 0)", []),
    ],
)
def test_a_claim_is_its_comparisons(text, expected):
    assert expected == told(text)


def test_a_law_whose_draws_or_condition_ask_for_outputs_is_not_taken_apart():
    assert [] == comparisons(law("out == c", asking=("c",)))
    assert [] == comparisons(law("out == c", when="all(out > 0)"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("implies(c > 0, out == c)", [False, True]),
        ("out == c or c > 0", [True, False]),
        ("implies(c > 0, out == c or x > 0)", [False, False]),
        ("out == c", True),
    ],
)
def test_a_comparison_says_where_it_is_claimed(text, expected):
    values = Values({"c": np.array([-1.0, 1.0]), "x": np.array([1.0, 1.0])}, "float32")
    np.testing.assert_array_equal(expected, comparisons(law(text))[0].where(values))


def test_most_laws_of_attention_are_taken_apart():
    laws = library()["attention"].laws
    assert ["poisoned_query", "merged", "merged_parts"] == [name for name, law in laws.items() if not comparisons(law)]
