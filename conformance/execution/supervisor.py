"""Calls in another process, and what happens when it dies, does not reply, or floods its output.

Whatever happens to a worker costs one call its result; the next call finds another worker. Every subject has a worker
of its own, so that what one does to its process is no other's trouble. Only the adapters that a module of attnspec has
for another package share one: importing that package may take longer than all of their calls.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import json
import os
import shutil
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from attnspec import adapters
from attnspec.adapters import Adapter

from ..data.texts import safe
from ..errors import Error, TargetError
from . import addresses, exchange, offers, orphans
from .addresses import EXEC, words_of
from .apart import Apart, ApartError, Place
from .beside import stamp_of
from .calling import Interface
from .devices import Lease, count_of, is_leased, lease
from .dotted import named
from .interpretation import VARIABLE, has_kernels
from .messages import Begin, Open, Start
from .offers import Offered
from .process import LostError, OrphanedError, StrayError
from .processes import ForkServer, Worker, divided, spawned
from .programs import Served
from .survey import Role, Survey
from .transport import GoneError

SECONDS = 30.0
"""How long a call may take, unless otherwise asked for."""
MEMORY = 3 << 29
"""Bytes of memory beyond which a worker is replaced between two calls: it may keep what it compiled for each shape."""
FEW = 16
"""Calls after which memory that is still taken is what one call needs, and not what was kept of many."""
WORKERS = 2
"""Workers that are kept alive at a time."""
NURSERIES = 4
"""Nurseries of files that are kept alive at a time."""
CLOSING = 1.0
"""Seconds in which processes that are ended are to be reported as ended, before those are ended that would."""
TRIES = 3
"""How often what was lost through no fault of its own is asked for."""
TIMES = f"{TRIES} times"
T = TypeVar("T")
Home = tuple[Start, str | int]
"""Whose a worker is: the key of a subject, or the module that several share, and what its fork server has loaded."""


def available() -> bool:
    """Whether calls can be isolated on this system."""
    return hasattr(os, "fork") and hasattr(socket, "send_fds")


def shared(adapter: Adapter, path: Path | None) -> bool:
    """Whether an adapter shares a worker with the others of its module."""
    return bool(adapter.package) and not foreign(adapter, path)


def foreign(adapter: Adapter, path: Path | None) -> bool:
    """Whether an adapter is somebody else's, and not one that comes with attnspec."""
    return path is not None or not adapter.module.startswith(f"{adapters.__name__}.")


