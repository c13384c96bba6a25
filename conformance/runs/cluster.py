"""Groups on a Ray cluster: one task for each subject and dtype, which sends its cells as soon as it has them.

A task is a process that resolves its target by itself and runs its groups under supervision, as those of `pool` do;
what crosses is JSON. A node or process that is lost costs what its task has not sent yet: that is tried again, and
after the last try the cells have no verdict and say why.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import math
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from ..data.texts import safe
from ..errors import UsageError
from ..execution.devices import is_leased
from ..execution.threads import keep_to_one
from ..frameworks.framework import kind_of
from ..subjects.subject import AdapterSubject
from .durations import durations, expected
from .groups import Group
from .pool import TRIES, Cells, Worker
from .runner import Runner

SLICE = 1.0
"""Seconds between two looks at tasks of which nothing is heard."""
UNPLACED = 300.0
"""Seconds in which no task runs and none is begun, after which those that ask for the same are given up."""
AHEAD = 2
"""Tasks that are handed over for each processor of the cluster: enough that none waits for the driver."""


@dataclass(eq=False, slots=True)
class Task:
    """The groups of a subject at a dtype that have no cells yet."""

    groups: list[Group]
    asks: str
    """What it asks for as JSON, by the names that Ray has for it."""
    seconds: float
    """How long it is likely to take."""
    tries: int = 0
    begun: bool = False


class Cluster:
    """The cluster at RAY_ADDRESS, or one on this machine that ends with it."""

    def __init__(self, runner: Runner, workers: int = 0) -> None:
        """`workers` are the processors of a cluster on this machine; 0 stands for all. `UsageError` without Ray."""
        if importlib.util.find_spec("ray") is None:
            raise UsageError("--on ray needs Ray: pip install 'attnspec[ray]'")
        self._ray: Any = importlib.import_module("ray")
        self._runner, self._workers = runner, workers
        self._waiting: dict[str, deque[Task]] = {}
        """By what they ask for, the longest first."""
        self._running: dict[Any, Task] = {}
        """By the stream of what it sends."""
        self._own = False
        self._perform: Any = self._ray.remote(max_retries=0)(perform)

    def __enter__(self) -> Self:
        if not self._ray.is_initialized():
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            address = os.environ.get("RAY_ADDRESS")
            local = {"address": "local", "num_cpus": self._workers or None, "include_dashboard": False}
            self._ray.init(**({"address": address} if address else local), log_to_driver=False, logging_level="ERROR")
            self._own = True
        return self

    def __exit__(self, *_: object) -> None:
        self._cancel()
        if self._own:
            self._ray.shutdown()

    def run(self, wanted: Sequence[Group], begins: Callable[[Group], None]) -> Iterator[Cells]:
        """The cells of groups, in whatever order they are found."""
        for task in tasks_of(wanted, self._runner):
            self._waiting.setdefault(task.asks, deque()).append(task)
        heard, looked, room = time.monotonic(), -math.inf, 0
        while self._running or any(self._waiting.values()):
            if time.monotonic() - looked > SLICE:  # nodes come and go
                looked, room = time.monotonic(), AHEAD * max(int(self._ray.cluster_resources().get("CPU", 1)), 1)
            self._hand_over(room)
            for stream in self._heard():
                heard, task = time.monotonic(), self._running[stream]
                try:
                    message = json.loads(self._ray.get(next(stream)))
                except StopIteration:
                    del self._running[stream]
                    continue
                except self._ray.exceptions.RayError as error:
                    del self._running[stream]
                    yield from self._lost(task, error)
                    continue
                if "cells" in message:
                    task.groups = [group for group in task.groups if list(group.key) != message["key"]]
                    yield message["cells"]
                task.begun = True
                if task.groups:
                    begins(task.groups[0])
            if time.monotonic() - heard > UNPLACED and not any(task.begun for task in self._running.values()):
                yield from self._given_up()

    def _hand_over(self, room: int) -> None:
        """Hand over the longest tasks, of those that ask for the same no more than there is room for."""
        count = Counter(task.asks for task in self._running.values())
        for asks, waiting in self._waiting.items():
            for _ in range(min(room - count[asks], len(waiting))):
                task = waiting.popleft()
                task.tries += 1
                self._running[self._begun(task)] = task

    def _begun(self, task: Task) -> Any:
        """The stream of a task, which begins as soon as there is a place for it."""
        deadline, options = self._runner.deadline, asdict(replace(self._runner.options, targets=(), on=None))
        left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        wanted = [(group.target, group.key, group.laws) for group in task.groups]
        remote = self._perform.options(num_returns="streaming", **json.loads(task.asks))
        return remote.remote(json.dumps(options), left, os.getcwd(), wanted)

    def _heard(self) -> Sequence[Any]:
        """The streams that have something; after a while none."""
        streams = [*self._running]
        ready, _ = self._ray.wait(streams, num_returns=len(streams), timeout=0, fetch_local=False)
        if not ready:  # a look at all of them takes time, so whatever is there is taken at once
            ready, _ = self._ray.wait(streams, timeout=SLICE, fetch_local=False)
        return ready

    def _lost(self, task: Task, error: Exception) -> Iterator[Cells]:
        """Have the rest of a task tried again, or give its cells as they are without a verdict."""
        task.begun = False
        if task.tries < TRIES:
            self._waiting[task.asks].appendleft(task)
            return
        says = safe(" ".join(str(error).split()), 400)
        yield from self._untried(
            task, f"its task was lost in each of {task.tries} tries: {type(error).__name__}: {says}"
        )

    def _given_up(self) -> Iterator[Cells]:
        """The cells of all tasks that ask for what no node has."""
        asked = {task.asks for task in self._running.values()}
        given_up = [*self._running.values(), *(task for asks in asked for task in self._waiting.pop(asks))]
        self._cancel()
        for task in given_up:
            says = f"no node has started its task within {UNPLACED:g} s, which asks for {task.asks}"
            yield from self._untried(task, says)

    def _untried(self, task: Task, says: str) -> Iterator[Cells]:
        device = self._runner.options.device
        yield from (group.untried(device, says) for group in task.groups)

    def _cancel(self) -> None:
        for stream in self._running:
            self._ray.cancel(stream, force=True)
        self._running.clear()


def tasks_of(wanted: Sequence[Group], runner: Runner) -> list[Task]:
    """A task for each subject and dtype, the longest first."""
    options, parts = runner.options, dict[tuple[str, str, str], list[Group]]()
    for group in wanted:
        parts.setdefault((group.target, group.name, group.dtype), []).append(group)
    known, device = durations(options.balance), kind_of(options.device)

    def seconds(group: Group) -> float:
        return expected((group.name, group.mechanism.name, group.dtype, device), known)

    found = [
        Task(
            sorted(own, key=seconds, reverse=True), json.dumps(asked_of(own[0], options.device)), sum(map(seconds, own))
        )
        for own in parts.values()
    ]
    return sorted(found, key=lambda task: -task.seconds)


def asked_of(group: Group, device: str) -> dict[str, Any]:
    """What the task of a group asks for: a processor, devices, and the packages that its adapter says."""
    adapter = group.subject.adapter if isinstance(group.subject, AdapterSubject) else None
    kind, found = kind_of(device), dict[str, Any](num_cpus=1)
    if is_leased(device):
        found["num_gpus"] = 1
    elif kind != "cpu":
        found["resources"] = {kind.upper(): 1}
    if kind != "cpu" and adapter is not None and adapter.accelerator:
        found["accelerator_type"] = adapter.accelerator
    if adapter is not None and adapter.environment:
        found["runtime_env"] = {"pip": [*adapter.environment]}
    return found


# What runs on a node


def perform(
    asked: str, left: float | None, folder: str, wanted: Sequence[tuple[str, Sequence[str], Sequence[str]]]
) -> Iterator[str]:
    """Run groups, each a target, a key and laws: a message at the beginning, and one for each group, as JSON.

    `left` is how many seconds the run has left. Relative paths are those of the `folder` of the run, where it is there.
    """
    with suppress(OSError):
        os.chdir(folder)
    worker = _worker(asked)
    worker.renew(left)
    yield json.dumps({"begun": True})
    for target, key, laws in wanted:
        yield json.dumps({"key": key, "cells": worker.cells(target, key, laws)})


@functools.lru_cache(1)
def _worker(asked: str) -> Worker:
    """The targets that this process has resolved, which serve the tasks of a run that come after."""
    keep_to_one()
    return Worker(json.loads(asked))
