"""Messages between a run and its workers."""

import pickle
import resource
import socket
import threading
import time

import numpy as np
import pytest

from attnspec.execution import transport
from attnspec.execution.transport import CLOSED, GarbledError, GoneError, Wire


@pytest.fixture
def wires():
    ends = socket.socketpair()
    yield [Wire(end) for end in ends]
    for end in ends:
        end.close()


def sent(wires, message):
    here, there = wires
    sender = threading.Thread(target=here.send, args=(message,))
    sender.start()
    got = there.receive(10.0)
    sender.join()
    return got


@pytest.mark.parametrize("length", [0, 1, 1 << 16, (1 << 16) - 30, 1 << 21])
def test_a_message_of_any_length_arrives(wires, length):
    assert bytes(length) == sent(wires, bytes(length))


def test_messages_that_come_together_are_read_one_by_one(wires):
    here, there = wires
    for number in range(3):
        here.send([number] * number)
    assert [[], [1], [2, 2]] == [there.receive(1.0) for _ in range(3)]


def test_what_has_come_of_a_message_when_time_is_up_is_kept(wires):
    here, there = wires
    here.send("whole")
    data = there.end.recv(1000)
    here.end.sendall(data[:11])
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        there.receive(0.05)
    assert 0.04 < time.monotonic() - started < 5
    here.end.sendall(data[11:])
    assert "whole" == there.receive(1.0)


def test_an_answer_is_slept_for_where_it_does_not_come_soon(wires):
    started = time.thread_time()
    with pytest.raises(TimeoutError):
        wires[1].receive(0.2)
    assert time.thread_time() - started < 0.1


def test_answers_are_looked_out_for_less_often_where_that_is_in_vain(wires, monkeypatch):
    monkeypatch.setattr(transport, "SOON", 50_000_000)
    here, there = wires
    asleep = []
    for wait in (0.0, 0.2, 0.0, 0.2, 0.0, 0.0):
        threading.Timer(wait, here.send, [wait]).start()
        assert wait == there.receive(5.0)
        asleep.append(there._asleep)
    assert [0, 1, 0, 3, 2, 1] == asleep


def test_a_message_that_nobody_takes_is_given_up(wires):
    with pytest.raises(TimeoutError):
        wires[0].send(bytes(1 << 24), seconds=0.05)


@pytest.mark.parametrize("part", [b"", b"\x05\x00", (3).to_bytes(8, "little") + b"ab"])
def test_another_side_that_ends_is_gone(wires, part):
    here, there = wires
    here.end.sendall(part)
    here.close()
    with pytest.raises(GoneError, match=CLOSED):
        there.receive(1.0)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ((3).to_bytes(8, "little") + b"abc", "sent unreadable data"),
        (b"a line of text", "sent an invalid message"),
    ],
)
def test_what_is_no_message_is_as_good_as_gone(wires, data, says):
    here, there = wires
    here.end.sendall(data)
    with pytest.raises(GarbledError, match=says):
        there.receive(1.0)


class Number(int):
    """An integer, and code along with it."""


class Text(str):
    """A text, and code along with it."""


@pytest.mark.parametrize(
    "x",
    [Number(1), Text("one"), [Number(1)], {Text("one"): 1}, (1, 2), {1}, object(), print, np.float64(1.0)],
    ids=lambda x: type(x).__name__,
)
def test_nothing_but_exact_types_is_sent(wires, x):
    here, there = wires
    with pytest.raises(TypeError):
        here.send(x)
    here.send("next")
    assert "next" == there.receive(1.0)


def test_names_of_files_that_are_no_text_arrive(wires):
    assert {"\udcff": "\ud800"} == sent(wires, {"\udcff": "\ud800"})


def test_a_message_beyond_all_measure_is_not_sent(wires, monkeypatch):
    monkeypatch.setattr(transport, "MOST", 1 << 10)
    with pytest.raises(ValueError, match="cannot be sent"):
        wires[0].send(bytes(1 << 11))


def framed(data):
    return len(data).to_bytes(8, "little") + data


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(print),
        b"\xc7\x00\x05",  # an extension
        b"\xd6\xff" + bytes(4),  # a time
        b"\xdd\xff\xff\xff\xff",  # a list of four thousand million parts
        b"\xdf\xff\xff\xff\xff",
        b"\xdc\xff\xff" * 300,
        b"\x91" * 100_000 + b"\xc0",
        b"\x81\x90\xc0",  # a list as a key
        b"\x01\x02",
        b"\xa1\xff",
        b"",
    ],
)
def test_what_is_no_plain_data_is_garbled_and_costs_nothing(wires, data):
    here, there = wires
    here.end.sendall(framed(data))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(GarbledError, match="sent unreadable data"):
        there.receive(1.0)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_the_room_of_a_large_message_is_given_back(wires):
    sent(wires, bytes(transport.LONG_BUFFER + 1))
    assert transport.PIECE == len(wires[1]._room)