class Supervisor:
    """The processes of a run.

    One fork server has each framework; those of files are forked from the one that has what the file names.
    Of the fork servers of files, and of workers, few are kept alive: what runs next seldom needs what ran long ago.
    """

    def __init__(self, seconds: float = SECONDS, device: str = "cpu") -> None:
        self.seconds, self.device = seconds, device
        self._fork_servers: OrderedDict[str, ForkServer] = OrderedDict()
        self._workers: OrderedDict[Home, Worker] = OrderedDict()
        self._keys = itertools.count()
        self._lease: Lease | None = None
        self._arrays = ""
        """The folder in which arrays are exchanged with programs, once there is one."""
        self._memory = MEMORY
        self._closing = False

    def begin(self, path: Path) -> None:
        """Have the process begin that has the framework of a file, and do not wait for it."""
        if self.device == "cpu" and path.is_file():
            framework = _framework(path)
            if framework not in self._fork_servers:
                self._fork_servers[framework] = self._made(Start(framework))

    @staticmethod
    def framework(path: Path) -> str:
        """The framework that a process has which loads a file."""
        return _framework(path)

    def declared(self, path: Path, function: str, python: str = "") -> list[Adapter]:
        """What `sources.declared` gives, loaded elsewhere: by this interpreter, or by another `python`."""
        if not path.is_file():
            raise TargetError(f"no such file: {path}")
        return self._asked(self._start(path, python), lambda fork_server: fork_server.declared(function))

    def surveyed(self, path: Path, name: str, roles: Sequence[Role]) -> Survey:
        """What `survey.surveyed` gives, built elsewhere, in a process that ends with it."""
        if not path.is_file():
            raise TargetError(f"no such file: {path}")
        start = self._start(path)
        try:
            return self._asked(start, lambda fork_server: fork_server.surveyed(name, roles))
        finally:
            built = self._fork_servers.pop(str(Path(start.folder, start.path)), None)
            if built is not None:
                self.end(built)

    def offered(self, target: str) -> list[Adapter]:
        """The functions that a program has, as adapters, or the one that a target names; the program then ends."""
        command, name = addresses.parted(target)
        words_of(command)
        self._arrays = self._arrays or exchange.folder()
        served = Served(command, str(Path.cwd()), self._arrays)
        home = (self._bare("numpy"), f"{EXEC}{command}")
        try:
            said = json.loads(self.worker(home).capabilities(served))
        except LostError as lost:
            raise TargetError(f"{EXEC}{safe(command)}: {lost}\n{lost.fault.trace}".rstrip()) from None
        except (OrphanedError, StrayError) as error:
            raise TargetError(f"{EXEC}{safe(command)}: {error}") from None
        except TargetError as error:
            raise TargetError(f"{EXEC}{safe(command)}: {error}") from None
        finally:
            self.drop(home)
        return offers.adapters_of(said, served, name)

    def opening(self, adapter: Adapter, interface: Interface, path: Path | None, python: str = "") -> tuple[Home, Open]:
        """Where the calls of an adapter of a file, or of a module without one, are made, and what is opened there."""
        start = self._start(path, python) if path else self._bare(_root(adapter.framework), python)
        module, function = "" if path else adapter.module, adapter.function
        served = function.served if isinstance(function, Offered) else None
        asked = Open(next(self._keys), module, start.path, adapter.name, adapter.framework, interface, served)
        return (start, module) if shared(adapter, path) else (start, asked.key), asked

    def worker(self, home: Home) -> Worker:
        """The worker of a subject, or of those that share one, started if there is none."""
        found = self._workers.get(home)
        if found is None:
            found = self._workers[home] = self._begun(home[0])
            while len(self._workers) > WORKERS:
                self._workers.popitem(last=False)[1].close()
        self._workers.move_to_end(home)
        return found

    @property
    def pids(self) -> list[int]:
        """The workers that there are."""
        return [worker.process.pid for worker in self._workers.values()]

    def drop(self, home: Home) -> None:
        """Have the next call find another worker."""
        found = self._workers.pop(home, None)
        if found is not None:
            found.close()

    def rest(self, home: Home, key: int) -> None:
        """Have a worker, if there is one, let go of what a framework keeps of the calls of a subject."""
        worker = self._workers.get(home)
        if worker is not None and key in worker.opened:
            try:
                worker.rest(key)
            except (Error, LostError, OrphanedError, StrayError):
                self.drop(home)

    def outgrown(self, used: int, calls: int) -> bool:
        """Whether a worker that has used so much memory in so many calls is to be replaced.

        After few calls that is what one call takes, and the next worker may use twice as much.
        """
        outgrown = used > self._memory
        if outgrown and calls <= FEW:
            self._memory = 2 * used
        return outgrown

    def apart(self, start: Start, asked: Open) -> tuple[Apart, Place]:
        """A process in which nothing of attnspec is to be seen, and what it is to load; `ApartError` for none."""
        if start.python:
            raise ApartError("it runs in another environment")
        if asked.served is not None:
            raise ApartError("it is a separate program, which does not have attnspec anyway")
        folder = start.folder or str(Path.cwd())
        path = Path(start.folder, start.path)
        if start.path and dict(start.environment).get(VARIABLE) == "1" and has_kernels(path):
            raise ApartError("its kernels are interpreted")
        framework = "torch" if "torch" in (asked.framework, _framework(path) if start.path else "") else "numpy"
        found = self._asked(Start(framework), lambda root: root.apart)
        if found is None:
            raise ApartError("this system has none")
        own = named(path.resolve()) if start.path and path.is_file() else None
        return found, Place(
            path="" if own is not None and own.required else start.path,
            module=own.name if own is not None else asked.module,
            root=own.folder if own is not None else "",
            folder=folder,
            name=asked.name,
            framework=asked.framework,
            interface=asked.interface,
            environment=start.environment,
        )

    def close(self) -> None:
        """End every process at once, whatever it does; until all have ended, none begins."""
        self._closing = True
        try:
            self._close()
        finally:
            self._closing = False

    def _close(self) -> None:
        for worker in self._workers.values():
            orphans.kill(worker.process.pid)
        until = time.monotonic() + CLOSING
        for process in (*self._workers.values(), *reversed(self._fork_servers.values())):
            with suppress(OSError, GoneError):
                process.close(max(until - time.monotonic(), 0.0))
        self._workers.clear()
        self._fork_servers.clear()
        if self._arrays:
            shutil.rmtree(self._arrays, ignore_errors=True)
        if self._lease is not None:
            self._lease.give_back()
            self._lease = None

    def _start(self, path: Path, python: str = "") -> Start:
        start = self._bare("", python)
        variables = start.environment
        if self.device == "cpu" and VARIABLE not in os.environ and has_kernels(path):
            variables = tuple(sorted((*variables, (VARIABLE, "1"))))
        whole = {"path": str(path), "folder": str(Path.cwd()), "stamp": stamp_of(path), "environment": variables}
        return replace(start, **whole)

    def _bare(self, framework: str, python: str = "") -> Start:
        variables = {name: x for name, x in os.environ.items() if not name.startswith("PYTEST_")}
        if is_leased(self.device):
            self._lease = self._lease or lease(self.device, count_of(self.device))
            variables = self._lease.environment(variables)
        variables = tuple(sorted(variables.items()))
        return Start(framework, environment=variables, forks=self.device == "cpu", python=python)

    def _begun(self, start: Start) -> Worker:
        """A new worker. Nurseries of frameworks serve every environment, for they run nothing that asks for it."""
        bare = start if start.path or not start.forks else replace(start, environment=())
        return self._asked(bare, lambda fork_server: fork_server.worker(start.environment))

    def _asked(self, start: Start, ask: Callable[[ForkServer], T]) -> T:
        """What a fork server answers. One that has ended is replaced, for that need be no fault of its file."""
        says = ""
        for _ in range(TRIES):
            if self._closing:
                raise TargetError("the worker processes are being terminated")
            fork_server = None
            try:
                fork_server = self._fork_server(start)
                return ask(fork_server)
            except (GoneError, TimeoutError) as error:
                says = str(error)
                if fork_server is not None:
                    self.end(fork_server)
        label = start.label
        begins = says.startswith(label)  # it never came to be asked
        raise TargetError(says if begins else f"the process that had loaded {label} ended when it was asked, {TIMES}")

    def _fork_server(self, start: Start) -> ForkServer:
        place = start.framework or str(Path(start.folder, start.path))
        place = f"{place}@{start.python}" if start.python else place
        found = self._fork_servers.pop(place, None)
        if found is not None and found.start != start:
            self.end(found)
        if found is None or found.spent:
            found = self._made(start)
        found.ready()
        self._fork_servers[place] = found
        files = [other for other, fork_server in self._fork_servers.items() if fork_server.start.path]
        for other in files[:-NURSERIES]:
            self.end(self._fork_servers.pop(other))
        return found

    def end(self, fork_server: ForkServer) -> None:
        """Close a fork server, and first its workers, which would not outlive it."""
        for home in [home for home, worker in self._workers.items() if worker.fork_server is fork_server]:
            self._workers.pop(home).close()
        fork_server.close()

    def _made(self, start: Start) -> ForkServer:
        """A fork server: of a framework a fresh one, of a file one that has its framework."""
        if not start.forks or (start.python and not start.path):
            return ForkServer(spawned(start.environment, start.python), start)
        if not start.path:
            process, apart = divided(start.framework)
            return ForkServer(process, start, apart)
        framework = _framework(Path(start.folder, start.path))
        begin = Begin(start.environment, fork_server=True)
        process = self._asked(
            Start(framework, python=start.python),
            lambda root: root.forked(begin) if root.forks else spawned(start.environment, start.python),
        )
        return ForkServer(process, start)


def _root(framework: str) -> str:
    """The framework that a fork server imports before it forks: others have threads of their own."""
    return framework if framework == "torch" else "numpy"


def _framework(path: Path) -> str:
    """The framework that a file names, or NumPy; a `TargetError` for one that has disappeared since it was found."""
    try:
        text = path.read_bytes() if path.suffix == ".py" else bytes(path)  # libraries name what they never import
        return "torch" if b"torch" in text else "numpy"
    except OSError as error:
        raise TargetError(f"{path} can no longer be read: {error.strerror}") from None


@functools.cache
def supervisor(seconds: float, device: str) -> Supervisor:
    """The supervisor of this process for that time limit and device."""
    made = Supervisor(seconds, device)
    atexit.register(made.close)
    return made
