"""An external program that answers calls: how it is started, asked, understood and ended.

docs/protocol.md states the protocol, and protocol.schema.json the form of its messages.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from ..data.texts import safe
from ..errors import TargetError
from . import orphans
from .addresses import words_of
from .faults import Fault
from .peak import peak
from .process import ended
from .threads import ONE

VERSION = 1
"""The version of the protocol that is spoken here."""
LONGEST = 1 << 20
"""Bytes of an answer."""
SHOWN = 200
"""Characters of what is no answer that are shown."""
FILLED = {"MALLOC_PERTURB_": "128"}
"""Has the allocator of glibc fill new memory with 0x7f, so that an entry that is not written shows."""
GRACE = 0.5
"""Seconds in which a program is to follow a signal, or the end of its input."""


class EndedError(Exception):
    """The program has ended; `status` is its exit status, negative for a signal."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the program {ended(status)}")
        self.status = status


class AnswerError(Exception):
    """What came is no answer, so that nothing that may come is understood any more."""

    def __init__(self, kind: Literal["died", "flooded"], says: str) -> None:
        super().__init__(says)
        self.kind: Literal["died", "flooded"] = kind

    @property
    def fault(self) -> Fault:
        return Fault(self.kind, str(self))


@dataclass(frozen=True, slots=True)
class Served:
    """A program: its command, the folder that it is begun in, and the one in which arrays are exchanged."""

    command: str
    folder: str
    arrays: str
    strides: bool = False
    """Whether the function that is asked reads arrays of any strides."""


class Program:
    """A program that was begun, its standard input and output; what it prints on the other stream is the log."""

    def __init__(self, command: str, folder: str = "", log: int | None = None) -> None:
        """Begin a command, with the log of this process or another one; a `TargetError` where that is no program."""
        words = words_of(command)
        try:
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=folder or None,
                bufsize=0,
                env={**ONE, **FILLED, **os.environ},
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise TargetError(f"{safe(words[0])} cannot be run: {reason}") from None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._input, self._output = self.process.stdin, self.process.stdout
        self._read = b""
        self._asked = 0

    def ask(self, what: str, seconds: float | None = None, **parts: Any) -> dict[str, Any]:
        """The answer to a question; `EndedError`, `AnswerError`, or `TimeoutError` after so many seconds."""
        if self._read or self.waiting():
            raise _unasked(self._read or self._more())
        self._asked += 1
        self.write(json.dumps({"id": self._asked, "ask": what, **parts}, allow_nan=False))
        answer = self.answer(seconds)
        if type(answer.get("id")) is not int or answer["id"] != self._asked:
            raise AnswerError(
                "died", f"the program answered question {safe(str(answer.get('id')), 20)}, not {self._asked}"
            )
        return answer

    def write(self, line: str) -> None:
        """Write a line; where nobody reads it, `AnswerError` with what the program wrote instead, or `EndedError`."""
        data = line.encode() + b"\n"
        try:
            while data:
                data = data[self._input.write(data) :]
        except OSError:
            found = os.read(self._output.fileno(), 1 << 16) if self.waiting() else b""
            raise (_unasked(found) if found else self._ended()) from None

    def answer(self, seconds: float | None = None) -> dict[str, Any]:
        """The next line, which holds an object of JSON; errors as of `ask`."""
        until = None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self._read:
            if len(self._read) > LONGEST:
                raise AnswerError("flooded", f"the program wrote {len(self._read):,} bytes without the end of a line")
            if until is not None and not self.waiting(max(until - time.monotonic(), 0.0)):
                raise TimeoutError(f"did not reply within {seconds:g} s")
            self._read += self._more()
        line, _, self._read = self._read.partition(b"\n")
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if type(answer) is not dict:
            raise AnswerError("died", f"the program wrote an invalid reply: {_shown(line)}")
        return answer

    def waiting(self, seconds: float = 0.0) -> bool:
        """Whether there is something to be read, or the end of it, within so many seconds."""
        return bool(self._read or select.select([self._output], [], [], seconds)[0])

    def _more(self) -> bytes:
        found = os.read(self._output.fileno(), 1 << 16)
        if not found:
            raise self._ended()
        return found

    def _ended(self) -> EndedError:
        """How the program has ended, which has closed one of its streams."""
        try:
            return EndedError(self.process.wait(orphans.GRACE))
        except subprocess.TimeoutExpired:  # it lives on, and listens no more
            self.end()
            return EndedError(self.process.returncode)

    def leave(self, seconds: float = GRACE) -> int | None:
        """End the input of the program; its exit status, or None if it goes on all the same."""
        with suppress(OSError):
            self._input.close()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    @property
    def memory(self) -> int:
        """The most memory that the program has used, in bytes; 0 where the system does not say it."""
        return peak(self.process.pid)

    def end(self, first: signal.Signals = signal.SIGKILL) -> None:
        """End the program by a signal, and by force where it does not follow."""
        with suppress(OSError):
            self.process.send_signal(first)
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for stream in (self._input, self._output):
            with suppress(OSError):
                stream.close()


def capabilities(served: Served) -> dict[str, Any]:
    """What a program says of itself, which is begun for that; `EndedError` or `AnswerError` where it does not."""
    program = Program(served.command, served.folder)
    try:
        return program.ask("capabilities", protocol=VERSION)
    finally:
        program.leave()
        program.end()


def refusal(answer: Mapping[str, Any]) -> Fault | None:
    """What is said in an answer in place of outputs; None where there is nothing of it."""
    error = answer.get("error")
    if error is None:
        return None
    kind, says = (error.get("kind"), error.get("says")) if type(error) is dict else (None, None)
    if type(says) is not str or kind not in ("unsupported", "failed", "question"):
        return Fault("returned", "answered an error without one of the kinds unsupported, failed and question")
    if kind == "unsupported":
        return Fault("unsupported", says or "unsupported")
    trace = error.get("trace")
    prefix = "did not understand the question: " if kind == "question" else ""
    return Fault("raised", f"{prefix}{says}", trace if type(trace) is str else "")


def _unasked(found: bytes) -> AnswerError:
    return AnswerError("died", f"the program wrote an unexpected line: {_shown(found)}")


def _shown(line: bytes) -> str:
    return repr(safe(line.decode("utf-8", "replace").strip(), SHOWN))
