"""Values in exact types, whatever a subject makes of its own."""

import enum

import numpy as np
import pytest

from attnspec.data.exact import ROOM, Foreign, exact, exact_text, is_numbers, plain_or_none, read, written


class Number(int):
    def __int__(self):
        raise RuntimeError("code of a subject")

    __index__ = __eq__ = __hash__ = __repr__ = __str__ = __int__


class Fraction(float):
    def __float__(self):
        raise RuntimeError("code of a subject")

    __eq__ = __hash__ = __repr__ = __str__ = __float__


class Text(str):
    __slots__ = ()

    def __str__(self):
        raise RuntimeError("code of a subject")

    __hash__ = str.__hash__
    __eq__ = __repr__ = __getitem__ = __iter__ = __str__


class Choice(enum.IntEnum):
    ONE = 1


class Liar:
    """One that says that it is a number."""

    @property
    def __class__(self):
        return int

    def __repr__(self):
        raise RuntimeError("code of a subject")


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (Number(3), 3),
        (Fraction(0.5), 0.5),
        (Text("word"), "word"),
        (Choice.ONE, 1),
        (True, True),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.int64(3), 3),
        (np.arange(3), [0, 1, 2]),
        ((Number(1), [Text("a")]), (1, ["a"])),
        ({Text("a"): Number(1)}, {"a": 1}),
        (range(1, 2**31), range(1, 2**31)),
    ],
    ids=lambda x: type(x).__name__,
)
def test_a_value_of_any_kind_becomes_one_of_an_exact_type(x, expected):
    found = exact(x)
    assert (expected, type(expected)) == (found, type(found))
    assert expected == read(written(found))


@pytest.mark.parametrize(
    "x", [Liar(), object(), print, np.array([object()]), np.zeros(ROOM + 1), [0] * (ROOM + 1)], ids=lambda x: "x"
)
def test_what_is_no_plain_value_is_its_type_and_its_text(x):
    found = exact(x)
    assert (Foreign, True, None) == (type(found), bool(found.says), plain_or_none(x))
    assert repr(found) == repr(read(written(found)))


def test_what_holds_itself_or_too_much_comes_to_an_end():
    own = []
    own.append(own)
    doubled = [1]
    for _ in range(15):
        doubled = [doubled] * 100
    assert list is type(exact(own))
    assert "(list that holds too much)" == exact(doubled).says


@pytest.mark.parametrize(
    ("x", "numbers"),
    [
        ([0.5, 1], True),
        ([1.0], True),
        ([], False),
        ((0.5, 1), False),
        ([True], False),
        ([Number(1)], False),
        (1, False),
    ],
)
def test_numbers_are_a_list_of_nothing_else(x, numbers):
    assert numbers is is_numbers(x)


def test_a_text_is_of_an_exact_type():
    class Said(Exception):
        def __str__(self):
            return Kind("word")

    class Kind(str):
        __slots__ = ()

    assert str is type(exact_text(Said()))


@pytest.mark.parametrize(
    "data", [["int"], ["range", 1], ["dict", 1], ["dict", [], 1], ["list", b""], ["set", ["list"]], {}]
)
def test_what_is_written_otherwise_is_refused(data):
    with pytest.raises((ValueError, TypeError, LookupError)):
        read(data)
