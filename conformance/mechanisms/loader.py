"""From folders and files to libraries: the shipped one, and those that are read whole.

All faults of a file are reported together, each with its place.
What is merely bad style, and not an error, is for the linter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ..errors import SpecError, SpecErrors, UsageError, did_you_mean
from .library import STORE, Library
from .mechanism import Mechanism
from .schema import place_of, spec_folder
from .specfiles import ENDING, SpecFile


@functools.cache
def library() -> Library:
    """The shipped mechanisms by name, in alphabetical order."""
    return Library({path.stem: SpecFile(path) for path in spec_folder().glob(f"*{ENDING}")}, store=STORE)


def mechanism_named(name: str) -> Mechanism:
    """A shipped mechanism; an unknown name is a `UsageError`."""
    if name not in library():
        raise UsageError(f"unknown mechanism {name!r}{did_you_mean(name, library())}")
    return library()[name]


def load(paths: Iterable[Path], beside: Mapping[str, Mechanism] | None = None) -> Library:
    """The mechanisms in files that may build on one another, and on those `beside` them, all of them read.

    Raises `SpecErrors` with everything that is wrong.
    """
    errors: list[SpecError] = []
    files: dict[str, SpecFile] = {}
    broken: set[str] = set()
    for file in map(SpecFile, paths):
        faults = _told(file.check)
        if file.name in files:
            same = f"{files[file.name].shown} has the same name"
            faults.append(SpecError(same, place_of(file.get("mechanism"))))
        elif not faults:
            files[file.name] = file
        if faults:
            errors += faults
            broken.add(file.name)
    loaded = Library(files, beside)
    for name, file in files.items():
        if file.get("operator", name) not in broken:
            errors += _told(lambda name=name: loaded[name])
    if errors:
        raise SpecErrors(sorted({str(error): error for error in errors}.values(), key=_where))
    return loaded


def _told(asked: Callable[[], object]) -> list[SpecError]:
    """The faults that asking for something tells."""
    try:
        asked()
    except SpecError as error:
        return [error]
    except SpecErrors as several:
        return [*several.errors]
    return []


def _where(error: SpecError) -> tuple[str, int, int]:
    """A line that is no expression confuses those after it, so faults come in the order of the file."""
    place = error.place
    return (place.file, place.line, place.column) if place else ("", 0, 0)
