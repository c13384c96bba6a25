"""The local modules that a file imports, which are edited as often as the file."""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from pathlib import Path

from .dotted import is_edited, outermost

Stamp = tuple[int, int, int]
"""When a file was changed last, in nanoseconds, its length in bytes, and which file it is."""


def imported(files: Sequence[Path]) -> list[Path]:
    """The files beside these that they import, and those that these import; what cannot be read imports nothing."""
    found = list(files)
    for folder in dict.fromkeys(path.parent for path in files):
        for path in found:
            found += [each for each in _imports(path, folder, stamp(path)) if each not in found]
    return found[len(files) :]


def stamp_of(path: Path) -> tuple[int, int]:
    """The last change of a file and of all that it imports from beside it, and their length; `OSError` without it."""
    status = path.stat()
    others = [found for each in imported([path]) if (found := stamp(each)) is not None]
    return max([status.st_mtime_ns, *(time for time, _, _ in others)]), status.st_size + sum(n for _, n, _ in others)


def stamp(path: Path) -> Stamp | None:
    """What tells whether a file was saved; None for one that is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


@functools.lru_cache(maxsize=256)
def _imports(path: Path, folder: Path, _: Stamp | None) -> tuple[Path, ...]:
    """The modules and packages that a file imports anywhere, in that folder, its package, or relative to its own."""
    if not is_edited(path):
        return ()
    folders = dict.fromkeys((folder, outermost(path)))
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    stems: list[Path] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            stems += [start.joinpath(*alias.name.split(".")) for alias in node.names for start in folders]
        elif isinstance(node, ast.ImportFrom):
            starts = [path.parents[min(node.level, len(path.parents)) - 1]] if node.level else folders
            for start in starts:
                module = start.joinpath(*filter(None, (node.module or "").split(".")))
                stems += [module, *(module / alias.name for alias in node.names)]
    files = [each for stem in stems for each in (stem.parent / f"{stem.name}.py", stem / "__init__.py")]
    return tuple(each for each in dict.fromkeys(files) if each.is_file())
