"""Modules inside packages: where a dotted name lies, and by which name a file is imported."""

from __future__ import annotations

import ast
import functools
import importlib.machinery
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

SUFFIXES = (".py", *importlib.machinery.EXTENSION_SUFFIXES)
"""What the name of a file ends with that is a module."""
INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders whose files are not edited."""


@dataclass(frozen=True, slots=True)
class Named:
    """A module of a package."""

    name: str
    """Its dotted name."""
    folder: str
    """The folder in which its outermost package lies."""
    required: bool
    """Whether it cannot be imported without its package: it imports relative to itself, or is no source."""


def located(name: str) -> Path | None:
    """The file of a module, by its dotted name; None where there is none.

    It is looked for where this interpreter looks, and then in the current folder. Nothing is imported.
    """
    top, *rest = name.split(".")
    for place in _tops(top):
        found = place.joinpath(*rest)
        files = [found / "__init__.py", *(found.with_name(found.name + suffix) for suffix in SUFFIXES)]
        for file in files:
            if file.is_file():
                return file
    return None


def _tops(name: str) -> list[Path]:
    """Where a package may lie, or a module without the end of its name."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    places = [Path(folder) for folder in (spec.submodule_search_locations if spec else None) or ()]
    if spec is not None and spec.origin and not places:
        places = [Path(spec.origin).with_name(name)]
    return [*places, Path.cwd() / name]


def named(path: Path) -> Named | None:
    """The name by which a file is imported as a module of its package; None where it is imported by itself.

    It is a module of a package where that package can be imported under its name, and where it needs it.
    """
    top = outermost(path)
    stem = next((path.name.removesuffix(end) for end in SUFFIXES if path.name.endswith(end)), "")
    parts = [*path.parent.relative_to(top).parts, *([] if stem == "__init__" else [stem])]
    required = not path.name.endswith(".py") or _is_relative(path, os.stat(path).st_mtime_ns)
    packed = top != path.parent
    if not all(part.isidentifier() for part in parts) or not (packed or required):
        return None
    found = Named(".".join(parts), str(top), required)
    if required:
        return found
    there = located(found.name)
    return found if there is not None and os.path.samefile(there, path) else None


def outermost(path: Path) -> Path:
    """The folder in which the outermost package of a file lies, or the file itself where it is in none."""
    for folder in path.parents:
        if folder.name in INSTALLED:  # a package there may have no `__init__.py`
            return folder
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        folder = folder.parent
    return folder


@functools.lru_cache(maxsize=64)
def _is_relative(path: Path, _: int) -> bool:
    """Whether a file imports relative to itself."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree))


def is_edited(path: Path) -> bool:
    """Whether a file may be edited between two checks, as one of an installed package is not."""
    return INSTALLED.isdisjoint(path.parts)
