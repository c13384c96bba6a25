"""Messages between a run and its workers."""

import socket
import threading
import time

import numpy as np
import pytest

from attnspec import wire
from attnspec.calling import Breach, Call, Fault, Reply
from attnspec.wire import CLOSED, GarbledError, GoneError, Wire


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
    monkeypatch.setattr(wire, "SOON", 50_000_000)
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
        ((3).to_bytes(8, "little") + b"abc", "sent what cannot be read"),
        (b"a line of text", "sent what is no message"),
    ],
)
def test_what_is_no_message_is_as_good_as_gone(wires, data, says):
    here, there = wires
    here.end.sendall(data)
    with pytest.raises(GarbledError, match=says):
        there.receive(1.0)


ARRAYS = {
    "scalar": np.float64(0.25).reshape(()),
    "empty": np.zeros((2, 0, 3)),
    "whole": np.arange(6, dtype=np.int64).reshape(2, 3),
    "truths": np.array([True, False]),
    "turned": np.arange(12.0).reshape(3, 4).T,
    "repeated": np.broadcast_to(np.arange(3.0), (4, 3)),
    "large": np.arange(5000.0).reshape(50, 100),
    "large_and_turned": np.arange(5000.0).reshape(50, 100).T,
    "foreign": np.arange(3, dtype=">i4"),
}


def same(x, y):
    np.testing.assert_array_equal(x, y, strict=True)
    return True


def test_a_call_arrives_as_it_is(wires):
    call = Call(ARRAYS, {"scale": 0.5, "causal": True}, "bfloat16", "cuda:0", "strided", True)
    got = sent(wires, (7, call))[1]
    assert (call.options, call.dtype, call.device, call.layout, call.poisoned) == (
        got.options,
        got.dtype,
        got.device,
        got.layout,
        got.poisoned,
    )
    assert list(ARRAYS) == [name for name, x in got.inputs.items() if same(ARRAYS[name], x)]


def test_a_reply_arrives_as_it_is(wires):
    reply = Reply(ARRAYS, (Breach("dtype", "another"),), Fault("raised", "it", "trace"))
    got = sent(wires, reply)
    assert (reply.breaches, reply.fault) == (got.breaches, got.fault)
    assert list(ARRAYS) == [name for name, x in got.outputs.items() if same(ARRAYS[name], x)]
