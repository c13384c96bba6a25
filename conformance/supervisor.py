"""Calls in another process, and what becomes of them when that process dies, stops answering, or floods its output.

Whatever happens to a worker costs one call its result, as a fault that names the cause; the next call finds another
worker. Adapters of one file or module share a worker, and few of them are kept alive at a time.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import OrderedDict
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnspec.adapters import Adapter

from .calling import Call, Fault, Interface, Reply
from .errors import Error, TargetError
from .wire import CLOSED, GoneError, Wire
from .worker import Begin, Declared, Ended, Home, Open, Start

PROGRAM = "from attnspec.worker import main; main()"

SECONDS = 30.0
"""How long a call may take, unless otherwise asked for."""
PATIENCE = 4
"""How many times as long the first call may take, which imports and compiles, or any if it compiles by shape."""
LOADING = 300.0
"""Seconds in which a file or a framework is to be imported."""
SLICE = 0.25
"""Seconds between two looks at a worker that does not answer."""
FLOOD = 16 << 20
"""Bytes that a call may print."""
KEPT = 1 << 16
"""Bytes of what was printed that are kept for the next call."""
MEMORY = 4 << 30
"""Bytes of memory beyond which a worker is replaced between two calls."""
ALIVE = 2
"""Workers that are kept alive at a time."""
TRACE = 24
"""Lines of what a worker has printed that are kept with its fault."""
DEVICE_TROUBLE = re.compile("cuda|cublas|cudnn|device-side|accelerator", re.IGNORECASE)


def available() -> bool:
    """Whether calls can be isolated on this system."""
    return hasattr(os, "fork") and hasattr(socket, "send_fds")


class LostError(Exception):
    """A worker that gave no answer; `fault` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.says)
        self.fault = fault


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


class Nursery:
    """A process that has loaded what calls need, and gives workers."""

    def __init__(self, start: Start) -> None:
        """A file that cannot be loaded is a `TargetError`."""
        self.start, self.log = start, Log()
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", PROGRAM, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self.log.number,
                stderr=self.log.number,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.wire, self.spent = Wire(ours), False
        label = start.path or start.framework
        try:
            self.wire.send((start, [path for path in sys.path if path]))
            ready = self.wire.receive(LOADING)
        except TimeoutError:
            self.close()
            raise TargetError(f"{label} cannot be imported: it takes over {LOADING:g} s") from None
        except GoneError:
            ending = ended(self.process.wait())
            raise TargetError(f"{label} cannot be imported: the process {ending}\n{self.log.tail()}".rstrip()) from None
        if isinstance(ready, Error):
            self.close()
            raise ready
        self.forks: bool = ready

    def declared(self, function: str) -> list[Adapter]:
        """The adapters of the file, or those of one name."""
        try:
            self.wire.send(Declared(function))
            answer = self.wire.receive(LOADING)
        except (GoneError, TimeoutError) as error:
            self.spent = True
            raise TargetError(f"the process that had loaded {self.start.path} is gone: {error}") from None
        if isinstance(answer, Error):
            raise answer
        return answer

    def worker(self) -> Worker:
        """A worker; where nurseries do not fork, this is the last that comes from here."""
        log = Log()
        if not self.forks:
            self.spent = True
            self.wire.send(Begin(), [log.number])
            return Worker(self.wire, self.process.pid, log, lambda pid: self.process.wait())
        ours, theirs = socket.socketpair()
        with theirs:
            self.wire.send(Begin(), [theirs.fileno(), log.number])
        return Worker(Wire(ours), self.wire.receive(LOADING), log, self._ended)

    def _ended(self, pid: int) -> int:
        """How a forked worker has ended."""
        try:
            self.wire.send(Ended(pid))
            return os.waitstatus_to_exitcode(self.wire.receive(LOADING))
        except (GoneError, TimeoutError):
            self.spent = True
            return 0

    def close(self) -> None:
        self.wire.close()
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()


class Worker:
    """A process that makes calls."""

    def __init__(self, wire: Wire, pid: int, log: Log, ending: Any) -> None:
        self.wire, self.pid, self.log, self.ending = wire, pid, log, ending
        self.status: int | None = None
        self.opened: set[int] = set()
        self.answered: set[int] = set()

    def ask(self, message: Any, seconds: float) -> Any:
        """The answer to a message; `LostError` if there is none."""
        deadline = time.monotonic() + seconds
        try:
            self.wire.send(message, seconds=seconds)
            answer = self._answer(deadline, seconds)
        except TimeoutError:
            raise self._hung(seconds) from None
        except GoneError as error:
            raise self._died(error) from None
        length = self.log.length
        if length > FLOOD:
            raise self._flooded()
        if length > KEPT:
            self.log.clear()
        return answer

    def _answer(self, deadline: float, seconds: float) -> Any:
        while True:
            try:
                return self.wire.receive(min(SLICE, max(deadline - time.monotonic(), 0.0)))
            except TimeoutError:
                if self.log.length > FLOOD:
                    raise self._flooded() from None
                if time.monotonic() >= deadline:
                    raise

    def _flooded(self) -> LostError:
        says = f"printed {self.log.length / 2**20:.0f} MiB in one call"
        self.kill()
        return LostError(Fault("flooded", says, self.log.tail()))

    def _hung(self, seconds: float) -> LostError:
        self.kill(signal.SIGABRT)  # which prints where it is, even if it holds the interpreter's lock
        return LostError(Fault("hung", f"gave no answer within {seconds:g} s", self.log.tail()))

    def _died(self, error: GoneError) -> LostError:
        """Why a process has ended, with what it has printed last."""
        status = self.kill(None if str(error) == CLOSED else signal.SIGKILL)
        return LostError(Fault("died", f"the process {ended(status)}", self.log.tail()))

    def kill(self, first: signal.Signals | None = signal.SIGKILL) -> int:
        """End the process, and all that it has started; its exit status, negative for a signal.

        With None, it has ended already; with another signal than SIGKILL, it gets a second to follow that.
        """
        if self.status is None:
            if first is not None:
                self._signal(first)
            self.status = self.ending(self.pid)
            self.wire.close()
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
        self.kill()
        self.log.file.close()


