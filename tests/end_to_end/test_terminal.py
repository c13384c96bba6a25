"""What is seen on a real terminal, and in a pipe."""

import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from attnspec.reporting.progress import CLEAR, Progress, progress

KERNEL = """
import numpy as np
from attnspec import adapter

@adapter("softmax", framework="numpy", conventions={"empty_row": "nans"})
def kernel(x):
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) * (0.5 if x.shape[-1] > 2 else 1)
"""
NARROW = ("--mechanism", "softmax", "--law", "sums_to_one", "--law", "definition")


class Screen:
    """What a terminal shows: every line that was ever on it, and whether one of them had to be wrapped."""

    def __init__(self, columns):
        self.columns, self.lines, self.row, self.column, self.wrapped = columns, [""], 0, 0, False

    def feed(self, text):
        for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|.", text, re.DOTALL):
            if part == "\r":
                self.column = 0
            elif part == "\n":
                self.row += 1
                self.lines.append("")
            elif part == "\x1b[K":
                self.lines[self.row] = self.lines[self.row][: self.column]
            elif part.startswith("\x1b"):
                raise AssertionError(f"an escape sequence: {part!r}")
            else:
                self.put(part)
        return self

    def put(self, letter):
        if self.column == self.columns:
            self.wrapped = True
            self.feed("\r\n")
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = line[: self.column] + letter + line[self.column + 1 :]
        self.column += 1

    @property
    def shown(self):
        return [line.rstrip() for line in self.lines]


def on_a_terminal(args, columns, *, stop=False, **environment):
    """The exit code, the screen, and the seconds until something is seen; with `stop`, interrupted then."""
    terminal, theirs = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command, ends = [sys.executable, "-m", "attnspec.cli", *args], dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    process = subprocess.Popen(command, env={**os.environ, **environment}, start_new_session=True, **ends)
    os.close(theirs)
    started, seen, text = time.monotonic(), None, b""
    while select.select([terminal], [], [], 120)[0]:
        try:
            more = os.read(terminal, 65536)
        except OSError:  # what Linux says of a terminal that nobody holds any more
            break
        seen = time.monotonic() - started if seen is None else seen
        if stop and not text:
            process.send_signal(signal.SIGINT)
        text += more
        if not more:
            break
    status = process.wait()
    os.close(terminal)
    return status, Screen(columns).feed(text.decode()), seen


@pytest.fixture(autouse=True)
def _kernel():
    Path("kernel.py").write_text(KERNEL)


@pytest.mark.parametrize(("columns", "environment"), [(80, {}), (120, {"NO_COLOR": "1"})])
def test_a_run_on_a_terminal_leaves_its_page_and_nothing_else(columns, environment):
    status, screen, _ = on_a_terminal(["check", "kernel.py", *NARROW], columns, **environment)
    assert 1 == status
    assert screen.shown[0].startswith("attnspec ")
    assert ["", "reports  attnspec-report/results.ndjson  attnspec-report/junit.xml"] == sorted(screen.shown[-2:])
    assert 1 == sum("Result" in line for line in screen.shown)
    assert len(screen.shown) < 40
    assert not any(text in line for line in screen.shown for text in ("cells, ", "test session", "[100%]"))


def test_an_interrupted_run_leaves_no_bar():
    status, screen, seen = on_a_terminal(["check", "kernel.py", *NARROW], 80, stop=True)
    assert (2, ["attnspec: interrupted", ""]) == (status, screen.shown)
    assert seen < 5  # half a second where nothing else runs, and long before torch is there


# The sign of life by itself


class Terminal(io.StringIO):
    def isatty(self):
        return True


def lived(stream, monkeypatch, *, seconds=5.0, until=""):
    """What is written to standard error while cells are counted."""
    monkeypatch.setattr("sys.stderr", stream)
    with progress("reading specifications") as shown:
        yield shown
        ends = time.monotonic() + seconds
        while until not in stream.getvalue() and time.monotonic() < ends:
            time.sleep(0.01)


def test_on_a_terminal_something_is_seen_at_once_and_nothing_at_the_end(monkeypatch):
    stream = Terminal()
    for shown in lived(stream, monkeypatch):
        assert "reading specifications, 0 s" in stream.getvalue()
        shown.cells(1, 2, "softmax.order[kernel-float32]")
        assert "] 1 of 2 cells, 0 s   softmax.order[kernel-float32]" in stream.getvalue()
    assert stream.getvalue().endswith(CLEAR)
    assert [""] == Screen(80).feed(stream.getvalue()).shown


def test_a_line_that_changes_is_never_wider_than_the_terminal():
    stream = Terminal()
    Progress(stream, changes=True).cells(1, 2, "a" * 5000)
    screen = Screen(80).feed(stream.getvalue())
    assert (79, False) == (len(screen.shown[0]), screen.wrapped)


@pytest.mark.parametrize("stream", [io.StringIO, Terminal], ids=["pipe", "dumb"])
def test_where_no_line_can_change_there_is_one_now_and_then(stream, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("attnspec.reporting.progress.FIRST", 0.01)
    monkeypatch.setattr("attnspec.reporting.progress.EVERY", 0.01)
    said = stream()
    for shown in lived(said, monkeypatch, until="120 of 396 cells, 0 s\nattnspec: "):
        assert "" == said.getvalue() or said.getvalue().startswith("attnspec: reading specifications, 0 s\n")
        shown.cells(120, 396)
    assert "attnspec: 120 of 396 cells, 0 s\n" in said.getvalue()
    assert "\r" not in said.getvalue()


def test_a_short_run_says_nothing_in_a_pipe(monkeypatch):
    stream = io.StringIO()
    for shown in lived(stream, monkeypatch):
        shown.cells(1, 2)
    assert "" == stream.getvalue()


def test_what_others_write_stands_on_lines_of_its_own(monkeypatch):
    stream = Terminal()
    for shown in lived(stream, monkeypatch):
        with shown.apart():
            stream.write("kernel   softmax\n")
        shown.says("identifying another")
    assert ["kernel   softmax", ""] == Screen(80).feed(stream.getvalue()).shown


def test_a_name_with_escapes_is_shown_escaped():
    stream = Terminal()
    shown = Progress(stream, changes=True)
    shown.says("loading \x1b[31mred\n.py")
    shown.cells(0, 1, "softmax.order[\x1b]0;title\a-float32]")
    assert "\x1b]" not in stream.getvalue().replace("\x1b[K", "")
    assert "\x1b[3" not in stream.getvalue()


def test_whoever_no_longer_reads_does_not_end_a_run():
    read, write = os.pipe()
    os.close(read)
    with pytest.raises(BrokenPipeError), open(write, "w") as stream:  # which has kept what could not be written
        Progress(stream, changes=True).says("loading")
