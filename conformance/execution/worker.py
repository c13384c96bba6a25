"""The program of a worker: it loads implementations and calls them until the run ends.

A fresh interpreter begins as a fork server: it imports what the calls will need, makes none itself, and forks workers,
so that one that has died is replaced in milliseconds. Forking is safe while there is but one thread; where there are
more, and for devices other than the CPU, the fork server becomes the worker, and the next one starts from nothing.
Nothing here imports the specifications.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NoReturn, TypeVar

from attnspec import adapters

from ..errors import Error, TargetError
from ..frameworks.known import framework_named
from . import guard, orphans, sources
from .calling import DirectCaller, Reply
from .faults import Fault, raised
from .interpretation import interpreting
from .large import extremes, held, part
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
    declaration,
    receive,
    refused,
    send,
    understood,
)
from .programs import AnswerError, EndedError, capabilities
from .questions import ProgramCaller
from .survey import surveyed
from .transport import CLOSED, GoneError, Wire

FAILED = 70
"""The exit status of a worker that has failed by itself."""
T = TypeVar("T")

# The fork server


def main() -> None:
    """Serve the socket whose number is the first argument."""
    serve(socket.socket(fileno=int(sys.argv[1])))


def serve(end: socket.socket) -> NoReturn:
    """Serve a socket in a process that has made no calls yet."""
    wire = Wire(end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interruption is the run's to handle
    orphans.end_with_parent()
    orphans.inherit()
    os.environ.pop(orphans.MARK, None)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with suppress(GoneError):
        _tend(wire)
    os._exit(0)  # what an implementation has left behind may be in no state to be taken down in order


def _tend(wire: Wire) -> None:
    asked, home = receive(wire, Load), os.getpid()
    start = asked.start
    if asked.paths:
        sys.path[:] = asked.paths
    loaded = _answer(lambda: _loaded(start))
    if os.getpid() != home:
        os._exit(0)  # the file has forked, and this is not the process that serves the wire
    send(wire, loaded)
    if isinstance(loaded, Refused):
        return
    forked, found = set[int](), orphans.children()
    while True:
        data, files = wire.receive_with_files(2)
        message = understood(data, Declared, Surveyed, Ended, Begin)
        if isinstance(message, Declared):
            send(wire, _answer(lambda asked=message.function: _declarations(start.path, asked)))
        elif isinstance(message, Surveyed):
            send(wire, _answer(lambda one=message: surveyed(Path(start.path), one.name, one.roles)))
        elif isinstance(message, Ended):
            forked.discard(message.pid)
            send(wire, _end(message.pid, spared=forked | found))
        elif loaded.forks:
            forked.add(_fork(wire, message, *files))
        else:
            _print_to(*files)
            _serve(wire)


def _loaded(start: Start) -> Loaded:
    if start.path:
        guard.close()
        os.chdir(start.folder)
        sources.load(Path(start.path))
    else:
        framework_named(start.framework)
    return Loaded(start.forks and _threads() == 1)


def _end(pid: int, spared: set[int]) -> Status:
    """End a process, if it has not ended yet, and what it has left behind."""
    orphans.await_end(pid)
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    status = orphans.status_of(pid)
    orphans.end_children(spared)
    return Status(pid, () if status is None else (status,))


def _fork(wire: Wire, begin: Begin, end: int, log: int) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(end)
        os.close(log)
        send(wire, Forked(pid))
        return pid
    try:
        wire.close()
        orphans.end_with_parent()
        orphans.inherit()
        os.setsid()
        _print_to(log)
        os.environ.clear()
        os.environ.update(begin.environment)
        (_tend if begin.fork_server else _serve)(Wire(socket.socket(fileno=end)))
    except GoneError as error:
        os._exit(0 if str(error) == CLOSED else _failed())
    except BaseException:
        os._exit(_failed())
    os._exit(0)


def _failed() -> int:
    """Print what has gone wrong here, and not in an implementation; the exit status of that."""
    traceback.print_exc()
    sys.stderr.flush()
    return FAILED


def _print_to(log: int) -> None:
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.enable(2)


def _declarations(path: str, function: str) -> Declarations:
    return Declarations(tuple(declaration(found) for found in sources.declared(Path(path), function)))


def _answer(ask: Callable[[], T]) -> T | Refused:
    """What was asked for, or the error in its place."""
    try:
        return ask()
    except Error as error:
        return refused(error)


def _threads() -> int:
    """How many threads this process has; 0 where that cannot be told."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 0


# The worker


def _serve(wire: Wire) -> None:
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # if memory runs out, it is not the run that ends
    home = os.getpid()
    callers: dict[int, DirectCaller] = {}
    with ExitStack() as sessions:
        while True:
            asked = receive(wire, Ask)
            if isinstance(asked.what, Open):
                what = _answer(lambda one=asked.what: _open(one, callers, sessions))
            elif isinstance(asked.what, Offer):
                what = _answer(lambda one=asked.what: _offer(one))
            elif isinstance(asked.what, Rest):
                callers[asked.what.key].rest()
                what = Opened()
            elif isinstance(asked.what, Hold):
                what = held(callers[asked.what.key], asked.what.call)
            elif isinstance(asked.what, Part):
                what = Entries(part(callers[asked.what.key], asked.what.name, asked.what.box))
            elif isinstance(asked.what, Extremes):
                what = Entries(extremes(callers[asked.what.key], asked.what.name))
            else:
                what = _made(callers[asked.what.key], asked.what)
            if os.getpid() != home:
                os._exit(0)  # an implementation has forked, and this is not the process that was asked
            _flush()
            _send(wire, Answer(asked.number, home, what))


def _open(asked: Open, callers: dict[int, DirectCaller], sessions: ExitStack) -> Opened:
    if asked.served is not None:
        callers[asked.key] = ProgramCaller(asked.served, asked.name, asked.interface)
    else:
        if asked.path:
            sessions.enter_context(interpreting(Path(asked.path)))
        adapter = _adapter(asked)
        callers[asked.key] = DirectCaller(adapter.function, asked.framework, asked.interface, alone=True)
    sessions.enter_context(callers[asked.key].session())
    return Opened()


def _offer(asked: Offer) -> Capabilities:
    try:
        return Capabilities(json.dumps(capabilities(asked.served)))
    except (AnswerError, EndedError) as error:
        raise TargetError(str(error)) from None


def _adapter(asked: Open) -> adapters.Adapter:
    path = Path(asked.path)
    if not asked.module.startswith(f"{adapters.__name__}."):
        guard.close()
    module = sources.load(path) if asked.path else importlib.import_module(asked.module)
    found = [a for a in adapters.registered() if (a.module, a.name) == (module.__name__, asked.name)]
    return (found or sources.declared(path, asked.name))[0]


def _made(caller: DirectCaller, make: Make) -> Made:
    try:
        reply = caller.call(make.call)
    except BaseException as error:  # even one that is meant to end a program
        reply = Reply(fault=raised(error))
    return Made(reply, caller.memory)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def _send(wire: Wire, answer: Answer) -> None:
    """Send an answer; one that no message can hold is told as a fault."""
    try:
        send(wire, answer)
    except (TypeError, ValueError) as error:
        fault = Fault("returned", f"returned a value that cannot be sent: {error}")
        send(wire, Answer(answer.number, answer.pid, Made(Reply(fault=fault), 0)))
