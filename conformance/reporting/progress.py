"""Progress of a command: one changing line on a terminal, and a line now and then elsewhere.

Both go to standard error. The line on a terminal is taken away at the end, however the command ends.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from ..data.texts import safe

FIRST, EVERY = 10.0, 30.0
"""Seconds until the first line where nothing can change in place, and between two of them."""
BLINK = 0.2
"""Seconds between two states of a line that changes."""
BAR = 24
"""Characters of the bar."""
SPINNER = "|/-\\"
CLEAR = "\r\x1b[K"
"""What takes away a line of a terminal."""


class Progress:
    """What is being done, and how much of it is done."""

    def __init__(self, stream: TextIO, *, changes: bool) -> None:
        """With `changes`, one line is written again and again."""
        self._stream, self._changes = stream, changes
        self._started, self._shown = time.monotonic(), 0
        self._what, self._at, self._done, self._total = "", "", 0, 0
        self._ended, self._lock = threading.Event(), threading.Lock()

    def says(self, what: str) -> None:
        """Say what is being done while cells are not yet counted."""
        self._what = safe(what)
        self._changed()

    def cells(self, done: int, total: int, at: str = "") -> None:
        """Say how many cells are done, and which one is being run."""
        self._done, self._total, self._at = done, total, at or self._at
        self._changed()

    def _changed(self) -> None:
        if self._changes:
            self._show()

    def run(self) -> None:
        """Show it again and again until the end; for a thread of its own."""
        pause = BLINK if self._changes else FIRST
        while not self._ended.wait(pause):
            self._show()
            pause = BLINK if self._changes else EVERY

    def line(self, text: str) -> None:
        """Write a line that stays."""
        with self.apart():
            self._write(f"{safe(text)}\n")

    @contextmanager
    def apart(self) -> Iterator[None]:
        """A moment in which a line that changes is taken away, so that others may write to the terminal."""
        with self._lock:
            self._write(CLEAR if self._changes and self._shown else "")
            yield

    def end(self) -> None:
        """Show no more of it, and leave nothing of a line that changes."""
        self._ended.set()
        with self.apart():
            pass

    def _show(self) -> None:
        with self._lock:
            if not self._ended.is_set():
                self._shown += 1
                self._write(f"\r{self._moving()}\x1b[K" if self._changes else f"attnspec: {self.told()}\n")

    def told(self) -> str:
        """What is known, without a bar."""
        seconds = f"{time.monotonic() - self._started:.0f} s"
        return f"{self._done} of {self._total} cells, {seconds}" if self._total else f"{self._what}, {seconds}"

    def _moving(self) -> str:
        """The line for a terminal, one character short of its width, so that the cursor stays in it."""
        if self._total:
            bar = "=" * (BAR * self._done // self._total)
            line = f"[{bar:<{BAR}}] {self.told()}   {safe(self._at)}"
        else:
            line = f"{SPINNER[self._shown % len(SPINNER)]} {self.told()}"
        return line[: _columns(self._stream) - 1].rstrip()

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # whoever reads has gone: no reason to end a run
            self._stream.write(text)
            self._stream.flush()


def _columns(stream: TextIO) -> int:
    with suppress(OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).columns or 80
    return 80


@contextmanager
def progress(what: str) -> Iterator[Progress]:
    """A sign of life on standard error, seen at once on a terminal that can change a line."""
    with _own(sys.stderr) as stream:
        shown = Progress(stream, changes=stream.isatty() and os.environ.get("TERM") != "dumb")
        thread = threading.Thread(target=shown.run, name="attnspec-progress", daemon=True)
        try:
            shown.says(what)
            thread.start()
            yield shown
        finally:
            shown.end()


@contextmanager
def _own(stream: TextIO) -> Iterator[TextIO]:
    """The same file under a number of its own, which stays what it is while others redirect standard error."""
    try:
        number = os.dup(stream.fileno())
    except (OSError, ValueError, AttributeError):  # no file at all
        yield stream
        return
    with open(number, "w", encoding=stream.encoding, errors="backslashreplace") as own:
        yield own
