"""The audit of all mechanisms.

* Definition, reference and examples agree, under every word of every convention.
* Every known mistake is refuted, in every dtype; and put into the definition, it is noticed by the reference.
* Every known mistake is right on cases that do not touch what it is about.
* Every law refutes a known mistake, unless it is marked as a contract, and every law is reached by some case.
* A subject that declares one word of a convention and follows another is refuted.
* Functions that are wrong in ways which no changed line of a definition expresses are refuted, in each of their dtypes.
* Correct implementations that compute in other ways pass, and hardly ever because a bound is too wide to say anything.

That a law refutes a mistake is decided in float64 and with slack, so that no law is credited with a mistake that merely
left an error budget.
"""

from __future__ import annotations

import atexit
import gc
import itertools
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from ..execution import orphans
from ..mechanisms.evidence import write
from ..mechanisms.library import Library
from ..mechanisms.loader import NONE, Specs, mechanism_named
from ..subjects.registered import families
from .correct import CONTROLS, controls, draws_of, told, tried
from .earlier import Earlier
from .faulty import audited_faults, faults_of
from .mechanism import audited_mechanism
from .parts import Part

Key = tuple[str, str, str]
"""What a task is about: its kind, a mechanism or an operator, and which of several tasks of that it is."""
TOGETHER = 32
"""Faults of an operator that one process tries in a row."""


def audited(
    names: Sequence[str] = (),
    *,
    deep: bool = False,
    workers: int = 1,
    specs: Specs = NONE,
    earlier: Earlier | None = None,
) -> Iterator[Part]:
    """The audit, part by part: the mechanisms, then every correct variant, then every fault.

    With `earlier`, what earlier audits found is taken from there, where nothing has changed on which it depends.
    Unknown mechanisms are a `UsageError`.
    """
    known = specs.library()
    wanted = wanted_of(known, names)
    correct, wrong = controls(known, wanted), faults_of(known, wanted)
    tasks = tasks_of(known, wanted, correct, wrong, specs, deep=deep)
    with _found(tasks, workers, specs, earlier) as found:
        for name in wanted:
            yield found(("mechanism", name, ""))
        for operator, variants in correct.items():
            own = [found(key) for key in tasks if key[:2] == ("correct", operator)]
            yield from told(operator, variants, own)
        for key in tasks:
            if key[0] == "wrong":
                yield from found(key)


@contextmanager
def _found(
    tasks: Mapping[Key, Task], workers: int, specs: Specs, earlier: Earlier | None
) -> Iterator[Callable[[Key], Any]]:
    """What comes of each task, by its key: done when it is asked for, or before by one of several processes."""
    known = {key: earlier.get(*_kept_as(key, task)) for key, task in tasks.items()} if earlier is not None else {}
    left = {key: task for key, task in tasks.items() if known.get(key) is None}
    pool = (
        ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _settle, (specs,)) if workers > 1 else None
    )
    with pool or nullcontext():
        longest_first = sorted(left, key=lambda key: -left[key].seconds)
        begun = {key: pool.submit(left[key].run, *left[key].arguments) for key in longest_first} if pool else {}

        def found(key: Key) -> Any:
            if key not in left:
                return known[key]
            task = left[key]
            result = begun[key].result() if key in begun else task.run(*task.arguments)
            if earlier is not None:
                earlier.put(*_kept_as(key, task), result)
            return result

        try:
            yield found
        finally:
            if earlier is not None:
                earlier.keep()


def _kept_as(key: Key, task: Task) -> tuple[str, str, tuple[Any, ...]]:
    """As what the result of a task is kept: its kind, one of its mechanisms, and what it is of."""
    kind, about, of = key
    return kind, of if kind == "correct" else about, task.arguments[:-1]


@dataclass(frozen=True, slots=True)
class Task:
    """A part of an audit that one process does; what shares its cases and bounds is one."""

    seconds: float
    """About how much CPU time it takes, as seen on one machine: long ones are begun first, so that all end together."""
    run: Callable[..., Any]
    arguments: tuple[Any, ...]
    """What it is of; where specifications are comes last."""


def tasks_of(
    known: Library,
    wanted: Sequence[str],
    correct: Mapping[str, Sequence[str]],
    wrong: Mapping[str, Sequence[str]],
    specs: Specs,
    *,
    deep: bool,
) -> dict[Key, Task]:
    """The tasks of an audit, by what they are about: mechanisms, correct variants on each mechanism, some faults."""
    tasks = dict[Key, Task]()
    for name in wanted:
        m = known[name]
        seconds = 1 + 0.006 * len(m.mistakes) * (1 + len(m.laws))
        tasks["mechanism", name, ""] = Task(seconds, _part, (name, specs))
    for operator, names in correct.items():
        own = [m for m in known.of(operator) if m.name in wanted]
        draws = draws_of(len(own), deep=deep)
        for m in own:
            seconds = 0.036 * len(names) * (len(m.scenarios) + CONTROLS.covering + draws + len(m.laws))
            tasks["correct", operator, m.name] = Task(seconds, tried, (names, m.name, draws, specs))
    for operator, names in wrong.items():
        for start in range(0, len(names), TOGETHER):
            some = names[start : start + TOGETHER]
            tasks["wrong", operator, str(start)] = Task(1 + 0.35 * len(some), audited_faults, (some, specs))
    return tasks


def derive(names: Sequence[str] = (), *, workers: int = 1, specs: Specs = NONE) -> Iterator[Part]:
    """The mechanisms alone, and what their scenarios show of their mistakes written beside their specifications."""
    known = specs.library()
    wanted = wanted_of(known, names)
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _settle, (specs,)) as pool:
        for part in pool.map(_part, wanted, itertools.repeat(specs)):
            if part.evidence is not None:
                write(known[part.name], part.evidence)
            yield part


def wanted_of(known: Library, names: Sequence[str]) -> tuple[str, ...]:
    """The mechanisms that were named; where none was, those of further folders, or all of them."""
    return tuple(mechanism_named(name, known).name for name in names) or tuple(known.files if known.folders else known)


def _settle(specs: Specs) -> None:
    """Load what stays as long as a worker does, and have its garbage looked for less often, and not in that.

    When the worker ends, nothing is looked for any more.
    """
    orphans.end_with_parent()
    specs.library()
    families("controls")
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    atexit.register(gc.freeze)


def _part(name: str, specs: Specs) -> Part:
    return audited_mechanism(specs.library()[name])
