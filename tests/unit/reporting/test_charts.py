"""Numbers as shapes."""

import math

import pytest

from attnspec.reporting.charts import (
    GAP,
    PER_DECADE,
    WIDTH,
    bars,
    cloud,
    number,
    room,
    shares,
    spark,
    spread,
    ticks,
)


def test_bars_are_parts_of_the_largest_which_comes_first():
    found = bars({"a": 1.0, "b": 4.0}, {"a": "one", "b": "four"})
    assert [("b", WIDTH, "four"), ("a", WIDTH // 4, "one")] == [(bar.name, bar.share, bar.says) for bar in found]


def test_parts_of_wholes_say_whether_they_are_whole_and_what_has_none_is_left_out():
    found = shares([("a", 1, 2, "seen"), ("b", 3, 3, "seen"), ("c", 0, 0, "seen")])
    assert [("a", 500, "1 of 2 seen", "bad"), ("b", 1000, "3 of 3 seen", "good")] == [
        (bar.name, bar.share, bar.says, bar.kind) for bar in found
    ]


@pytest.mark.parametrize(("x", "beyond"), [(1e-9, False), (0.5, False), (1.0, False), (1.01, True), (None, True)])
def test_an_error_stands_beyond_the_bound_if_it_is_larger(x, beyond):
    assert [beyond] == [column.beyond for column in spread("float32", [x]).columns]


def test_cells_with_errors_of_one_size_stand_in_one_column_and_those_without_any_in_none():
    found = spread("float32", [0.5, 0.51, 3.0, 0.0])
    assert ("2 of 3 within their bounds", [100, 50]) == (found.says, [column.height for column in found.columns])
    assert "2 cells at 0.32 to 0.56 × the bound" == found.columns[0].says
    assert None is spread("float32", [0.0])


def test_the_bound_is_in_the_middle_of_the_scale():
    assert ("the bound", WIDTH // 2) == (ticks()[2].text, ticks()[2].x)
    first = spread("float32", [10 ** (0.5 / PER_DECADE)]).columns[0]
    assert WIDTH // 2 == first.x


@pytest.mark.parametrize(
    ("x", "text"), [(0, "0"), (0.25, "0.25"), (0.001, "1e-03"), (12.345, "12.3"), (2.7e7, "3e+07"), (None, "∞")]
)
def test_an_error_is_told_in_few_characters(x, text):
    assert text == number(x)
    assert "∞" == number(math.inf)


COUNTS = [3, 0, *[0] * 12, 2, 4, 1]
"""As in a record: without any error, and by quarters of a power of ten up to the bound."""


def test_entries_are_drawn_by_how_much_of_their_bounds_they_take():
    found = room("float32", COUNTS)
    assert "10 entries, 10% of them beyond 0.56 × the bound" == found.says
    assert [50, 100, 25] == [column.height for column in found.columns]
    assert (WIDTH, False) == (
        found.columns[-1].x + found.columns[-1].width + GAP,
        found.columns[-1].beyond,
    )


def test_columns_are_drawn_as_one_path_within_the_bound_and_one_beyond_it():
    found = spread("float32", [0.5, 0.5, 20.0])
    (within, left), (beyond, right) = found.outlines
    low, high = found.columns
    assert (False, True) == (within, beyond)
    assert (f"M{low.x} 100v-100h{low.width}v100z", f"M{high.x} 100v-50h{high.width}v50z") == (left, right)


def test_entries_without_any_error_are_no_drawing():
    assert (None, None, "") == (room("x", [5, 0, 0]), room("x", []), spark([5, 0, 0]))


def test_a_small_drawing_goes_up_and_down_with_the_counts():
    assert "M0 8V4h1V0h1V8h1V8z" == spark([9, 1, 2, 0])


def test_a_cloud_has_the_bound_above_and_what_is_small_below():
    found = cloud("x", [(0.0, 1.0, "a"), (1.0, 1e-9, "b"), (0.5, 0.0, "c")], ("1", "2", "3"))
    assert [(20, 6, "a"), (980, 94, "b"), (500, 94, "c")] == [(dot.x, dot.y, dot.says) for dot in found.dots]
    assert "3 cases, at most 1.00 × the bound" == found.says


def test_one_case_is_no_cloud():
    assert None is cloud("x", [(0.0, 1.0, "a")], ())
