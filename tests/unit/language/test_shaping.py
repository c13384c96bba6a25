"""Which shapes functions return, and along which axes they compute."""

from __future__ import annotations

import pytest

from attnspec.language.labels import AlongError

from .test_axes import axes_of


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("sum(x)", ("rows",)),
        ("max(x, keep = true)", ("rows", "1")),
        ("permute(x, 1, 0)", ("n", "rows")),
        ("gather(x, range(n), 1)", ("rows", "n")),
        ("concat(x, x)", ("rows", "")),
        ("reshape(x, rows, n, 1)", ("rows", "n", "1")),
        ("full(0.0, rows, 3)", ("rows", "")),
        ("stored(x)", ("rows", "n")),
        ("sum_ahead(1, x)", ("rows", "n")),
    ],
)
def test_every_axis_of_a_result_has_its_size(text, shape):
    assert {shape} == axes_of((), line=text).shapes("line")


@pytest.mark.parametrize(
    "text",
    [
        "sum(x, 0)",
        "cumsum(x, 0)",
        "sum_ahead(1, transpose(x))",
        "reshape(x, rows * n)",
        "concat(x, x, 0)",
        "all(x > 0)",
        "repeat(x, 2, 0)",
        "average(transpose(x), x)",
        "sum_like(x, full(0.0, n))",
        "identical(x, x)",
    ],
)
def test_a_function_does_not_go_along_a_restricted_axis(text):
    with pytest.raises(AlongError, match="the axis rows cannot be restricted"):
        axes_of({"rows"}, line=text).shapes("line")


def test_copies_of_groups_are_an_axis_where_it_is_a_multiple_of_them():
    divided = axes_of({"wide"}, divisible=[("wide", "groups")], line="repeat(z, wide // groups, 0)")
    assert {("wide", "n")} == divided.shapes("line")
    assert {("", "n")} == axes_of({"wide"}, line="repeat(z, wide // groups, 0)").shapes("line")
