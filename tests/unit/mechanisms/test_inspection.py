"""Small readings of expressions: defaults, fallbacks, shapes, printed digits and cycles."""

import ast
import math

import numpy as np
import pytest

from attnspec.errors import Place, SpecError
from attnspec.language.expressions import Expression
from attnspec.language.scopes import Scope
from attnspec.mechanisms.inspection import NO_DEFAULT, asking, default_of, fallback, find_cycle, printed, shape_names

SIZES = ("batch", "heads", "n")
SCOPE = Scope(frozenset({*SIZES, "x", "a", "b"}), {"zeros": "empty_row"}, frozenset({"out"}), draws=True)


def expression(text):
    return Expression(text, SCOPE)


@pytest.mark.parametrize(
    ("text", "default"),
    [
        ("3", 3),
        ("-0.5", -0.5),
        ("true", True),
        ("none", None),
        ("infinity", math.inf),
        ("-infinity", -math.inf),
        ("zeros", "zeros"),
        ("choice(none, 1.0, 0.3)", None),
        ("choice(false, true)", False),
        ("choice(2, 4)", 2),
        ("choice(choice(7, 8), 9)", 7),
        ("maybe(normal(n), 0)", 0),
        ("maybe(normal(n), -infinity)", -math.inf),
        ("maybe(normal(n), true)", True),
        ("choice(maybe(2, 3), 4)", 3),
    ],
)
def test_the_default_is_the_first_choice(text, default):
    found = default_of(expression(text), ("zeros",))
    assert default == found
    assert type(default) is type(found)


@pytest.mark.parametrize(
    "text", ["between(1, 9)", "n", "n + 1", "normal(n)", "choice(n, 2)", "maybe(1, x)", "-n", "-true"]
)
def test_what_is_no_plain_value_has_no_default(text):
    assert NO_DEFAULT is default_of(expression(text), ("zeros",))


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("maybe(normal(n), 0)", "0"),
        ("maybe(x, choice(a, b))", "choice(a, b)"),
        ("normal(n)", None),
        ("2 * maybe(1, 2)", None),
    ],
)
def test_the_fallback_is_the_second_argument_of_an_outermost_maybe(text, other):
    found = fallback(expression(text))
    assert other == (None if found is None else ast.unparse(found))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("normal(batch, heads, n)", ("batch", "heads", "n")),
        ("normal(batch, 2, n)", ("batch", None, "n")),
        ("normal(batch, n + 1)", ("batch", None)),
        ("normal(batch, a)", ("batch", None)),
        ("2 * flags(n, n)", ("n", "n")),
        ("indices(batch, heads, n)", ("heads", "n")),
        ("where(flags(n), 1, 0)", ("n",)),
        ("normal(n) if batch == 2 else normal(batch, n)", ()),
        ("like(x)", ()),
        ("3", ()),
    ],
)
def test_the_shape_of_what_is_drawn_names_its_sizes(text, names):
    assert names == shape_names(expression(text), SIZES)


@pytest.mark.parametrize(
    ("text", "value", "tolerance"),
    [
        ("0.25", 0.25, 0.005),
        ("0.250", 0.25, 0.0005),
        ("-1.5", -1.5, 0.05),
        ("1.", 1.0, 0.5),
        ("1.25e-3", 0.00125, 0.000005),
        ("1.5e2", 150.0, 5.0),
        ("3", 3.0, 0.0),
        ("infinity", math.inf, 0.0),
        ("-infinity", -math.inf, 0.0),
        ("- 2.0", -2.0, 0.05),
        ("0.0e400", 0.0, math.inf),
    ],
)
def test_a_printed_number_is_right_to_half_a_unit_of_its_last_digit(text, value, tolerance):
    found = printed(text, None)
    assert value == found.value
    assert tolerance == pytest.approx(float(found.tolerance), rel=1e-12)


def test_printed_numbers_stand_in_lists():
    found = printed("[[0.5, 1.25], [nan, 3]]", None)
    np.testing.assert_array_equal([[0.5, 1.25], [math.nan, 3.0]], found.value)
    np.testing.assert_allclose([[0.05, 0.005], [0, 0]], found.tolerance)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 3", "s.yaml:4:7: '1/3' is not a printed number"),
        ("[0.5, x]", "s.yaml:4:7: 'x' is not a printed number"),
        ("exp(1.0)", "s.yaml:4:7: 'exp(1.0)' is not a printed number"),
        ("[[1.0, 2.0], [3.0]]", "s.yaml:4:7: printed numbers stand in rows of equal length"),
        ("[]", "s.yaml:4:7: an empty list prints no number"),
        ("[[], []]", "s.yaml:4:7: an empty list prints no number"),
        ("[[1.0], 2.0]", "s.yaml:4:7: printed numbers stand in rows of equal length"),
    ],
)
def test_what_is_not_printed_digits_is_refused(text, message):
    with pytest.raises(SpecError) as caught:
        printed(text, Place("s.yaml", 4, 7))
    assert message == str(caught.value)


@pytest.mark.parametrize(
    ("uses", "circle"),
    [
        ({}, None),
        ({"a": ["b"], "b": ["c"], "c": []}, None),
        ({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": ["elsewhere"]}, None),
        ({"a": ["a"]}, ["a", "a"]),
        ({"a": ["b"], "b": ["a"]}, ["a", "b", "a"]),
        ({"a": ["b"], "b": ["c"], "c": ["d"], "d": ["b"]}, ["b", "c", "d", "b"]),
    ],
)
def test_a_circle_is_a_chain_that_comes_back(uses, circle):
    assert circle == find_cycle(uses)


def test_asking_goes_through_what_others_read():
    texts = {"a": "normal(n)", "b": "out(x = a)", "x": "b + 1", "c": "2 * x", "d": "a + 1"}
    scope = SCOPE.having("c", "d")
    replaceable = Scope(scope.names, scope.words, scope.outputs, frozenset({"x"}), draws=True)
    given = {name: Expression(text, replaceable) for name, text in texts.items()}
    assert frozenset({"b", "x", "c"}) == asking(given)


def test_the_search_for_circles_is_bounded(monkeypatch):
    monkeypatch.setattr("attnspec.mechanisms.inspection.REFERENCES", 10)
    uses = {f"a{i}": {f"a{j}" for j in range(i)} for i in range(9)}
    with pytest.raises(SpecError, match="names use one another more than 10 times"):
        find_cycle(uses)


def test_a_long_chain_is_followed():
    assert find_cycle({f"a{i}": {f"a{i + 1}"} for i in range(20_000)}) is None


def test_only_circles_through_the_starts_are_looked_for():
    uses = {"a": {"a"}, "b": {"c"}, "c": {"b"}}
    assert ["b", "c", "b"] == find_cycle(uses, ["b"])
