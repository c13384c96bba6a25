"""Text from outside is safe to show."""

import pytest

from attnspec.data.texts import safe, safe_lines, told


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("größe 大", "größe 大"),
        ("two\nlines", "two\\nlines"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("lone \ud800", "lone \\ud800"),
        ("left \u202e right", "left \\u202e right"),
        ("nul \0", "nul \\x00"),
    ],
)
def test_what_does_not_print_is_escaped(text, shown):
    assert shown == safe(text)
    assert shown.encode("utf-8")


def test_what_is_too_long_is_cut_and_counted():
    assert "aaaaa ... (4995 more characters)" == safe("a" * 5000, 5)


def test_a_kind_of_str_becomes_a_plain_one():
    class Odd(str):
        __slots__ = ()

    assert str is type(safe(Odd("x")))


def test_of_many_lines_the_last_are_kept_each_of_them_safe():
    assert "... (2 more lines)\n\\x07c\nd" == safe_lines("a\nb\n\x07c\nd", 2)


def test_an_object_without_a_text_is_told_by_its_type():
    class Mute:
        def __str__(self):
            raise ValueError("no")

    assert "(Mute without a text: ValueError)" == told(Mute())
