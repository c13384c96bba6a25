"""Lists that are cached as text until something changes that they depend on.

They are made of all adapters, specifications and packages that are installed, and reading these takes longer than
anybody wants to wait for a list.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ..data.store import Store, digest

STORE = Store("lists", 4 << 20)
PARTS = ("attnspec", "attnspec.spec", "attnspec.adapters", "attnspec.reference")
"""The packages whose files a list is made of."""


def lines_of(what: str, folders: Iterable[str], made: Callable[[], Iterator[str]]) -> Iterator[str]:
    """The lines of a list with the specifications of further folders, as they were kept or as they are made."""
    key = digest(what, *map(str, state([*_parts(), *map(Path, folders)])))
    kept = STORE.get(key)
    if kept is not None:
        yield from json.loads(kept)
        return
    lines = [*made()]
    STORE.put(key, json.dumps(lines).encode())
    yield from lines


def state(folders: Iterable[Path]) -> Iterator[tuple[str, int, int]]:
    """What changes with a file in some folders, with Python, and where anything is installed."""
    yield sys.version, 0, 0
    for folder in folders:
        for here, _, names in os.walk(folder):
            for name in sorted(names):
                if name.endswith((".py", ".yaml")):
                    yield _state(os.path.join(here, name))
    yield from map(_state, sys.path)


def _parts() -> Iterator[Path]:
    for name in PARTS:
        found = importlib.util.find_spec(name)
        yield from map(Path, (found.submodule_search_locations or ()) if found else ())


def _state(path: str) -> tuple[str, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return path, 0, 0
    return os.path.abspath(path), found.st_mtime_ns, found.st_size
