"""How prose, expressions and columns are laid out."""

import pytest

from attnspec.reporting.typesetting import WIDTH, command, entries, expression, expressions, fitted, prose, terminal

LONG = "where(seeing, average(weights, values), nothing)"


def test_prose_is_broken_between_words_alone():
    assert ["  " + "a-b " * 23 + "a-b", "  a-b"] == prose("a-b " * 24 + "a-b", "  ")


def test_an_expression_that_fits_is_one_line():
    assert ["    a + b"] == expression("a + b", "    ")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            f"{LONG} if some else {LONG} if other else {LONG}",
            [LONG + " if some", f"  else {LONG} if other", f"  else {LONG}"],
        ),
        (f"concat({LONG}, {LONG}, {LONG})", [f"concat({LONG},", f"  {LONG},", f"  {LONG})"]),
        (f"first = {'a' * 80}, second = [1, 2]", [f"first = {'a' * 80},", "  second = [1, 2]"]),
        (f"x = [[{'1, ' * 20}1], [{'2, ' * 20}2]]", [f"x = [[{'1, ' * 20}1],", f"  [{'2, ' * 20}2]]"]),
        (f"f({'a' * 90}, q [batch, n])", [f"f({'a' * 90},", "  q [batch, n])"]),
        (f"{'a' * 90} = 333 + bbb", [f"{'a' * 90} = 333", "  + bbb"]),
        (f"{'a' * 80} + b if some else c + d", [f"{'a' * 80} + b if some", "  else c + d"]),
    ],
)
def test_an_expression_is_broken_before_operators_where_it_holds_together_least(text, lines):
    assert lines == expression(text, "", "  ")


def test_what_cannot_be_broken_is_left_as_it_is():
    assert ["a" * 120] == expression("a" * 120)


def test_names_and_what_they_say_stand_in_columns():
    assert ["    a                    One.", "    b                    Two."] == list(
        entries({"a": "One.", "b": "Two."})
    )
    assert ["    " + "a" * 30 + " One.", "    b" + " " * 30 + "Two."] == list(entries({"a" * 30: "One.", "b": "Two."}))


def test_further_lines_of_a_column_stand_under_the_first():
    first, second = entries({"a": "word " * 15 + "end."})
    assert (" " * 25 + "end.", True) == (second, len(first) <= WIDTH)


def test_names_and_their_expressions_stand_in_columns():
    assert ["    a:  1", "    bc: 2"] == list(expressions({"a": "1", "bc": "2"}, ":"))


class Terminal:
    def isatty(self):
        return True


@pytest.mark.parametrize(("columns", "found"), [("80", 80), ("120", 120), ("7", 40)])
def test_a_page_on_a_terminal_has_its_columns(columns, found, monkeypatch):
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("COLUMNS", columns)
    assert found == terminal()
    assert max(map(len, prose("word " * 60))) <= min(found, WIDTH)
    assert max(map(len, expression("a + " * 60 + "b"))) <= min(found, WIDTH)


def test_in_a_pipe_a_page_has_a_hundred(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert (None, 99) == (terminal(), len(prose("word " * 60)[0]))


def test_a_line_that_is_too_long_is_set_in_where_it_goes_on():
    line = "  " + "word " * 20 + "end"
    assert [line] == fitted(line, None)
    assert [line] == fitted(line, 105)
    assert ["  " + "word " * 8 + "word", "      " + "word " * 8 + "word"] == fitted(line, 50)[:2]


def test_a_command_in_several_lines_may_be_pasted():
    lines = command("attnspec waive q7Kd2A --issue URL --owner NAME", 30)
    assert ["attnspec waive q7Kd2A \\", "    --issue URL --owner NAME"] == lines
    assert ["attnspec waive q7Kd2A"] == command("attnspec waive q7Kd2A", 30)
