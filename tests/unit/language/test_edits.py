"""A text is edited in one place, into every text that a slip may have made of it."""

import pytest

from attnspec.language.edits import PLAIN, RARE, all_renamed, edits, lean, renamed


def texts(text, **others):
    return {edit.text: edit.cost for edit in edits(text, others)}


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        ("head_dim ** -0.5", "head_dim ** 0.5"),
        ("column <= row", "column < row"),
        ("column <= row", "column <= row + 1"),
        ("column <= row", "column >= row"),
        ("row - column", "row + column"),
        ("row - column", "column - row"),
        ("in_past and mask", "in_past"),
        ("in_past and mask", "in_past or mask"),
        ("not causal", "causal"),
        ("capped + bias", "capped"),
        ("capped + bias", "capped + bias + bias"),
        ("a if causal else b", "b"),
        ("softcap * tanh(x / softcap)", "tanh(x / softcap)"),
        ("softcap * tanh(x / softcap)", "softcap * (x / softcap)"),
        ("repeat(k, groups, 1)", "tile(k, groups, 1)"),
        ("repeat(k, groups, 1)", "repeat(k, groups, 2)"),
        ("sum(terms, keep = true)", "sum(terms)"),
        ("range(n)", "range(n) + 1"),
        ("where(left, x, 0)", "x"),
        ("x ** 2", "x ** 3"),
        ("average(w, v)", "(w / sum(w, keep = true)) ** 2 @ v"),
        ("average(w, v)", "where(w / sum(w, keep = true) < 0.01, 0, w / sum(w, keep = true)) @ v"),
        ("average(w, v)", "average(where(w / sum(w, keep = true) < 0.01, 0, w), v)"),
    ],
)
def test_a_slip_is_among_the_edits(text, edited):
    assert edited in texts(text)


def test_a_name_is_taken_for_those_that_are_given_and_no_other():
    found = texts("head_dim ** -0.5", head_dim=["value_dim"])
    assert found["value_dim ** -0.5"] == RARE
    assert "scale ** -0.5" not in found


def test_the_cheapest_come_first_and_no_text_comes_twice():
    found = edits("not causal or column <= row", {})
    assert [edit.cost for edit in found] == sorted(edit.cost for edit in found)
    assert len({edit.text for edit in found}) == len(found)
    assert found[0].cost == PLAIN


def test_what_is_exchanged_keeps_its_place_among_operators():
    assert "(a + b) / c" in texts("(a + b) * c")
    assert "c * (a - b)" in texts("c * (a + b)")


def test_a_change_is_shown_with_what_is_around_it_as_far_as_there_is_room():
    whole = "softcap * tanh(scaled / softcap) if softcap != none else scaled"
    edit = next(edit for edit in edits(whole, {}) if edit.after == "scaled * softcap")
    assert edit.within(whole, 16) == ("scaled / softcap", "scaled * softcap")
    assert edit.within(whole, 40) == ("softcap * tanh(scaled / softcap)", "softcap * tanh(scaled * softcap)")


def test_every_change_of_an_index_is_shown_as_an_expression():
    whole = "concat(0 * running[:, :, :1], running[:, :, :-1], 2)"
    shown = [edit.within(whole, room) for edit in edits(whole, {}) for room in (4, 12, 40)]
    assert [] == [text for pair in shown for text in pair if text.startswith(":")]
    assert ("running[:, :, :-1]", "running[:, :, :1]") in shown


def test_parentheses_that_change_nothing_are_left_out():
    assert lean("(not a) and ((b <= c))") == "not a and b <= c"
    assert lean("(a + b) * c") == "(a + b) * c"


def test_a_name_is_replaced_wherever_it_is_read():
    assert renamed("tanh(x / c) + xs * x", "x", "total") == "tanh(total / c) + xs * total"


def test_several_names_are_exchanged_at_once():
    assert "max(b) + (log(a))" == all_renamed("max(a) + b", {"a": "b", "b": "(log(a))"})


def test_a_text_with_other_parentheses_alone_is_no_edit():
    assert "a + b" not in texts("(a + b)")
    assert "x + y * z" not in texts("x + (y * z)")


def test_of_two_ways_to_compute_something_one_that_is_edited_stands_for_both():
    found = texts("2 * either(a + b, stored(c))").keys()
    assert {"2 * (a - b)", "2 * a", "2 * c"} <= found
    assert [] == [text for text in found if "either(" in text.replace("either(a + b, stored(c))", "")]
    assert not {"2 * (a + b)", "2 * stored(c)"} & found
