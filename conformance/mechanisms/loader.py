"""From YAML files to `Mechanism` values: the schema first, then names, then every expression.

All faults of a file are reported together, each with its place.
What is merely bad style, and not an error, is for the linter.
"""

from __future__ import annotations

import functools
import gc
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..data.files import read_text
from ..data.texts import safe
from ..errors import Place, SpecError, SpecErrors, UsageError, did_you_mean
from ..language.compiler import Takes
from ..numerics.budget import FILE_BYTES
from .builder import Reader
from .documents import parse
from .mechanism import Mechanism
from .schema import Document, place_of, schema_errors, spec_folder

ENDING = ".yaml"
"""Of the names of specification files."""
_NAMED = re.compile(r"""^[{ ]*["']?mechanism["']?[ ]*:""", re.MULTILINE)


@functools.cache
def library() -> Mapping[str, Mechanism]:
    """The shipped mechanisms by name, in alphabetical order."""
    return load(sorted(spec_folder().glob("*.yaml")))


def mechanism_named(name: str) -> Mechanism:
    """A shipped mechanism; an unknown name is a `UsageError`."""
    if name not in library():
        raise UsageError(f"unknown mechanism {name!r}{did_you_mean(name, library())}")
    return library()[name]


def load(paths: Iterable[Path], beside: Mapping[str, Mechanism] | None = None) -> dict[str, Mechanism]:
    """The mechanisms in files that may build on one another, and on those `beside` them.

    Raises `SpecErrors` with everything that is wrong.
    """
    collecting = gc.isenabled()
    gc.disable()  # hardly anything of what is made is garbage, and to look for it takes as long as to load
    try:
        return _loaded(paths, beside or {})
    finally:
        if collecting:
            gc.enable()


@dataclass(frozen=True, slots=True)
class _File:
    """A file in order as far as its schema goes: what messages call it, its text and its document."""

    shown: str
    text: str
    document: Document

    def get(self, key: str, default: Any) -> Any:
        return self.document.get(key, default)  # type: ignore[call-overload]


def _loaded(paths: Iterable[Path], beside: Mapping[str, Mechanism]) -> dict[str, Mechanism]:
    errors: list[SpecError] = []
    files: dict[str, _File] = {}
    broken: set[str] = set()
    for path in paths:
        try:
            file = _read(path)
        except SpecError as error:
            errors.append(error)
            broken.add(path.stem)
            continue
        faults = list(schema_errors(file.document)) or list(_misnamed(file.document, path))
        if path.stem in files:
            same = f"{files[path.stem].shown} has the same name"
            faults.append(SpecError(same, place_of(file.get("mechanism", None))))
        elif not faults:
            files[path.stem] = file
        if faults:
            errors += faults
            broken.add(path.stem)
    loading = _Loading(files, dict(beside))
    for name, file in files.items():
        if file.get("operator", name) in broken:
            continue
        try:
            loading.mechanism(name)
        except SpecError as error:
            errors.append(error)
        except SpecErrors as several:
            errors += several.errors
    if errors:
        raise SpecErrors(sorted({str(error): error for error in errors}.values(), key=_where))
    return loading.done


def _read(path: Path) -> _File:
    """A file with its document. Of a file that is no specification nothing is quoted: it may be a link to any other."""
    shown = _shown(path)
    if {ENDING} != {path.suffix, Path(os.path.realpath(path)).suffix}:
        raise SpecError(f"cannot read {shown}: the name of a specification ends in {ENDING}")
    text = read_text(path, FILE_BYTES, shown)
    try:
        document = parse(text, shown)
    except SpecError:
        if _NAMED.search(text):
            raise
        document = {}
    if "mechanism" not in document:
        told = "not a specification: no line begins with `mechanism: `; nothing of the file is shown"
        raise SpecError(told, Place(shown, 1, 1))
    return _File(shown, text, document)


def _where(error: SpecError) -> tuple[str, int, int]:
    """A line that is no expression confuses those after it, so faults come in the order of the file."""
    place = error.place
    return (place.file, place.line, place.column) if place else ("", 0, 0)


def _shown(path: Path) -> str:
    """A path as people would write it from where they are; a link by its own name."""
    try:
        return safe(str(Path(os.path.abspath(path)).relative_to(Path.cwd())))
    except ValueError:
        return safe(str(path))


def _misnamed(document: Document, path: Path) -> Iterable[SpecError]:
    name = document["mechanism"]  # type: ignore[index]
    if name != path.stem:
        yield SpecError(f"the file of mechanism {str(name)!r} is called {path.name!r}", place_of(name))


class _Loading:
    """The files of one load, compiled in the order in which they need one another."""

    def __init__(self, files: dict[str, _File], done: dict[str, Mechanism]) -> None:
        self.files, self.done = files, done

    @functools.cached_property
    def operators(self) -> dict[str, Takes]:
        """Every operator with what can be passed to it."""
        known = {
            m.name: Takes(m.required, frozenset({*m.signature, *m.conventions}))
            for m in self.done.values()
            if m.operator == m.name
        }
        for name, file in self.files.items():
            if file.get("operator", name) == name:
                parts = [file.get(key, {}) for key in ("inputs", "options", "conventions")]
                required = tuple(str(n) for n, text in parts[0].items() if not str(text).startswith("maybe("))
                known[name] = Takes(required, frozenset(str(n) for part in parts for n in part))
        return known

    def mechanism(self, name: str) -> Mechanism:
        if name not in self.done:
            file = self.files[name]
            operator = file.get("operator", name)
            base = None if operator == name else self.base(operator, name)
            self.done[name] = Reader(file.document, file.text, file.shown, base, self.operators).mechanism()
        return self.done[name]

    def base(self, operator: str, name: str) -> Mechanism:
        """The operator that a mechanism builds on."""
        known = {*self.files, *self.done} - {name}
        if operator not in known:
            raise SpecError(f"unknown operator {str(operator)!r}{did_you_mean(operator, known)}", place_of(operator))
        own = self.done[operator].operator if operator in self.done else self.files[operator].get("operator", None)
        if own not in (None, operator):
            text = f"{str(operator)!r} is not an operator: it is a mechanism of {str(own)!r}"
            raise SpecError(text, place_of(operator))
        return self.mechanism(str(operator))
