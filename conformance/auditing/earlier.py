"""Results of earlier audits, kept on disk for as long as nothing has changed on which they depend.

A result depends on the specifications that its mechanisms are made of, on their evidence, on the code of attnspec with
all adapters, and on what computes for it; the key of an entry has all of it. Only results without faults are kept.
"""

from __future__ import annotations

import functools
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import msgpack

import attnspec
from attnspec import adapters, reference, spec

from ..cases.disk import machine
from ..data.store import Store, digest
from ..mechanisms.compiled import called
from ..mechanisms.evidence import Evidence, path_of
from ..mechanisms.library import Library
from ..mechanisms.mechanism import Mechanism, reached_from
from .correct import Bounds, Tried
from .mutation import Refutation
from .parts import Part

STORE = Store("audits", 32 << 20)
COMPUTING = ("CUDA_", "JAX_", "MKL_", "NPY_", "NUMPY_", "OMP_", "OPENBLAS_", "PYTORCH_", "TORCH", "TRITON_", "XLA_")
"""How the names of variables begin that say how something is computed."""
MECHANISM = "mechanism"
"""The kind of what is audited of a mechanism without any function."""


class Earlier:
    """The results of earlier audits of a library, and how many of them are right still."""

    def __init__(self, library: Library, *, fresh: bool = False) -> None:
        """With `fresh`, nothing is taken from them, and what is found is kept all the same."""
        self.library, self.fresh = library, fresh
        self.asked, self.taken = Counter[str](), Counter[str]()
        """How many results were asked for, and how many were there, by kind."""
        self._around = surroundings()
        self._stated: dict[tuple[str, ...], str] = {}
        """A digest of what mechanisms need, as it was at first."""
        self._found: list[tuple[str, str, tuple[str, ...], Any]] = []
        """What is to be kept: its key, its kind, its mechanisms, and the result."""

    def get(self, kind: str, name: str, what: Sequence[Any]) -> Any:
        """What an earlier audit found of `what`; None where there was none, or where it is out of date.

        `name` is that of its mechanism, or of its operator.
        """
        self.asked[kind] += 1
        key = self._key(kind, name, what)
        raw = STORE.get(key) if key and not self.fresh else None
        if raw is None:
            return None
        try:
            found = _READERS[kind](msgpack.unpackb(raw))
        except (ValueError, TypeError, LookupError):
            STORE.drop(key)
            return None
        self.taken[kind] += 1
        return found

    def put(self, kind: str, name: str, what: Sequence[Any], found: Any) -> None:
        """Take note of what was found, which `keep` keeps if there is no fault in it."""
        key = self._key(kind, name, what)
        if key and not any(_faults(found)):
            self._found.append((key, kind, self._own(kind, name), found))

    def keep(self) -> None:
        """Keep what was found, if nothing has changed since: processes read specifications and code when they begin."""
        if not self._found or surroundings() != self._around:
            return
        now = {own: stated(self.library, own) for own in {own for _, _, own, _ in self._found}}
        for key, kind, own, found in self._found:
            if now[own] == self._stated[own]:
                STORE.put(key, bytes(msgpack.packb(_WRITERS[kind](found)) or b""))
        self._found = []

    def told(self) -> str:
        """How many results are those of earlier audits, after a semicolon; nothing where none is."""
        functions = self.asked.total() - self.asked[MECHANISM]
        parts = [f"{self.taken[MECHANISM]} of {self.asked[MECHANISM]} mechanisms"]
        if functions:
            taken = self.taken.total() - self.taken[MECHANISM]
            parts.append(f"{taken} of {functions} groups of correct variants and faults")
        return f"; unchanged since an earlier audit: {', '.join(parts)}" if self.taken else ""

    def _key(self, kind: str, name: str, what: Sequence[Any]) -> str:
        """The key of a result; nothing where a file of the user computes, which may read any other."""
        if self.library.references:
            return ""
        own = self._own(kind, name)
        if own not in self._stated:
            self._stated[own] = stated(self.library, own)
        return digest(self._around, self._stated[own], kind, repr(what))

    def _own(self, kind: str, name: str) -> tuple[str, ...]:
        """The mechanisms that a result is about: all of an operator, but for what is asked of a further one alone.

        Conventions are told apart on the scenarios of all of them, and a function is asked for what each of them takes.
        """
        operator = self.library.operator_of(name)
        if kind == MECHANISM and name != operator:
            return (name,)
        return tuple(m.name for m in self.library.of(operator))


