"""Workload files: the kernel calls of a program, by operator, sizes, strides and options, with counts.

A file is lines of JSON. The first says which version of the format it is in; every other one is a call that was made
so many times, or calls that no operator takes. `spec/workload.schema.json` has every key with its meaning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..data import records
from ..data.files import read_text, replace_text
from ..data.records import anything, by_name, keys, name, one_of, several, text, truth, whole
from ..errors import UsageError, did_you_mean
from ..numerics.formats import FORMATS
from ..numerics.streams import digest
from .library import Library
from .mechanism import Mechanism

VERSION = 1
"""The version of the format that is written, and the only one that is read."""
MOST = 64 << 20
"""Bytes that a file may have."""
LONGEST = 10_000_000
"""The longest axis."""


@dataclass(frozen=True, slots=True)
class Use:
    """One call of an operator, and how often it was made."""

    operator: str
    dtype: str
    sizes: Mapping[str, int]
    options: Mapping[str, Any] = field(default_factory=dict)
    """Those that are not at their default."""
    optional: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The shapes of the optional inputs that are passed."""
    strides: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The strides, in entries, of inputs that are not contiguous; with the axes as the operator has them."""
    most: Mapping[str, int] = field(default_factory=dict)
    """The largest entry of inputs that hold lengths."""
    count: int = 1
    interface: str = ""
    """The interface by which it was called."""
    device: str = "cpu"
    gradient: bool = False
    """Whether gradients were wanted."""

    @property
    def key(self) -> str:
        """A short name for the call, the same in every workload."""
        told = [*self._parts.values(), self.operator, self.dtype]
        return f"{digest('use', json.dumps(told, sort_keys=True), size=4):08x}"

    @property
    def _parts(self) -> dict[str, Any]:
        shaped = {"optional": self.optional, "strides": self.strides}
        found = {"sizes": dict(self.sizes), "options": dict(self.options), "most": dict(self.most)}
        return {**found, **{part: {n: list(x) for n, x in own.items()} for part, own in shaped.items()}}

    @property
    def line(self) -> dict[str, Any]:
        """The call as a line of a file."""
        found: dict[str, Any] = {"kind": "use", "operator": self.operator, "dtype": self.dtype}
        found |= {part: own for part, own in self._parts.items() if own or part == "sizes"}
        found |= {"interface": self.interface} if self.interface else {}
        return {**found, "device": self.device, "gradient": self.gradient, "count": self.count}

    def __str__(self) -> str:
        given = {**self.sizes, **self.options, **{n: list(shape) for n, shape in self.optional.items()}}
        return ", ".join(f"{n} = {x}" for n, x in given.items())


@dataclass(frozen=True, slots=True)
class Left:
    """Calls that are said of no operator, and why."""

    interface: str
    says: str
    count: int = 1

    @property
    def line(self) -> dict[str, Any]:
        return {"kind": "left", "interface": self.interface, "says": self.says, "count": self.count}


@dataclass(frozen=True, slots=True)
class Workload:
    """What a program asks of its kernels, the most frequent first."""

    uses: tuple[Use, ...]
    left: tuple[Left, ...] = ()
    command: str = ""
    """The program, as it was typed."""
    ended: str = ""
    """How the program ended, if that is known."""

    @property
    def calls(self) -> int:
        """All calls, those of no operator among them."""
        return sum(one.count for one in (*self.uses, *self.left))

    @property
    def lines(self) -> list[dict[str, Any]]:
        head = {"kind": "workload", "version": VERSION, "command": self.command, "ended": self.ended}
        return [head, *(use.line for use in self.uses), *(one.line for one in self.left)]


def gathered(found: Iterable[Use | Left], command: str = "", ended: str = "") -> Workload:
    """A workload of calls, of which the same ones are counted together."""
    uses, left = dict[tuple[Any, ...], Use](), dict[tuple[str, str], Left]()
    for one in found:
        if isinstance(one, Use):
            place = (one.key, one.interface, one.device, one.gradient)
            uses[place] = replace(one, count=one.count + (uses[place].count if place in uses else 0))
        else:
            known = left.get((one.interface, one.says))
            left[one.interface, one.says] = replace(one, count=one.count + (known.count if known else 0))
    return Workload(
        tuple(sorted(uses.values(), key=lambda use: (-use.count, use.operator, use.key))),
        tuple(sorted(left.values(), key=lambda one: -one.count)),
        command,
        ended,
    )


def write(path: Path, workload: Workload) -> None:
    """Write a file, which takes the place of one that is there; `UsageError` where it cannot be written."""
    try:
        replace_text(path, "".join(json.dumps(line) + "\n" for line in workload.lines))
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


_LENGTHS = by_name(several(whole))
_SHAPES: dict[str, records.Shape] = {
    "use": keys(
        {"operator": name, "dtype": one_of(tuple(FORMATS)), "sizes": by_name(whole), "count": whole},
        {
            "options": by_name(anything),
            "optional": _LENGTHS,
            "strides": _LENGTHS,
            "most": by_name(whole),
            "interface": text,
            "device": text,
            "gradient": truth,
        },
    ),
    "left": keys({"interface": text, "says": text, "count": whole}),
}
_HEAD = keys({"kind": one_of(("workload",)), "version": whole}, {"command": text, "ended": text})
_KIND = keys({"kind": one_of(tuple(_SHAPES))})


def read(path: Path, library: Library) -> Workload:
    """A workload from its file; `UsageError` with file and line for what it may not hold."""
    lines = [(at, line) for at, line in enumerate(read_text(path, MOST).splitlines(), 1) if line.strip()]
    if not lines:
        raise UsageError(f"{path}: it is empty; a workload begins with its version")
    head = records.record(lines[0][1], _HEAD, path, lines[0][0])
    if head["version"] != VERSION:
        raise UsageError(f"{path}:{lines[0][0]}: version is {head['version']}; this attnspec reads {VERSION}")
    found: list[Use | Left] = []
    for at, line in lines[1:]:
        kind = records.record(line, _KIND, path, at)["kind"]
        data = records.record(line, _SHAPES[kind], path, at)
        found.append(Left(data["interface"], data["says"], data["count"]) if kind == "left" else _use(data))
        for fault in _faults(found[-1], library):
            raise UsageError(f"{path}:{at}: {fault}")
    return gathered(found, head.get("command", ""), head.get("ended", ""))


def _use(data: Mapping[str, Any]) -> Use:
    shaped = {part: {n: tuple(x) for n, x in data.get(part, {}).items()} for part in ("optional", "strides")}
    return Use(
        data["operator"],
        data["dtype"],
        data["sizes"],
        data.get("options", {}),
        shaped["optional"],
        shaped["strides"],
        data.get("most", {}),
        data["count"],
        data.get("interface", ""),
        data.get("device", "cpu"),
        data.get("gradient", False),
    )


def _faults(one: Use | Left, library: Library) -> Iterable[str]:
    """What an operator has not that a line speaks of."""
    if isinstance(one, Left):
        return
    operators = [known for known in library if library.operator_of(known) == known]
    if one.operator not in operators:
        yield f"unknown operator {one.operator!r}{did_you_mean(one.operator, operators)}"
        return
    m: Mechanism = library[one.operator]
    parts = {"sizes": m.sizes, "options": m.options, "strides": m.inputs, "most": m.required}
    for part, known in ({**parts, "optional": m.optional}).items():
        for given in getattr(one, part):
            if given not in known:
                yield f"{part} has {given!r}, which {m.name} has not{did_you_mean(given, known)}"
    fixed = {size for shape in m.shapes.values() for size in shape if size}
    for size in sorted(fixed - {*one.sizes}):
        yield f"sizes has no {size!r}, which {m.name} needs"
    for size, n in one.sizes.items():
        if n > LONGEST:
            yield f"sizes.{size} is {n:,}; expected at most {LONGEST:,}"
