"""Processes beside this one: how they begin, are asked, and end, and what they print.

A nursery has loaded what calls need and gives workers; a worker makes calls. Whatever happens to a worker is told as a
fault that names the cause.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from attnspec.adapters import Adapter

from .calling import Fault
from .errors import Error, TargetError
from .threads import ONE
from .wire import CLOSED, GarbledError, GoneError, Wire
from .worker import Begin, Declared, Ended, Environment, Start

PROGRAM = "from attnspec.worker import main; main()"
LOADING = 300.0
"""Seconds in which a file or a framework is to be imported."""
SLICE = 0.25
"""Seconds between two looks at a worker that does not answer."""
FLOOD = 16 << 20
"""Bytes that a call may print."""
KEPT = 1 << 16
"""Bytes of what was printed that are kept for the next call."""
TRACE = 24
"""Lines of what a worker has printed that are kept with its fault."""


class LostError(Exception):
    """A worker that gave no answer; `fault` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.says)
        self.fault = fault


class OrphanedError(Exception):
    """A worker that was lost along with its nursery, which says nothing of what it was asked."""


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
        return "\n".join(lines[-TRACE:])

    def clear(self) -> None:
        with suppress(OSError):
            os.ftruncate(self.number, 0)


class Process:
    """A process at the other end of a wire, and how to learn its exit status.

    That is negative for a signal, and None where nobody knows it, for the process that would is gone.
    """

    def __init__(self, wire: Wire, pid: int, log: Log, wait: Callable[[], int | None]) -> None:
        self.wire, self.pid, self.log, self.wait = wire, pid, log, wait
        self.status: int | None = None
        self.over = False

    def end(self, first: signal.Signals | None = signal.SIGKILL) -> int | None:
        """End the process, and all that it has started; its exit status.

        With None, it has ended already; with another signal than SIGKILL, it gets a second to follow that.
        """
        if not self.over:
            if first is not None:
                self._signal(first)
            self.status = self.wait()
            self.wire.close()
            self.over = True
        return self.status

    def _signal(self, first: signal.Signals) -> None:
        if first is not signal.SIGKILL:
            with suppress(OSError):
                os.kill(self.pid, first)
            with suppress(GoneError, TimeoutError):
                self.wire.receive(1.0)
        with suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process, and forget what it has printed."""
        self.end()
        self.log.file.close()


def spawned(environment: Environment) -> Process:
    """A fresh interpreter that runs the program of workers."""
    log = Log()
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=log.number,
            stderr=log.number,
            env={**ONE, **dict(environment)},
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    return Process(Wire(ours), process.pid, log, process.wait)


class Nursery:
    """A process that has loaded what calls need, and gives workers."""

    def __init__(self, process: Process, start: Start) -> None:
        """Have `process` load what `start` says; what cannot be loaded is a `TargetError`.

        `GoneError` where the process was lost along with its own nursery.
        """
        self.process, self.start, self.spent = process, start, False
        label = start.path or start.framework
        try:
            process.wire.send((start, [path for path in sys.path if path]))
            answer = process.wire.receive(LOADING)
        except TimeoutError:
            process.close()
            raise TargetError(f"{label} cannot be imported: it takes over {LOADING:g} s") from None
        except GoneError:
            status, tail = process.end(None), process.log.tail()
            process.close()
            if status is None:
                raise
            raise TargetError(f"{label} cannot be imported: the process {ended(status)}\n{tail}".rstrip()) from None
        if isinstance(answer, Error):
            process.close()
            raise answer
        self.forks: bool = answer

    def declared(self, function: str) -> list[Adapter]:
        """The adapters of the file, or those of one name."""
        self.process.wire.send(Declared(function))
        answer = self.process.wire.receive(LOADING)
        if isinstance(answer, Error):
            raise answer
        return answer

    def worker(self, environment: Environment) -> Worker:
        """A worker; a nursery that does not fork becomes it, and is spent."""
        if self.forks:
            return Worker(self.forked(Begin(environment)), self)
        self.spent = True
        self.process.log.file.close()
        self.process.log = Log()
        self.process.wire.send(Begin(environment), [self.process.log.number])
        return Worker(self.process, self)

    def forked(self, begin: Begin) -> Process:
        """A process that begins as this one is."""
        log = Log()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self.process.wire.send(begin, [theirs.fileno(), log.number])
            pid = self.process.wire.receive(LOADING)
        except (GoneError, TimeoutError):
            ours.close()
            log.file.close()
            raise
        return Process(Wire(ours), pid, log, lambda: self._waited(pid))

    def _waited(self, pid: int) -> int | None:
        try:
            self.process.wire.send(Ended(pid))
            return os.waitstatus_to_exitcode(self.process.wire.receive(LOADING))
        except (GoneError, TimeoutError):
            return None

    def close(self) -> None:
        self.spent = True
        self.process.close()


class Worker:
    """A process that makes calls."""

    def __init__(self, process: Process, nursery: Nursery) -> None:
        self.process, self.nursery = process, nursery
        self.opened: set[int] = set()
        self.answered: set[int] = set()

    def ask(self, message: Any, seconds: float) -> Any:
        """The answer to a message; `LostError` or `OrphanedError` if there is none."""
        log = self.process.log
        try:
            self.process.wire.send(message, seconds=seconds)
            answer = self._answer(time.monotonic() + seconds)
        except TimeoutError:
            raise self._hung(seconds) from None
        except GoneError as error:
            raise self._died(error) from None
        length = log.length
        if length > FLOOD:
            raise self._flooded()
        if length > KEPT:
            log.clear()
        return answer

    def _answer(self, deadline: float) -> Any:
        while True:
            try:
                return self.process.wire.receive(min(SLICE, max(deadline - time.monotonic(), 0.0)))
            except TimeoutError:
                if self.process.log.length > FLOOD:
                    raise self._flooded() from None
                if time.monotonic() >= deadline:
                    raise

    def _flooded(self) -> LostError:
        says = f"printed {self.process.log.length / 2**20:.0f} MiB in one call"
        self.process.end()
        return LostError(Fault("flooded", says, self.process.log.tail()))

    def _hung(self, seconds: float) -> LostError:
        self.process.end(signal.SIGABRT)  # which prints where it is, even if it holds the interpreter's lock
        return LostError(Fault("hung", f"gave no answer within {seconds:g} s", self.process.log.tail()))

    def _died(self, error: GoneError) -> LostError | OrphanedError:
        """Why a process has ended, or why it was ended, with what it has printed last."""
        if isinstance(error, GarbledError):
            self.process.end()
            return LostError(Fault("died", f"the process {error}", self.process.log.tail()))
        status = self.process.end(None if str(error) == CLOSED else signal.SIGKILL)
        says = f"the process {ended(status)}"
        return OrphanedError(says) if status is None else LostError(Fault("died", says, self.process.log.tail()))

    def close(self) -> None:
        self.process.close()


def ended(status: int | None) -> str:
    """How a process with that exit status ended, in words."""
    if status is None:
        return "was lost along with the one that it was forked from"
    if status >= 0:
        return f"exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"was killed ({name}), as happens when memory runs out" if name == "SIGKILL" else f"died of {name}"
