"""A process that makes calls: its pipe, its log, and how it is ended."""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile
from collections.abc import Callable
from contextlib import suppress

from ..data.texts import safe_lines
from . import orphans
from .faults import Fault
from .transport import GoneError, Wire

KEPT = 1 << 16
"""Bytes of what was printed that are kept for the next call."""
TRACE = 24
"""Lines of what a worker has printed that are kept with its fault."""
PROMPT = 4.0
"""Seconds in which a fork server is to say how a process has ended."""


class LostError(Exception):
    """A worker that gave no answer; `fault` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.says)
        self.fault = fault


class OrphanedError(Exception):
    """A worker that was lost along with its fork server, which says nothing of what it was asked."""


class StrayError(Exception):
    """A worker that is of no use, which says nothing of what it was to be asked, and has been ended.

    It was killed since its last answer, or answers came from elsewhere, or to another question.
    """


class FloodedError(Exception):
    """A process that printed too much."""


class Log:
    """A file that takes what a process prints."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - it lasts as long as the process
        self.number = self.file.fileno()
        fcntl.fcntl(self.number, fcntl.F_SETFL, os.O_APPEND)

    @property
    def length(self) -> int:
        return os.fstat(self.number).st_size

    def tail(self) -> str:
        """The last lines."""
        try:
            text = os.pread(self.number, KEPT, max(self.length - KEPT, 0)).decode("utf-8", "replace")
        except OSError:
            return ""
        lines = [line for line in text.splitlines() if not line.startswith("Extension modules:")]
        return safe_lines("\n".join(lines[-TRACE:]))

    def trim(self) -> None:
        """Forget what was printed, unless it is little."""
        if self.length > KEPT:
            with suppress(OSError):
                os.ftruncate(self.number, 0)


class Process:
    """A process at the other end of a wire, and how to learn its exit status.

    That is negative for a signal, and None where nobody knows it, for the process that would is gone.
    `wait` asks for it, for so many seconds.
    """

    def __init__(self, wire: Wire, pid: int, log: Log, wait: Callable[[float], int | None]) -> None:
        self.wire, self.pid, self.log, self.wait = wire, pid, log, wait
        self.status: int | None = None
        self.over = False
        self.printed = ""
        """The last lines of what it has printed, once it is closed."""

    def end(self, first: signal.Signals | None = signal.SIGKILL, prompt: float = PROMPT) -> int | None:
        """End the process, and all that it has started; its exit status.

        With None, it is about to end by itself; with another signal than SIGKILL, it gets a second to follow that.
        """
        if not self.over:
            self.over = True
            if first is not None:
                self._signal(first)
            self.wire.close()
            self.status = self.wait(prompt)
        return self.status

    def _signal(self, first: signal.Signals) -> None:
        if first is not signal.SIGKILL:
            with suppress(OSError):
                os.kill(self.pid, first)
            with suppress(GoneError, TimeoutError):
                self.wire.receive(1.0)
        orphans.kill(self.pid)

    def close(self, prompt: float = PROMPT) -> None:
        """End the process, and forget what it has printed but for the last lines."""
        self.end(prompt=prompt)
        self.printed = self.log.tail()
        self.log.file.close()


def ended(status: int | None) -> str:
    """How a process with that exit status ended, in words."""
    if status is None:
        return "was lost together with the process that forked it"
    if status >= 0:
        return f"exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"was killed ({name}), which usually means that memory ran out" if name == "SIGKILL" else f"died of {name}"
