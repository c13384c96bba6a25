"""Worker processes: how they start, take calls and end, and what they print.

A fork server has loaded what calls need and gives workers; a worker makes calls. Whatever happens to a worker is told
as a fault that names the cause.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from numpy.typing import NDArray

from attnspec.adapters import Adapter

from ..errors import TargetError
from . import interpreters, orphans
from .apart import RUN, Apart, neutral, program
from .calling import Call
from .faults import Fault
from .large import Held, LargeCall
from .messages import (
    Answer,
    Ask,
    Begin,
    Capabilities,
    Declarations,
    Declared,
    Ended,
    Entries,
    Extremes,
    Forked,
    Hold,
    Load,
    Loaded,
    Made,
    Make,
    Offer,
    Open,
    Opened,
    Part,
    Refused,
    Rest,
    Start,
    Status,
    Surveyed,
    Variables,
    adapter_of,
    error_of,
    receive,
    send,
)
from .process import PROMPT, FloodedError, Log, LostError, OrphanedError, Process, StrayError, ended
from .programs import Served
from .survey import Role, Survey
from .threads import ONE
from .transport import CLOSED, GarbledError, GoneError, Wire

PROGRAM = "from attnspec.execution.worker import main; main()"
OWN = ("PYTHONHOME", "PYTHONEXECUTABLE", "__PYVENV_LAUNCHER__")
"""Variables that tell an interpreter where it lives, and would mislead another one."""
LOADING = 300.0
"""Seconds in which a file or a framework is to be imported."""
SLICE = 0.25
"""Seconds between two looks at a worker that does not answer."""
FLOOD = 16 << 20
"""Bytes that a call may print, and a file or a framework while it is imported."""
M = TypeVar("M")


def spawned(environment: Variables, python: str = "") -> Process:
    """A fresh interpreter that runs the program of workers: this one, or another `python`."""
    ours, theirs = socket.socketpair()
    variables = {**ONE, **dict(environment)}
    with theirs:
        command, files = [PROGRAM, str(theirs.fileno())], [theirs.fileno()]
        if python:
            command = [interpreters.PROGRAM, command[1], *interpreters.placed(interpreters.examined(python))]
            variables = {name: x for name, x in variables.items() if name not in OWN}
        return interpreter(Wire(ours), command, variables, files, python or sys.executable)


def divided(framework: str) -> tuple[Process, Apart]:
    """A fresh interpreter that imports a framework, and then runs the program of workers beside a bare process."""
    text, ends = program(), [socket.socketpair() for _ in range(2)]
    theirs = [end.fileno() for _, end in ends]
    command = [RUN.format(program=text), *map(str, theirs)]
    process = interpreter(Wire(ends[1][0]), command, neutral(tuple(os.environ.items())), [text, *theirs])
    os.close(text)
    for _, end in ends:
        end.close()
    return process, Apart(ends[0][0], framework)


def interpreter(
    wire: Wire,
    command: Sequence[str],
    environment: Mapping[str, str],
    files: Sequence[int],
    executable: str = sys.executable,
) -> Process:
    """A fresh interpreter that runs a program, given as its text and its arguments, with some open files."""
    log, mark = Log(), orphans.mark()
    process = subprocess.Popen(
        [executable, "-P", "-c", *command],
        stdin=subprocess.DEVNULL,
        stdout=log.number,
        stderr=log.number,
        env={**environment, orphans.MARK: mark},
        pass_fds=files,
        start_new_session=True,
    )
    return Process(wire, process.pid, log, lambda prompt: _waited(process, mark, prompt))


def _waited(process: subprocess.Popen[bytes], mark: str, prompt: float) -> int | None:
    """The exit status of a fresh interpreter, after which nothing is left of what has descended from it."""
    orphans.await_end(process.pid, min(prompt, orphans.GRACE))
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    orphans.end_marked(mark)
    try:
        return process.wait(orphans.GRACE)
    except subprocess.TimeoutExpired:
        return None


def patiently(process: Process, receive: Callable[[float], M], seconds: float = LOADING) -> M:
    """What is received within so much time; a process that prints too much meanwhile is a `FloodedError`."""
    deadline, answer = time.monotonic() + seconds, None
    while answer is None:
        with suppress(TimeoutError):
            answer = receive(min(SLICE, max(deadline - time.monotonic(), 0.0)))
        if process.log.length > FLOOD:
            raise FloodedError(f"printed {process.log.length / 2**20:.0f} MiB")
        if answer is None and time.monotonic() >= deadline:
            raise TimeoutError
    return answer


class ForkServer:
    """A process that has loaded what calls need, and gives workers."""

    def __init__(self, process: Process, start: Start, apart: Apart | None = None) -> None:
        """Have `process` load what `start` says, which `ready` waits for. `apart` is beside it."""
        self.process, self.start, self.apart, self.spent = process, start, apart, False
        self.forks: bool | None = None
        """Whether it forks, once it is ready."""
        with suppress(GoneError):  # why it has ended is told by `ready`
            send(process.wire, Load(start, () if start.python else tuple(path for path in sys.path if path)))

    def ready(self) -> None:
        """Wait until all is loaded; what cannot be loaded is a `TargetError`.

        `GoneError` where the process was lost along with its own fork server, or killed from outside.
        """
        if self.forks is not None:
            return
        process = self.process
        try:
            self.forks = self._answer(Loaded).forks
        except GoneError as error:
            status = process.end(None if str(error) == CLOSED else signal.SIGKILL)
            self.close()
            says = f"{self._label} cannot be imported: the process {ended(status)}"
            if status in (None, -signal.SIGKILL):
                raise GoneError(says) from None
            raise TargetError(f"{says}\n{process.printed}".rstrip()) from None
        except BaseException:  # an interruption as well
            self.close()
            raise
        process.log.trim()

    @property
    def _label(self) -> str:
        return self.start.label

    def declared(self, function: str) -> list[Adapter]:
        """The adapters of the file, or those of one name."""
        send(self.process.wire, Declared(function))
        return [adapter_of(said) for said in self._answer(Declarations).adapters]

    def surveyed(self, name: str, roles: Sequence[Role]) -> Survey:
        """A class of the file, as it was built."""
        send(self.process.wire, Surveyed(name, tuple(roles)))
        return self._answer(Survey)

    def _answer(self, kind: type[M]) -> M:
        """What the fork server answers; an error is raised, whether told or of taking too long or too much."""
        try:
            answer = patiently(self.process, lambda seconds: receive(self.process.wire, kind, Refused, seconds=seconds))
        except (TimeoutError, FloodedError) as error:
            self.close()
            says = f"it {error}" if isinstance(error, FloodedError) else f"loading takes over {LOADING:g} s"
            raise TargetError(f"{self._label} cannot be imported: {says}\n{self.process.printed}".rstrip()) from None
        if isinstance(answer, Refused):
            raise error_of(answer)
        return answer

    def worker(self, environment: Variables) -> Worker:
        """A worker; a fork server that does not fork becomes it, and is spent."""
        if self.forks:
            return Worker(self.forked(Begin(environment)), self)
        self.spent = True
        self.process.log.file.close()
        self.process.log = Log()
        send(self.process.wire, Begin(environment), files=[self.process.log.number])
        return Worker(self.process, self)

    def forked(self, begin: Begin) -> Process:
        """A process that begins as this one is."""
        log = Log()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                send(self.process.wire, begin, files=[theirs.fileno(), log.number])
            pid = receive(self.process.wire, Forked, seconds=LOADING).pid
        except BaseException:  # an interruption as well
            self.spent = True
            ours.close()
            log.file.close()
            raise
        return Process(Wire(ours), pid, log, lambda prompt: self._waited(pid, prompt))

    def _waited(self, pid: int, prompt: float) -> int | None:
        """The exit status of a process that was forked; None where nobody says it."""
        if self.process.over:
            return None
        try:
            send(self.process.wire, Ended(pid), prompt)
            until = time.monotonic() + prompt
            while (said := receive(self.process.wire, Status, seconds=max(until - time.monotonic(), 0.0))).pid != pid:
                pass  # of one that was asked for when something interrupted the run
        except (GoneError, TimeoutError):
            self.close(prompt)
            return None
        return os.waitstatus_to_exitcode(said.status[0]) if said.status else None

    def close(self, prompt: float = PROMPT) -> None:
        self.spent = True
        if self.apart is not None:
            self.apart.close()
        self.process.close(prompt)


class Worker:
    """A process that makes calls."""

    def __init__(self, process: Process, fork_server: ForkServer) -> None:
        self.process, self.fork_server = process, fork_server
        self.asked = 0
        self.opened: set[int] = set()
        self.answered: set[int] = set()

    def open(self, asked: Open) -> None:
        """Have an adapter made ready; an `Error` if it cannot be, and otherwise as `make`."""
        self._ask(asked, Opened, LOADING)
        self.opened.add(asked.key)

    def capabilities(self, served: Served) -> str:
        """What a program says of itself, as JSON; errors as of `open`."""
        return self._ask(Offer(served), Capabilities, LOADING).text

    def make(self, key: int, call: Call, seconds: float) -> Made:
        """Have a call made; `LostError`, `OrphanedError` or `StrayError` if there is no answer."""
        made = self._ask(Make(key, call), Made, seconds)
        self.answered.add(key)
        return made

    def hold(self, key: int, call: LargeCall, seconds: float) -> Held:
        """Have a large call made, whose outputs are kept; errors as of `make`."""
        found = self._ask(Hold(key, call), Held, seconds)
        self.answered.add(key)
        return found

    def part(self, key: int, name: str, box: tuple[tuple[int, int], ...]) -> NDArray[Any]:
        """A part of an output that is kept; errors as of `make`."""
        return self._ask(Part(key, name, box), Entries, LOADING).array

    def extremes(self, key: int, name: str) -> NDArray[Any]:
        """Where the least and the greatest entry of an output that is kept are; errors as of `make`."""
        return self._ask(Extremes(key, name), Entries, LOADING).array

    def rest(self, key: int) -> None:
        """Have an adapter let go of what it keeps between calls; errors as of `make`."""
        self._ask(Rest(key), Opened, LOADING)

    def _ask(self, what: Open | Offer | Make | Hold | Part | Extremes | Rest, kind: type[M], seconds: float) -> M:
        self._check()
        self.asked += 1
        try:
            send(self.process.wire, Ask(self.asked, what), seconds)
            answer = patiently(self.process, lambda pause: receive(self.process.wire, Answer, seconds=pause), seconds)
        except TimeoutError:
            raise self._hung(seconds) from None
        except FloodedError:
            raise self._flooded() from None
        except GoneError as error:
            raise self._died(error) from None
        if (answer.number, answer.pid) != (self.asked, self.process.pid):
            raise self._strayed()
        self.process.log.trim()
        if isinstance(answer.what, Refused):
            raise error_of(answer.what)
        if not isinstance(answer.what, kind):
            raise self._died(GarbledError("sent a reply to another call"))
        return answer.what

    def _check(self) -> None:
        """Look whether the worker is still there, and whether anybody has answered since it last did."""
        try:
            waiting = self.process.wire.waiting()
        except GoneError as error:
            lost = self._died(error)
            if isinstance(lost, LostError) and self.process.status == -signal.SIGKILL:
                raise StrayError(f"{lost} before it was asked") from None
            raise lost from None
        if waiting:
            raise self._strayed()

    def _strayed(self) -> StrayError:
        self.process.end()
        return StrayError("answers came from another process than the worker, or to another call")

    def _flooded(self) -> LostError:
        says = f"printed {self.process.log.length / 2**20:.0f} MiB in one call"
        self.process.end()
        return LostError(Fault("flooded", says, self.process.log.tail()))

    def _hung(self, seconds: float) -> LostError:
        self.process.end(signal.SIGABRT)  # which prints where it is, even if it holds the interpreter's lock
        return LostError(Fault("hung", f"did not reply within {seconds:g} s", self.process.log.tail()))

    def _died(self, error: GoneError) -> LostError | OrphanedError:
        """Why a process has ended, or why it was ended, with what it has printed last."""
        if isinstance(error, GarbledError):
            self.process.end()
            return LostError(Fault("died", f"the process {error}", self.process.log.tail()))
        status = self.process.end(None if str(error) == CLOSED else signal.SIGKILL)
        says = f"the process {ended(status)}"
        return OrphanedError(says) if status is None else LostError(Fault("died", says, self.process.log.tail()))

    def close(self, prompt: float = PROMPT) -> None:
        self.process.close(prompt)
