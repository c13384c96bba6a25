"""From YAML files to `Mechanism` values: the schema first, then names, then every expression.

All faults of a file are reported together, each with its place.
What is merely bad style, and not an error, is for the linter.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterable, Mapping
from pathlib import Path

from .documents import read
from .errors import SpecError, SpecErrors, UsageError, did_you_mean
from .language import Takes
from .mechanism import Mechanism
from .reader import Reader
from .schema import Document, place_of, schema_errors, spec_folder


@functools.cache
def library() -> Mapping[str, Mechanism]:
    """The shipped mechanisms by name, in alphabetical order."""
    collecting = gc.isenabled()
    gc.disable()  # hardly anything of what is made is garbage, and to look for it takes as long as to load
    try:
        return load(sorted(spec_folder().glob("*.yaml")))
    finally:
        if collecting:
            gc.enable()


def mechanism_named(name: str) -> Mechanism:
    """A shipped mechanism; an unknown name is a `UsageError`."""
    if name not in library():
        raise UsageError(f"unknown mechanism {name!r}{did_you_mean(name, library())}")
    return library()[name]


def load(paths: Iterable[Path], beside: Mapping[str, Mechanism] | None = None) -> dict[str, Mechanism]:
    """The mechanisms in files that may build on one another, and on those `beside` them.

    Raises `SpecErrors` with everything that is wrong.
    """
    errors: list[SpecError] = []
    documents: dict[str, tuple[Path, Document]] = {}
    broken: set[str] = set()
    for path in paths:
        try:
            document = read(path, _shown(path))
        except SpecError as error:
            errors.append(error)
            broken.add(path.stem)
            continue
        faults = list(schema_errors(document)) or list(_misnamed(document, path))
        if path.stem in documents:
            faults.append(SpecError(f"{_shown(path)}: {_shown(documents[path.stem][0])} has the same name"))
        elif not faults:
            documents[path.stem] = (path, document)
        if faults:
            errors += faults
            broken.add(path.stem)
    loading = _Loading(documents, dict(beside or {}))
    for name, (_, document) in documents.items():
        if document.get("operator", name) in broken:  # type: ignore[call-overload]
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


def _where(error: SpecError) -> tuple[str, int, int]:
    """A line that is no expression confuses those after it, so faults come in the order of the file."""
    place = error.place
    return (place.file, place.line, place.column) if place else ("", 0, 0)


def _shown(path: Path) -> str:
    """A path as people would write it from where they are."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _misnamed(document: Document, path: Path) -> Iterable[SpecError]:
    name = document["mechanism"]  # type: ignore[index]
    if name != path.stem:
        yield SpecError(f"the file of mechanism {str(name)!r} is called {path.name!r}", place_of(name))


class _Loading:
    """The files of one load, compiled in the order in which they need one another."""

    def __init__(self, documents: dict[str, tuple[Path, Document]], done: dict[str, Mechanism]) -> None:
        self.documents, self.done = documents, done

    @functools.cached_property
    def operators(self) -> dict[str, Takes]:
        """Every operator with what can be passed to it."""
        known = {
            m.name: Takes(m.required, frozenset({*m.signature, *m.conventions}))
            for m in self.done.values()
            if m.operator == m.name
        }
        for name, (_, document) in self.documents.items():
            if document.get("operator", name) == name:  # type: ignore[call-overload]
                parts = [document.get(key, {}) for key in ("inputs", "options", "conventions")]  # type: ignore[call-overload]
                required = tuple(str(n) for n, text in parts[0].items() if not str(text).startswith("maybe("))
                known[name] = Takes(required, frozenset(str(n) for part in parts for n in part))
        return known

    def mechanism(self, name: str) -> Mechanism:
        if name not in self.done:
            path, document = self.documents[name]
            operator = document.get("operator", name)  # type: ignore[call-overload]
            base = None if operator == name else self.base(operator, name)
            self.done[name] = Reader(document, path, _shown(path), base, self.operators).mechanism()
        return self.done[name]

    def base(self, operator: str, name: str) -> Mechanism:
        """The operator that a mechanism builds on."""
        known = {*self.documents, *self.done} - {name}
        if operator not in known:
            raise SpecError(f"unknown operator {str(operator)!r}{did_you_mean(operator, known)}", place_of(operator))
        own = self.done[operator].operator if operator in self.done else self.documents[operator][1].get("operator")  # type: ignore[call-overload]
        if own not in (None, operator):
            text = f"{str(operator)!r} is not an operator: it is a mechanism of {str(own)!r}"
            raise SpecError(text, place_of(operator))
        return self.mechanism(str(operator))
