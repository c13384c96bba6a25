"""Which axes an expression works on, read from its text."""

from __future__ import annotations

import pytest

from attnspec.language.axes import Axes
from attnspec.language.expressions import Expression
from attnspec.language.labels import AlongError
from attnspec.language.scopes import Scope

SIZES = ("rows", "n", "groups", "wide")
DRAWN = {
    "x": "normal(rows, n)",
    "y": "maybe(normal(choice(rows, 1), n), 0)",
    "z": "normal(groups, n)",
    "kept": "between(0, n)",
}


def axes_of(restricted, optional=(), divisible=(), words=("first", "second"), **lines):
    scope = Scope(frozenset({*SIZES, *DRAWN, *lines, "order"}), dict.fromkeys(words, "order"))
    drawn = {name: Expression(text, Scope(frozenset(SIZES), draws=True)) for name, text in DRAWN.items()}
    definition = {name: Expression(text, scope) for name, text in lines.items()}
    return Axes(definition, drawn, optional, SIZES, restricted, divisible, {*words, "order"})


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("x + 1", ("rows", "n")),
        ("x @ transpose(x)", ("rows", "rows")),
        ("x[:, none]", ("rows", "1", "n")),
        ("x[..., none, :2]", ("rows", "1", "")),
        ("range(rows)[:, none] - range(n)", ("rows", "n")),
    ],
)
def test_every_axis_has_its_size(text, shape):
    assert {shape} == axes_of((), line=text).shapes("line")


@pytest.mark.parametrize(
    "text",
    [
        "transpose(x) @ x",
        "x[1:]",
        "x[0]",
        "x + full(0.0, wide, 1)",
    ],
)
def test_what_goes_along_a_restricted_axis_is_refused(text):
    with pytest.raises(AlongError, match="the axis rows cannot be restricted"):
        axes_of({"rows"}, line=text).shapes("line")


def test_a_branch_knows_what_it_has_asked_to_be_single():
    found = axes_of((), optional=("y",), line="y if single(y) else y[:, none]")
    assert frozenset({(), ("n", "1"), ("rows", "1", "n")}) == found.shapes("line")
    assert {(), ("n",), ("rows", "n")} == found.shapes("y")


def test_an_optional_input_may_come_with_fewer_axes():
    assert {(), ("n",), ("rows", "n")} == axes_of((), optional=("y",)).shapes("y")


def test_the_first_entries_of_an_axis_are_counted_by_an_option():
    assert {("rows", "kept")} == axes_of({"rows"}, line="x[:, :kept]").shapes("line")
    assert {("rows", "")} == axes_of({"rows"}, line="x[:, kept:]").shapes("line")
    assert {("rows", "")} == axes_of({"rows"}, line="x[:, :groups]").shapes("line")
    with pytest.raises(AlongError, match="it is cut"):
        axes_of({"n"}, line="x[:, :kept]").shapes("line")


def test_a_word_may_leave_out_what_cannot_be_restricted():
    assert {()} == axes_of({"rows"}, line="order == first and any(x > 0)").shapes("line")
    with pytest.raises(AlongError):
        axes_of({"rows"}, a="sum(x) > 0", line="x if any(a) else 2 * x").shapes("line")
