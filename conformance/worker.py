"""The program of a worker: it loads implementations and makes calls on them, as long as somebody asks.

A fresh interpreter begins as a nursery: it imports what the calls will need, makes none itself, and forks workers, so
that one that has died is replaced in milliseconds. Forking is safe while there is but one thread; where there are more,
and for devices other than the CPU, the nursery becomes the worker, and the next one starts from nothing.
Nothing here imports the specifications.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import inspect
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from attnspec import adapters
from attnspec.adapters import Adapter

from . import sources
from .calling import Call, DirectCaller, Interface, Reply, raised
from .errors import Error, TargetError
from .frameworks import framework_named
from .wire import CLOSED, GoneError, Wire

FAILED = 70
"""The exit status of a worker that has failed by itself."""
Environment = tuple[tuple[str, str], ...]

# What a nursery is told


@dataclass(frozen=True, slots=True)
class Start:
    """What a nursery loads: a framework, or a file as it was at some moment; and whether it may fork."""

    framework: str = ""
    path: str = ""
    folder: str = ""
    """Where the path begins."""
    stamp: tuple[int, int] = (0, 0)
    """When the file was changed last, and its length."""
    environment: Environment = field(default=(), hash=False)
    """The variables that workers are to have, too many to be hashed for every call."""
    forks: bool = True


@dataclass(frozen=True, slots=True)
class Declared:
    """Asks a nursery for the adapters of its file, or for one function of it."""

    function: str


@dataclass(frozen=True, slots=True)
class Begin:
    """Asks a nursery for a worker, or for another nursery.

    The other end of its socket comes along, and the file that takes what it prints.
    """

    environment: Environment
    nursery: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """Asks a nursery how a process that it has forked has ended."""

    pid: int


# What a worker is told


@dataclass(frozen=True, slots=True)
class Open:
    """Asks a worker to make an adapter of a module or file ready; later calls name it by `key`."""

    key: int
    module: str
    path: str
    name: str
    framework: str
    interface: Interface


class Elsewhere:
    """A function of another process: its name, its signature, and no more."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__name__ = str(getattr(function, "__name__", type(function).__name__))
        self.__module__ = str(function.__module__)
        self.__signature__ = _plain_signature(function)

    def __call__(self, *arguments: Any, **keywords: Any) -> NoReturn:
        raise TypeError(f"{self.__name__} is a function of another process")


def _plain_signature(function: Callable[..., Any]) -> inspect.Signature:
    """A signature without annotations, and with None for defaults that are no plain values."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise TargetError(f"the signature of {function!r} cannot be read: {error}") from None
    plain = (bool, int, float, str, type(None), type)
    return inspect.Signature(
        [
            inspect.Parameter(p.name, p.kind, default=p.default if isinstance(p.default, plain) else None)
            for p in parameters
        ]
    )


# The nursery


def main() -> None:
    """Serve the socket whose number is the first argument."""
    wire = Wire(socket.socket(fileno=int(sys.argv[1])))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interruption is the run's to handle
    _end_with_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with suppress(GoneError):
        _tend(wire)
    os._exit(0)  # what an implementation has left behind may be in no state to be taken down in order


def _tend(wire: Wire) -> None:
    start, paths = wire.receive()
    sys.path[:] = paths
    try:
        if start.path:
            os.chdir(start.folder)
            sources.load(Path(start.path))
        else:
            framework_named(start.framework)
    except Error as error:
        return wire.send(error)
    forks = start.forks and _threads() == 1
    wire.send(forks)
    while True:
        message, files = wire.receive_with_files(2)
        if isinstance(message, Declared):
            wire.send(_answer(lambda asked=message.function: _declared(start.path, asked)))
        elif isinstance(message, Ended):
            wire.send(os.waitpid(message.pid, 0)[1])
        elif forks:
            _fork(wire, message, *files)
        else:
            _print_to(*files)
            _serve(wire)


def _fork(wire: Wire, begin: Begin, end: int, log: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(end)
        os.close(log)
        return wire.send(pid)
    try:
        wire.close()
        _end_with_parent()
        os.setsid()
        _print_to(log)
        os.environ.clear()
        os.environ.update(begin.environment)
        (_tend if begin.nursery else _serve)(Wire(socket.socket(fileno=end)))
    except GoneError as error:
        os._exit(0 if str(error) == CLOSED else _failed())
    except BaseException:
        os._exit(_failed())


def _failed() -> int:
    """Print what has gone wrong here, and not in an implementation; the exit status of that."""
    traceback.print_exc()
    sys.stderr.flush()
    return FAILED


def _print_to(log: int) -> None:
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.enable(2)


def _declared(path: str, function: str) -> list[Adapter]:
    return [replace(found, function=Elsewhere(found.function)) for found in sources.declared(Path(path), function)]


def _answer(ask: Callable[[], Any]) -> Any:
    """What was asked for, or the `Error` in its place."""
    try:
        return ask()
    except Error as error:
        return error


def _threads() -> int:
    """How many threads this process has; 0 where that cannot be told."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 0


def _end_with_parent() -> None:
    """End when the parent does, however it ends; on Linux alone."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


# The worker


def _serve(wire: Wire) -> None:
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # if memory runs out, it is not the run that ends
    callers: dict[int, DirectCaller] = {}
    with ExitStack() as sessions:
        while True:
            message = wire.receive()
            if isinstance(message, Open):
                wire.send(_answer(lambda asked=message: _open(asked, callers, sessions)))
            else:
                key, call = message
                _reply(wire, _call(callers[key], call))


def _open(asked: Open, callers: dict[int, DirectCaller], sessions: ExitStack) -> None:
    function = _function(asked)
    callers[asked.key] = DirectCaller(function, asked.framework, asked.interface)
    sessions.enter_context(callers[asked.key].session())


def _function(asked: Open) -> Callable[..., Any]:
    path = Path(asked.path)
    module = sources.load(path) if asked.path else importlib.import_module(asked.module)
    found = [a for a in adapters.registered() if (a.module, a.name) == (module.__name__, asked.name)]
    return (found or sources.declared(path, asked.name))[0].function


def _call(caller: DirectCaller, call: Call) -> Reply:
    try:
        return caller.call(call)
    except BaseException as error:  # even one that is meant to end a program
        return Reply(fault=raised(error))


def _reply(wire: Wire, reply: Reply) -> None:
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    wire.send((reply, kilobytes << 10))
