"""From folders and files to libraries: the shipped library, and those that are read completely.

All faults of a file are reported together, each with its place.
What is merely bad style, and not an error, is for the linter.
"""

from __future__ import annotations

import functools
import importlib.util
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ..errors import SpecError, SpecErrors, UsageError, did_you_mean
from .library import STORE, Library
from .mechanism import Mechanism
from .references import functions_of
from .schema import place_of, spec_folder
from .specfiles import ENDING, SpecFile, shown

GROUP = "attnspec.specs"
"""The entry points under which packages register folders of specifications."""


@dataclass(frozen=True, slots=True)
class Specs:
    """Where specifications from outside the package are, and what their references are, as plain data."""

    folders: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    """Files with float64 references of operators, which are run."""

    @property
    def arguments(self) -> str:
        """The same on a command line, after a blank."""
        named = [f" --spec {shlex.quote(folder)}" for folder in self.folders]
        return "".join([*named, *(f" --reference {shlex.quote(path)}" for path in self.references)])

    def library(self) -> Library:
        """The shipped mechanisms, those that packages register, and those of the folders.

        A folder without any, or a name that is taken, is a `UsageError`.
        """
        if not self.folders and not self.references:
            return library()
        files = [path for folder in self.folders for path in files_of(Path(folder))]
        return _library(self, tuple(map(_state, [*files, *map(Path, self.references)])))


NONE = Specs()
"""No specifications but those that are shipped or registered."""


@functools.cache
def library() -> Library:
    """The shipped mechanisms by name, in alphabetical order, and those that packages register."""
    shipped = Library({path.stem: SpecFile(path) for path in files_of(spec_folder())}, store=STORE)
    registered = registered_folders()
    return _beside(shipped, registered) if registered else shipped


@functools.lru_cache(8)
def _library(specs: Specs, _: tuple[tuple[str, int, int, int], ...]) -> Library:
    """As `Specs.library`, made anew when a file of the folders has changed."""
    known = _beside(library(), [Path(folder) for folder in specs.folders])
    known.folders = specs.folders
    for path in specs.references:
        known.references |= functions_of(Path(path), known.stating)
    return known


def _state(path: Path) -> tuple[str, int, int, int]:
    """What changes with a file."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return str(path.absolute()), 0, 0, 0
    return str(path.absolute()), found.st_ino, found.st_mtime_ns, found.st_size


def _beside(known: Library, folders: Sequence[Path]) -> Library:
    """A library with the files of some folders beside those of another."""
    found: dict[str, SpecFile] = {}
    for file in map(SpecFile, (path for folder in folders for path in files_of(folder))):
        other = found.get(file.name) or known.file_of(file.name)
        if other is not None:
            raise UsageError(f"{other.shown} and {file.shown} both state {file.name!r}; rename one of them")
        found[file.name] = file
    return Library(found, known, STORE)


def files_of(folder: Path) -> list[Path]:
    """The specifications in a folder; a `UsageError` where there is none."""
    found = sorted(folder.glob(f"*{ENDING}"))
    if not found:
        what = f"there is no {ENDING} file in" if folder.is_dir() else "there is no folder"
        raise UsageError(f"{what} {shown(folder)}; --spec takes a folder of specifications")
    return found


def registered_folders() -> list[Path]:
    """The folders of specifications that packages register; nothing of the packages is run."""
    found = []
    for entry in entry_points(group=GROUP):
        parts = entry.value.replace(":", ".").split(".")
        spec = importlib.util.find_spec(parts[0])
        roots = list(spec.submodule_search_locations or ()) if spec else []
        if not roots:
            raise UsageError(f"the entry point {entry.name!r} ({entry.value}) of {GROUP} names no package")
        found.append(Path(roots[0], *parts[1:]))
    return found


def mechanism_named(name: str, known: Library | None = None) -> Mechanism:
    """A mechanism that is known, or shipped; an unknown name is a `UsageError`."""
    known = known or library()
    if name not in known:
        raise UsageError(f"unknown mechanism {name!r}{did_you_mean(name, known)}")
    return known[name]


def load(
    paths: Iterable[Path],
    beside: Mapping[str, Mechanism] | None = None,
    references: Mapping[str, Callable[..., Any]] | None = None,
) -> Library:
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
    loaded.references |= references or {}
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
    """A line that is not an expression confuses those after it, so faults come in the order of the file."""
    place = error.place
    return (place.file, place.line, place.column) if place else ("", 0, 0)