def stated(library: Library, names: Sequence[str]) -> str:
    """A digest of all specifications on which the audit of mechanisms depends, and of their evidence."""
    own = [part for m in needed(library, names) for part in (m.name, m.digest, _text(library, m), _evidence(m))]
    return digest(*library.stating, "of", *own)


def needed(library: Library, names: Sequence[str]) -> list[Mechanism]:
    """Mechanisms, those of their operators, all that these call, and so on."""

    def further(m: Mechanism) -> Iterator[Mechanism]:
        yield from map(library.__getitem__, filter(None, (m.operator, *called(m), m.gradient_of)))

    return reached_from(map(library.__getitem__, names), further)


def _text(library: Library, mechanism: Mechanism) -> bytes:
    """The specification as it is on disk now, where a process reads it that begins now."""
    file = library.file_of(mechanism.name)
    return _content(file.path) if file is not None else b""


def _evidence(mechanism: Mechanism) -> bytes:
    """What the order of scenarios follows from."""
    return _content(path_of(mechanism))


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def surroundings() -> str:
    """A digest of all that any audit depends on, beside specifications and evidence."""
    folders = [Path(str(package.__file__)).parent for package in (attnspec, adapters, reference)]
    sources = [file for folder in folders for file in sorted(folder.rglob("*.py"))]
    data = Path(str(spec.__file__)).parent
    beside = [file for file in sorted(data.rglob("*")) if file.is_file() and not _is_of_one_mechanism(file, data)]
    texts = [part for file in (*sources, *beside) for part in (str(file), file.read_bytes())]
    chosen = sorted(f"{name}={x}" for name, x in os.environ.items() if name.startswith(COMPUTING))
    return digest(machine(), sys.version, str(os.cpu_count()), *chosen, "of", *installed(), "of", *texts)


def _is_of_one_mechanism(file: Path, data: Path) -> bool:
    """Whether a file of the folder of specifications is one, or evidence; or is nothing that is read."""
    return file.parent.name in ("evidence", "__pycache__") or (file.parent == data and file.suffix == ".yaml")


def installed() -> list[str]:
    """The packages that can be imported, with their versions, as the names of their folders have them."""
    places = [Path(entry) for entry in sys.path if entry and Path(entry).is_dir()]
    named = {file.name for place in places for file in place.iterdir()}
    return sorted(name for name in named if name.endswith((".dist-info", ".egg-info")))


# In plain data


def _faults(found: Any) -> Iterator[str]:
    if isinstance(found, Tried):
        yield from (fault for faults in found.accused.values() for fault in faults)
        return
    for part in found if isinstance(found, list) else [found]:
        yield from part.faults


def _part(part: Part) -> list[Any]:
    kills = {mistake: [[*astuple(each)] for each in kill] for mistake, kill in part.kills.items()}
    evidence = part.evidence and [part.evidence.digest, dict(part.evidence.milliseconds), dict(part.evidence.shows)]
    return [part.name, kills, [*part.laws], part.notes, evidence]


def _part_of(x: Any) -> Part:
    name, kills, laws, notes, evidence = x
    made = {mistake: [Refutation(*each) for each in kill] for mistake, kill in kills.items()}
    return Part(name, made, tuple(laws), notes=notes, evidence=evidence and Evidence(*evidence))


def _tried(tried: Tried) -> list[Any]:
    bounds = (tried.bounds.telling, tried.bounds.vacuous)
    return [dict(tried.cases), [*tried.accused], [[[*key, n] for key, n in each.items()] for each in bounds]]


def _tried_of(x: Any) -> Tried:
    cases, names, (telling, vacuous) = x
    bounds = Bounds()
    for own, counts in ((bounds.telling, telling), (bounds.vacuous, vacuous)):
        own.update({(address, dtype): n for address, dtype, n in counts})
    return Tried(Counter(cases), {name: [] for name in names}, bounds)


def _each(convert: Callable[[Any], Any], parts: Iterable[Any]) -> list[Any]:
    return [convert(part) for part in parts]


_WRITERS: dict[str, Callable[[Any], Any]] = {
    MECHANISM: _part,
    "correct": _tried,
    "wrong": functools.partial(_each, _part),
}
_READERS: dict[str, Callable[[Any], Any]] = {
    MECHANISM: _part_of,
    "correct": _tried_of,
    "wrong": functools.partial(_each, _part_of),
}
