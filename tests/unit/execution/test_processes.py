"""Processes beside this one: how long they are waited for, and how they begin and end."""

import os

import pytest

from attnspec.execution import processes
from attnspec.execution.process import FloodedError, Log, Process
from attnspec.execution.processes import patiently


@pytest.fixture
def log():
    made = Log()
    yield made
    made.file.close()


def test_who_prints_too_much_is_not_waited_for(log):
    process = Process(None, 0, log, lambda _: None)
    os.write(log.number, b"a word")
    assert "answer" == patiently(process, lambda _: "answer")
    os.ftruncate(log.number, processes.FLOOD + 1)
    with pytest.raises(FloodedError, match="printed 16 MiB"):
        patiently(process, lambda _: "answer")


def test_time_is_up_where_nothing_comes(log):
    def nothing(_):
        raise TimeoutError

    with pytest.raises(TimeoutError):
        patiently(Process(None, 0, log, lambda _: None), nothing, 0.01)


def test_a_fresh_interpreter_ends_with_its_status():
    process = processes.spawned((("PATH", os.environ["PATH"]),))
    process.wire.end.sendall(b"a line of text")  # which is not a message
    assert 0 == process.end(None, prompt=60)
    process.close()
