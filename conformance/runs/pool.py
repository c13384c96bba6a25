"""Worker processes that run the groups they are given, and send the cells back.

A process resolves the targets of its groups by itself: what crosses between them is JSON.
One that dies costs a group one try; after the second, the cells of the group have no verdict.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from ..errors import Error
from ..execution import orphans
from ..execution.process import Process, ended
from ..execution.processes import interpreter
from ..execution.transport import GarbledError, GoneError, Wire
from ..reporting.records import CellLine
from .groups import Group, groups
from .interruptions import wait_for_the_end
from .options import Options
from .runner import Runner

PROGRAM = "from attnspec.runs.pool import main; main()"
TRIES = 2
"""How often a group is begun."""
SLICE = 0.25
"""Seconds between two looks at processes of which nothing is heard."""
Cells = list[CellLine]


class StartError(Error):
    """Processes that end before they can be asked for anything."""


@dataclass(slots=True)
class _Process:
    """One of them, and what it is at work on."""

    process: Process
    ready: bool = False
    group: Group | None = None
    subject: str = ""
    """Of the last group that it was given."""

    def give(self, group: Group) -> None:
        self.group, self.subject = group, group.subject.name
        with suppress(GoneError):  # which is found when it is listened to
            _say(self.process.wire, [group.target, group.key, list(group.laws)])

    def message(self) -> Any:
        """What it says, None if that is not whole yet; `GoneError` if it has ended, or is of no use."""
        try:
            found = _heard(self.process.wire, SLICE)
        except TimeoutError:
            return None
        self.process.log.trim()
        return found

    def end(self) -> str:
        """End it and all that it has started; what is to be said of how it ended."""
        self.process.close()
        return ": ".join([ended(self.process.status), *self.process.printed.splitlines()[-1:]])


class Pool:
    """So many processes, which end with it."""

    def __init__(self, runner: Runner, count: int) -> None:
        self._runner, self._count = runner, count
        self._processes: list[_Process] = []
        self._failed_starts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._processes:
            orphans.kill(one.process.pid)
        for one in self._processes:
            one.end()
        self._processes.clear()

    def run(self, wanted: Sequence[Group], begins: Callable[[Group], None]) -> Iterator[Cells]:
        """The cells of groups, in whatever order they are found; `StartError` if no process comes to run any."""
        waiting, tries = [*wanted], dict.fromkeys((group.key for group in wanted), 0)
        while waiting or any(one.group for one in self._processes):
            while len(self._processes) < min(self._count, len(waiting) + len(self._busy)):
                self._processes.append(self._started())
            for one in self._processes:
                if one.ready and one.group is None and waiting:
                    group = self._next(one, waiting)
                    waiting.remove(group)
                    tries[group.key] += 1
                    one.give(group)
                    begins(group)
            for one in self._heard():
                try:
                    message = one.message()
                except GoneError:
                    yield from self._lost(one, waiting, tries)
                    continue
                if message == "ready":
                    one.ready, self._failed_starts = True, 0
                elif message == "interrupted":
                    raise KeyboardInterrupt
                elif message is not None:
                    one.group = None
                    yield message

    @property
    def _busy(self) -> list[_Process]:
        return [one for one in self._processes if one.group is not None]

    def _next(self, one: _Process, waiting: Sequence[Group]) -> Group:
        """A group of the subject that a process has at hand, else of one that no other has, else any."""
        others = {other.subject for other in self._busy}
        own = [group for group in waiting if group.subject.name == one.subject]
        free = [group for group in waiting if group.subject.name not in others]
        return (own or free or waiting)[0]

    def _heard(self) -> list[_Process]:
        """The processes that have said something or ended, after a while none."""
        with selectors.DefaultSelector() as selector:
            for one in self._processes:
                selector.register(one.process.wire.end, selectors.EVENT_READ, one)
            return [key.data for key, _ in selector.select(SLICE)]

    def _lost(self, one: _Process, waiting: list[Group], tries: dict[tuple[str, ...], int]) -> Iterator[Cells]:
        """Have the group of a process that has ended tried again, or give its cells as they are without a verdict."""
        self._processes.remove(one)
        says, group = one.end(), one.group
        if not one.ready:
            self._failed_starts += 1
            if self._failed_starts >= TRIES * self._count:
                raise StartError(f"a process that was to run groups {says}")
        if group is None:
            return
        if tries[group.key] < TRIES:
            waiting.insert(0, group)
            return
        told, device = f"the process that ran it {says}, {TRIES} times", self._runner.options.device
        yield [group.internal(law, device, told, "") for law in group.laws]

    def _started(self) -> _Process:
        options, deadline = self._runner.options, self._runner.deadline
        if deadline is not None:
            options = replace(options, max_time=max(deadline - time.monotonic(), 0.0))
        ours, theirs = socket.socketpair()
        with theirs:
            process = interpreter(Wire(ours), [PROGRAM, str(theirs.fileno())], os.environ, [theirs.fileno()])
        with suppress(GoneError):
            _say(process.wire, {"path": sys.path, "options": asdict(options)})
        return _Process(process)


# The program of such a process


def main() -> None:
    """Run groups as they are asked for, until nobody asks any more."""
    wait_for_the_end()
    orphans.end_with_parent()
    number = int(sys.argv[1])
    os.set_inheritable(number, False)
    wire = Wire(socket.socket(fileno=number))
    with suppress(GoneError):
        first = _heard(wire)
        sys.path[:] = first["path"]
        worker = Worker(first["options"])
        _say(wire, "ready")
        while True:
            asked = _heard(wire)
            try:
                _say(wire, worker.cells(*asked))
            except KeyboardInterrupt:  # raised by what is called
                _say(wire, "interrupted")


def _say(wire: Wire, message: Any) -> None:
    """Send what records are made of: it is JSON, for their numbers may be of any size."""
    wire.send(json.dumps(message))


def _heard(wire: Wire, seconds: float | None = None) -> Any:
    """What the other side has said; `GarbledError` where somebody else has written to the wire."""
    try:
        return json.loads(wire.receive(seconds))
    except (ValueError, TypeError):
        raise GarbledError("sent an invalid message") from None


class Worker:
    """What a process has resolved, and runs."""

    def __init__(self, options: dict[str, Any]) -> None:
        asked: dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in options.items()}
        self.options = Options(**asked)
        self.runner = Runner(self.options)
        self.groups: dict[str, dict[tuple[str, ...], Group]] = {}

    def renew(self, left: float | None) -> None:
        """Forget what was found, and have so many seconds left."""
        self.runner = Runner(replace(self.options, max_time=left))

    def cells(self, target: str, key: Sequence[str], laws: Sequence[str]) -> Cells:
        """The cells of the group that another process knows by the same target and key."""
        if target not in self.groups:
            own = groups(replace(self.options, targets=(target,), shard="", require=()))
            self.groups[target] = {group.key: group for group in own}
        return self.runner.cells(self.groups[target][tuple(key)], laws)
