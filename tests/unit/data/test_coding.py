"""Dataclasses in plain data, and back: what does not fit the types of their fields is refused, whatever it is."""

import os
import random
from dataclasses import fields

import msgpack
import numpy as np
import pytest

from attnspec.data.coding import MisfitError, read, written
from attnspec.data.exact import Foreign
from attnspec.execution.calling import Breach, Call, Interface, Reply
from attnspec.execution.faults import Fault
from attnspec.execution.messages import (
    Answer,
    Ask,
    Begin,
    Declared,
    Ended,
    Load,
    Made,
    Make,
    Open,
    Opened,
    Refused,
    Start,
    Status,
)

ARRAYS = {
    "scalar": np.array(0.25),
    "truth": np.array(True),
    "empty": np.zeros((2, 0, 3)),
    "whole": np.arange(6, dtype=np.int64).reshape(2, 3),
    "bytes": np.arange(6, dtype=np.uint8),
    "truths": np.array([True, False]),
    "halves": np.arange(3, dtype=np.float16),
    "turned": np.arange(12.0).reshape(3, 4).T,
    "repeated": np.broadcast_to(np.arange(3.0), (4, 3)),
    "large": np.arange(5000.0).reshape(50, 100),
    "large_and_turned": np.arange(5000.0).reshape(50, 100).T,
}
CALL = Call(
    ARRAYS, {"scale": 0.5, "causal": True, "shape": (2, 3), "none": None}, "bfloat16", "cuda:0", "strided", True
)
REPLY = Reply(ARRAYS, (Breach("dtype", "another"),), Fault("raised", "it", "trace"))
INTERFACE = Interface("attention", ("q", "k"), ("out",), {"mask": "bool"}, frozenset({"k"}))
START = Start("torch", "a/\udcff.py", "/home", (1, 2), (("HOME", "/"), ("X", "\udc80")), False)
MESSAGES = [
    Load(START, ("/lib", "/usr/lib")),
    Declared("kernel"),
    Begin((("A", "b"),), True),
    Ended(7),
    Status(7, (9,)),
    Status(7, ()),
    Refused("TargetError", "no such file"),
    Ask(1, Open(3, "module", "path", "name", "numpy", INTERFACE)),
    Ask(2, Make(3, CALL)),
    Answer(1, 77, Opened()),
    Answer(2, 77, Made(REPLY, 1 << 40)),
    Answer(2, 77, Made(Reply(), 0)),
    Answer(2, 77, Refused("Error", "it cannot be")),
]


def carried(message):
    data = msgpack.packb(written(message), strict_types=True, unicode_errors="surrogatepass")
    return read(msgpack.unpackb(data, unicode_errors="surrogatepass"), (type(message),))


def same(x, y):
    """Whether two values are the same, in the same types."""
    assert type(x) is type(y)
    if isinstance(x, np.ndarray):
        np.testing.assert_array_equal(x, y, strict=True)
    elif hasattr(x, "__dataclass_fields__"):
        assert all(same(getattr(x, f.name), getattr(y, f.name)) for f in fields(x))
    elif isinstance(x, dict):
        assert list(x) == list(y)
        assert all(same(x[name], y[name]) for name in x)
    else:
        assert x == y
    return True


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_message_arrives_as_it_is(message):
    assert same(message, carried(message))


class Number(float):
    """A number, and code along with it."""


def test_options_arrive_in_exact_types():
    call = Call({}, {"a": np.float64(0.5), "b": Number(2.0), "c": 2**70, "d": object(), "e": np.bool_(True)}, "float32")
    options = carried(call).options
    assert [float, float, int, Foreign, bool] == [type(x) for x in options.values()]
    assert [0.5, 2.0, 2**70, True] == [options[name] for name in "abce"]


@pytest.mark.parametrize(
    "array",
    [np.array([object()]), np.array(["text"]), np.zeros(2, "c16"), np.zeros(2, ">f8")],
    ids=["object", "text", "complex", "big_endian"],
)
def test_arrays_of_anything_but_numbers_are_not_written(array):
    with pytest.raises(TypeError, match="cannot be sent"):
        written(Reply({"out": array}))


def damaged(data, rng):
    """Plain data with one part exchanged, left out or doubled, wherever it is."""
    if isinstance(data, (list, dict)) and data and rng.random() < 0.8:
        places = list(data) if isinstance(data, dict) else range(len(data))
        place = rng.choice(list(places))
        if isinstance(data, dict):
            return {**data, place: damaged(data[place], rng)}
        return [*data[:place], damaged(data[place], rng), *data[place + 1 :]]
    if isinstance(data, list) and rng.random() < 0.3:
        return [*data, None] if rng.random() < 0.5 else data[:-1]
    return rng.choice(
        [None, True, -1, 2**63, 0.5, "x", b"x", [], {}, ["Call"], ["range", 1], ["int", "x"], ["d", [2], b""]]
    )


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_what_does_not_fit_is_refused_and_nothing_else_comes_of_it(message):
    rng = random.Random(0)
    refusals = 0
    for _ in range(500):
        data = msgpack.unpackb(
            msgpack.packb(written(message), unicode_errors="surrogatepass"), unicode_errors="surrogatepass"
        )
        try:
            assert type(message) is type(read(damaged(data, rng), (type(message),)))
        except MisfitError:
            refusals += 1
    assert 100 < refusals or len(fields(message)) < 2


@pytest.mark.parametrize(
    "data",
    [
        ["d", [2], bytes(15)],
        ["d", [-1, -2], bytes(16)],
        ["d", [1 << 62, 4], b""],
        ["O", [1], bytes(8)],
        ["d", [2.0], bytes(16)],
        ["d", "2", bytes(16)],
        ["d", [0] * 100, b""],
        ["d", [2], "text"],
    ],
)
def test_an_array_whose_parts_do_not_fit_is_refused(data):
    with pytest.raises(MisfitError):
        read(["Reply", {"out": data}, [], None], (Reply,))


def test_truths_are_zero_or_one_whatever_their_bytes_are():
    (out,) = read(["Reply", {"out": ["?", [3], b"\x00\x02\xff"]}, [], None, 0.0], (Reply,)).outputs.values()
    assert [0, 1, 1] == out.view(np.uint8).tolist()


def test_a_message_of_another_kind_is_refused():
    with pytest.raises(MisfitError):
        read(written(Ended(os.getpid())), (Status, Refused))
