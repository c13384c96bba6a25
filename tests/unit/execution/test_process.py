"""What processes print, and how they ended, in words."""

import os

import pytest

from attnspec.execution import process
from attnspec.execution.process import Log, ended


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
        (-9, "was killed (SIGKILL), which usually means that memory ran out"),
        (-99, "died of signal 99"),
        (None, "was lost together with the process that forked it"),
    ],
)
def test_an_exit_status_has_words(status, words):
    assert words == ended(status)


def test_the_last_lines_of_a_log_are_safe(log):
    os.write(log.number, b"first\n" * 100 + b"\x1b[31m\xff\x00\nExtension modules: numpy\nlast \xf0\x9f\n")
    lines = log.tail().split("\n")
    assert (process.TRACE, "last �") == (len(lines), lines[-1])
    assert "\\x1b[31m�\\x00" == lines[-2]
    assert all(line.isprintable() for line in lines)


def test_a_log_is_forgotten_where_it_is_long(log):
    os.write(log.number, b"short")
    log.trim()
    assert "short" == log.tail()
    os.write(log.number, bytes(process.KEPT))
    log.trim()
    assert 0 == log.length
