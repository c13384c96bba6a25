"""A target that is a command is taken apart."""

import pytest

from attnspec.errors import UsageError
from attnspec.execution.addresses import parted, words_of


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("exec:./k --serve", ("./k --serve", "")),
        ("exec:./k --serve::softmax", ("./k --serve", "softmax")),
        ("exec: ./k :: softmax", ("./k", "softmax")),
    ],
)
def test_a_command_may_name_one_of_its_functions(target, expected):
    assert expected == parted(target)


def test_words_are_those_of_a_shell():
    assert ["./k", "a b", "--serve"] == words_of("./k 'a b' --serve")


@pytest.mark.parametrize(("command", "says"), [("", "exec: is followed by a command"), ("'", "exec:': No closing")])
def test_what_is_no_command_is_told(command, says):
    with pytest.raises(UsageError, match=says):
        words_of(command)
