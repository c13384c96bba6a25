"""What processes print, and how they ended, in words."""

import os

import pytest

from attnspec.execution import processes
from attnspec.execution.processes import FloodedError, Log, Process, ended, patiently


@pytest.fixture
def log():
    made = Log()
    yield made
    made.file.close()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "exited with status 0"),
        (3, "exited with status 3"),
        (-6, "died of SIGABRT"),
        (-9, "was killed (SIGKILL), as happens when memory runs out"),
        (-99, "died of signal 99"),
        (None, "was lost along with the one that it was forked from"),
    ],
)
def test_an_exit_status_has_words(status, words):
    assert words == ended(status)


def test_the_last_lines_of_a_log_are_safe(log):
    os.write(log.number, b"first\n" * 100 + b"\x1b[31m\xff\x00\nExtension modules: numpy\nlast \xf0\x9f\n")
    lines = log.tail().split("\n")
    assert (processes.TRACE, "last �") == (len(lines), lines[-1])
    assert "\\x1b[31m�\\x00" == lines[-2]
    assert all(line.isprintable() for line in lines)


def test_a_log_is_forgotten_where_it_is_long(log):
    os.write(log.number, b"short")
    log.trim()
    assert "short" == log.tail()
    os.write(log.number, bytes(processes.KEPT))
    log.trim()
    assert 0 == log.length


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
    assert 0 == process.end(None)
    process.close()