def ended(status: int) -> str:
    """How a process with that exit status ended, in words."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"was killed ({name}), as happens when memory runs out" if name == "SIGKILL" else f"died of {name}"


class Supervisor:
    """The workers of a run."""

    def __init__(self, seconds: float = SECONDS, device: str = "cpu") -> None:
        self.seconds, self.device = seconds, device
        self._nurseries: dict[Start, Nursery] = {}
        self._workers: OrderedDict[Home, Worker] = OrderedDict()
        self._keys = itertools.count()
        self._memory = MEMORY

    def declared(self, path: Path, function: str) -> list[Adapter]:
        """What `sources.declared` gives, loaded elsewhere."""
        if not path.is_file():
            raise TargetError(f"no such file: {path}")
        return self._nursery(self._start("", str(path.resolve()))).declared(function)

    def caller(self, adapter: Adapter, interface: Interface, path: Path | None, *, patient: bool) -> SupervisedCaller:
        """A caller for an adapter of a file, or of a module if there is no file."""
        home = Home(path=str(path.resolve())) if path else Home(module=adapter.module)
        asked = Open(next(self._keys), home, adapter.name, adapter.framework, interface)
        return SupervisedCaller(self, asked, patient=patient)

    def worker(self, home: Home, framework: str) -> Worker:
        """A worker for adapters of that home, started if there is none."""
        found = self._workers.get(home)
        if found is None:
            found = self._workers[home] = self._begun(self._start(framework, home.path))
            while len(self._workers) > ALIVE:
                self._workers.popitem(last=False)[1].close()
        self._workers.move_to_end(home)
        return found

    def drop(self, home: Home) -> None:
        """Have the next call of a home find another worker."""
        self._workers.pop(home).close()

    def outgrown(self, used: int) -> bool:
        """Whether a worker that has used so much memory is to be replaced; then the next one may use twice as much."""
        outgrown = used > self._memory
        self._memory *= 2 if outgrown else 1
        return outgrown

    def close(self) -> None:
        for process in (*self._workers.values(), *self._nurseries.values()):
            with suppress(OSError):
                process.close()
        self._workers.clear()
        self._nurseries.clear()

    def _begun(self, start: Start) -> Worker:
        nursery = self._nursery(start)
        try:
            return nursery.worker()
        except (GoneError, TimeoutError):  # it has ended since, and another one has to be made
            nursery.spent = True
            return self._nursery(start).worker()

    def _start(self, framework: str, path: str) -> Start:
        return Start("" if path else framework, path, self.device == "cpu")

    def _nursery(self, start: Start) -> Nursery:
        found = self._nurseries.get(start)
        if found is None or found.spent:
            found = self._nurseries[start] = Nursery(start)
        return found


class SupervisedCaller:
    """Makes the calls of one adapter in a worker."""

    def __init__(self, supervisor: Supervisor, asked: Open, *, patient: bool) -> None:
        self.supervisor, self.asked, self.patient = supervisor, asked, patient

    def session(self) -> AbstractContextManager[None]:
        return nullcontext()

    def call(self, call: Call) -> Reply:
        home, key = self.asked.home, self.asked.key
        worker = self.supervisor.worker(home, self.asked.framework)
        patient = self.patient or key not in worker.answered
        try:
            if key not in worker.opened:
                self._open(worker)
            reply, used = worker.ask((key, call), self.supervisor.seconds * (PATIENCE if patient else 1))
        except LostError as lost:
            self.supervisor.drop(home)
            return Reply(fault=self._alone(lost.fault, call) if key in worker.answered else lost.fault)
        worker.answered.add(key)
        if _sticky(call, reply) or self.supervisor.outgrown(used):
            self.supervisor.drop(home)
        return reply

    def _alone(self, fault: Fault, call: Call) -> Fault:
        """The fault of a call that was not the first of its process, and whether it comes without the earlier ones."""
        if fault.kind != "died" or self.call(call).fault is not None:
            return fault
        return replace(fault, says=f"{fault.says}; after earlier calls only: in a new process it is answered")

    def _open(self, worker: Worker) -> None:
        answer = worker.ask(self.asked, LOADING)
        if isinstance(answer, Error):
            raise answer
        worker.opened.add(self.asked.key)


def _sticky(call: Call, reply: Reply) -> bool:
    """Whether a device may have been left in a state in which all further calls fail."""
    fault = reply.fault
    return (
        call.device != "cpu"
        and fault is not None
        and fault.kind == "raised"
        and DEVICE_TROUBLE.search(f"{fault.says}\n{fault.trace}") is not None
    )


@functools.cache
def supervisor(seconds: float, device: str) -> Supervisor:
    """The supervisor of this process for that time limit and device."""
    made = Supervisor(seconds, device)
    atexit.register(made.close)
    return made
