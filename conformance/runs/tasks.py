"""The work of a check as a list of commands, one for each subject, dtype and kind of device."""

from __future__ import annotations

import itertools
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict

from ..errors import UsageError
from ..execution.addresses import EXEC, PLACE
from ..execution.interpreters import parted
from ..frameworks.framework import kind_of
from ..subjects.registered import runs_on
from ..subjects.subject import AdapterSubject, Subject
from ..subjects.targets import file_of, resolve
from .classes import declared
from .durations import Key, expected
from .groups import chosen, library_of, supervisor_of
from .options import OPTIONS, Options


class Task(TypedDict):
    """A command, and what it is of."""

    id: str
    """Letters, digits, dots, hyphens and underscores; of each task another one."""
    subject: str
    target: str
    dtype: str
    device: str
    seconds: float
    """How long it is likely to take."""
    command: str


def tasks(options: Options, devices: Sequence[str], known: Mapping[Key, float], given: Mapping[str, Any]) -> list[Task]:
    """The tasks of a check on some kinds of devices, the longest first; `given` are the options of every command."""
    laws, found = chosen(options, library_of(options)), list[Task]()
    for target, subject in _subjects(options):
        mechanisms = laws(subject.operator)
        dtypes = [d for d in options.dtypes or subject.claims.dtypes if _takes(subject, d)] if mechanisms else []
        for device, dtype in itertools.product(devices, dtypes):
            if not _runs(subject, device):
                continue
            keys = [(subject.name, mechanism, dtype, kind_of(device)) for mechanism in mechanisms]
            label = _label(subject.name, dtype, device)
            task: Task = {
                "id": label,
                "subject": subject.name,
                "target": target,
                "dtype": dtype,
                "device": device,
                "seconds": round(sum(expected(key, known) for key in keys), 3),
                "command": _command(target, dtype, device, label, given),
            }
            found.append(task)
    double = [label for label, count in Counter(task["id"] for task in found).items() if count > 1]
    if double:
        raise UsageError(f"two tasks are named {double[0]!r}; give one subject another name")
    return sorted(found, key=lambda task: -task["seconds"])


def _subjects(options: Options) -> Iterator[tuple[str, Subject]]:
    """All subjects, whatever they run on, each with a target that names it alone."""
    known, supervised = library_of(options), supervisor_of(options)
    more: dict[str, Any] = {name: getattr(options, name) for name in ("operator", "framework", "layout", "like")}
    for target in options.targets:
        stated, _ = declared(target, options, supervised, known)
        found = resolve(stated, device=None, supervisor=supervised, known=known, **more)
        yield from ((target if len(found) == 1 else _alone(target, subject), subject) for subject in found)


def _takes(subject: Subject, dtype: str) -> bool:
    return dtype in subject.claims.dtypes or not subject.claims.declared


def _runs(subject: Subject, device: str) -> bool:
    return runs_on(subject.adapter, device) if isinstance(subject, AdapterSubject) else kind_of(device) == "cpu"


def _alone(target: str, subject: Subject) -> str:
    """A target that names one of several subjects alone."""
    name = subject.adapter.name if isinstance(subject, AdapterSubject) else subject.name
    if target.startswith(EXEC):
        return f"{target}{PLACE}{name}"
    if file_of(target) is None:
        raise UsageError(f"{target} has several subjects, and {subject.name} cannot be named alone; name an operator")
    path, python = parted(target)
    return f"{path}:{name}" + (f"@{python}" if python else "")


def _label(*parts: str) -> str:
    return "-".join(re.sub(r"[^\w.]+", "_", part, flags=re.ASCII) for part in parts)


def _command(target: str, dtype: str, device: str, label: str, given: Mapping[str, Any]) -> str:
    words = ["attnspec", "check", target, "--dtype", dtype, "--device", device]
    for name, x in given.items():
        flag = f"--{OPTIONS[name].flag}"
        for value in x if OPTIONS[name].several else (x,):
            words += [flag] if value is True else [f"--no-{flag[2:]}"] if value is False else [flag, str(value)]
    return shlex.join([*words, "--report-dir", f"attnspec-report/{label}"])
