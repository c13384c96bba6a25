"""Strict YAML: every scalar is text with its place, and whatever YAML would guess at is refused."""

import ast
import os
from pathlib import Path

import pytest

from attnspec.errors import Place, SpecError
from attnspec.mechanisms.documents import Text, parse, read
from attnspec.numerics.budget import FILE_BYTES, NESTING


def refusal(text):
    with pytest.raises(SpecError) as caught:
        parse(text, "s.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    "scalar",
    ["no", "yes", "on", "true", "null", "~", "1e-5", "1.5e3", "0o7", "010", "1_000", "12:30:45", "2024-01-01", ".inf"],
)
def test_a_scalar_is_the_text_that_was_written(scalar):
    assert {"a": scalar} == parse(f"a: {scalar}\n", "s.yaml")


@pytest.mark.parametrize("key", ["no", "on", "010", "1e-5", "<<"])
def test_a_key_is_the_text_that_was_written(key):
    assert [key] == list(parse(f"{key}: x\n", "s.yaml"))


def test_a_missing_value_is_an_empty_text():
    assert {"a": "", "b": "x"} == parse("a:\nb: x\n", "s.yaml")


def test_quotes_are_taken_off_and_mean_nothing_else():
    assert {"a": "no", "b": "1", "c": "it's", "d": "[x]"} == parse("a: 'no'\nb: \"1\"\nc: 'it''s'\nd: '[x]'", "s.yaml")


def test_folded_lines_are_one_text():
    assert {"a": "one two", "b": "x"} == parse("a: >-\n  one\n  two\nb: x # a comment\n", "s.yaml")


def test_lists_and_mappings_are_plain_ones():
    assert {"a": ["x", "y"], "b": {"c": {"d": "1"}}} == parse("a: [x, y]\nb:\n  c: {d: 1}\n", "s.yaml")


def test_keys_and_values_know_their_places():
    document = parse("a: x\nb:\n  - y\n  - 'z'\nc: {d: w}\n", "s.yaml")
    keys = [str(key.place) for key in document]
    values = [document["a"], *document["b"], document["c"]["d"]]
    assert ["s.yaml:1:1", "s.yaml:2:1", "s.yaml:5:1"] == keys
    assert ["s.yaml:1:4", "s.yaml:3:5", "s.yaml:4:6", "s.yaml:5:8"] == [str(value.place) for value in values]


def test_a_text_over_several_lines_knows_the_place_of_every_word():
    text = "a:\n  b: one + two,\n      three\n    + four   \n\n"
    found = parse(text, "s.yaml")["a"]["b"]
    words = {word: found.place.right(found.index(word)) for word in ("one", "two", "three", "four")}
    assert "one + two, three + four" == found
    expected = {"one": (2, 6), "two": (2, 12), "three": (3, 7), "four": (4, 7)}
    assert {word: Place("s.yaml", *place) for word, place in expected.items()} == words
    assert words["four"] == found.place.right(found.index("two")).right(len("two, three + "))


def test_the_place_of_a_quoted_text_is_that_of_its_first_letter():
    assert Place("s.yaml", 1, 5) == parse("a: 'x'\n", "s.yaml")["a"].place


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: *x\n", "s.yaml:1:4: YAML reads a value that starts with '*' as an alias; quote it"),
        ("a: &x 1\n", "s.yaml:1:4: YAML reads a value that starts with '&' as an anchor; quote it"),
        ("a:\n  - &x b\n", "s.yaml:2:5: YAML reads a value that starts with '&' as an anchor; quote it"),
        ("&x a: 1\n", "s.yaml:1:1: YAML reads a value that starts with '&' as an anchor; quote it"),
        ("b: {a: !!int 1}\n", "s.yaml:1:8: YAML reads a value that starts with '!' as a tag; quote it"),
        ("!set\na: 1\n", "s.yaml:1:1: YAML reads a value that starts with '!' as a tag; quote it"),
    ],
)
def test_aliases_anchors_and_tags_are_refused(text, message):
    assert message == refusal(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "s.yaml:3:1: 'a' is given twice"),
        ("a:\n  x: 1\n  x: 1\n", "s.yaml:3:3: 'x' is given twice"),
        ("a: {b: c, 'b': d}\n", "s.yaml:1:12: 'b' is given twice"),
    ],
)
def test_a_key_given_twice_is_refused_where_it_is_repeated(text, message):
    assert message == refusal(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a:\n\tb: 1\n",
            "s.yaml:2:1: not YAML: found character '\\t' that cannot start any token (indent with spaces)",
        ),
        ("a: @x\n", "s.yaml:1:4: not YAML: found character '@' that cannot start any token (quote it)"),
        (
            "a: b: c\n",
            "s.yaml:1:5: not YAML: mapping values are not allowed here"
            " (quote a text that holds a colon followed by a space)",
        ),
        (
            "a: 1\n---\nb: 2\n",
            "s.yaml:2:1: not YAML: expected a single document in the stream, but found another document",
        ),
        ("a: 'x\n", "s.yaml:2:1: not YAML: found unexpected end of stream"),
        ("a: [1\nb: 2\n", "s.yaml:2:2: not YAML: expected ',' or ']', but got ':'"),
        ("a: 1\nb: \x01\n", "s.yaml:2:4: not YAML: '\\x01' is not a character of a text"),
        ('a: "\\U00110000"\n', "s.yaml:1:7: not YAML: an escape that represents no character"),
    ],
)
def test_what_is_not_yaml_is_refused_at_its_place(text, message):
    assert message == refusal(text)


@pytest.mark.parametrize("text", ["", "# nothing\n", "- a\n- b\n", "just text\n"])
def test_a_document_that_is_no_mapping_is_refused(text):
    assert "s.yaml:1:1: a specification is a mapping: `mechanism: name`, and so on" == refusal(text)


@pytest.mark.parametrize("text", ["[a, b]: 1\n", "? {a: b}\n: 1\n"])
def test_a_key_that_is_no_word_is_refused(text):
    assert "s.yaml:1:1: a key is a word" == refusal(text)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("a: " + "[" * 31 + "]" * 31, 34),
        ("a: " + "[" * 4000, 34),
        ("a: " + "{a: " * 4000, 121),
        ("[" * 200_000, 32),
        ("- " * 100_000, 63),
        ("? " * 100_000, 63),
    ],
)
def test_deep_nesting_is_refused_at_its_place(text, column):
    assert f"s.yaml:1:{column}: nested too deeply" == refusal(text)


def test_nesting_up_to_the_limit_is_read():
    text = "[" * NESTING + "]" * NESTING
    assert {"a": ast.literal_eval(text)} == parse(f"a: {text}", "s.yaml")


def test_a_file_is_read_under_the_name_that_messages_give_it(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("a: ä\n", "utf-8")
    document = read(path, "specs/s.yaml")
    assert {"a": "ä"} == document
    assert "specs/s.yaml:1:4" == str(document[Text("a")].place)
    assert Place(str(path), 1, 4) == read(path)["a"].place


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: caf\xe9\n", "s.yaml:1:7: not UTF-8: the byte 0xe9; save the file as UTF-8"),
        (
            b"a: " + b"x" * FILE_BYTES,
            f"cannot read s.yaml: it has more than {FILE_BYTES:,} bytes, the limit for such a file",
        ),
        (None, "cannot read s.yaml: No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path, content, message):
    path = tmp_path / "s.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SpecError) as caught:
        read(path, "s.yaml")
    assert message == str(caught.value)


def test_what_never_ends_or_begins_is_not_waited_for(tmp_path):
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(SpecError) as caught:
            read(path, "s.yaml")
        assert "cannot read s.yaml: not a file, but a pipe, a socket or a device" == str(caught.value)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(SpecError, match="cannot read here: not a file, but a folder"):
        read(tmp_path, "here")
