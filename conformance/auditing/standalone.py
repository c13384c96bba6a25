"""A registered adapter as a file of its own, with its module and those of the audit that it imports."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import resolve_name
from pathlib import Path

from attnspec import adapters

from ..errors import TargetError, did_you_mean
from ..execution.guard import CLOSED
from ..subjects.registered import families

SOURCES = "sources"
"""The folder of such files."""


@dataclass(frozen=True, slots=True)
class Standalone:
    """Where an adapter stands, and what its function is called there."""

    path: Path
    function: str


def standalone(name: str, folder: Path) -> Standalone:
    """An adapter that comes along or a correct variant, written below a folder; a `TargetError` if there is none.

    Lines have the numbers that they have in the module.
    """
    modules = {*families(), *families("controls")}
    known = {one.name: one for one in adapters.registered() if one.module in modules}
    if name not in known:
        hint = did_you_mean(name, known) or "; a file is given as kernel.py, or kernel.py:function"
        raise TargetError(f"there is no adapter {name!r}{hint}")
    found = known[name]
    path = _written(found.module, folder / SOURCES, set())
    return Standalone(path, getattr(found.function, "__name__", ""))


def _written(module: str, folder: Path, begun: set[str]) -> Path:
    """A module as a file that imports nothing relatively, and beside it those that a subject cannot import."""
    path = folder / f"{_name(module)}.py"
    if module in begun:
        return path
    begun.add(module)
    source = Path(str(sys.modules[module].__file__)).read_text("utf-8")
    lines = source.split("\n")
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            assert node.end_lineno is not None
            here = resolve_name("." * node.level + (node.module or ""), module.rpartition(".")[0])
            statements = [*_imports(node, here)]
            needed = [name for name in (here, *(f"{here}.{one.name}" for one in node.names)) if name in sys.modules]
            for name in needed:
                if name.startswith(tuple(f"{closed}." for closed in CLOSED)):
                    _written(name, folder, begun)
            lines[node.lineno - 1 : node.end_lineno] = ["; ".join(statements)] + [""] * (node.end_lineno - node.lineno)
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines), "utf-8")
    return path


def _imports(node: ast.ImportFrom, here: str) -> Iterator[str]:
    """The statements that take the place of a relative import from a module or package."""
    for one in node.names:
        name = one.asname or one.name
        if here in CLOSED:  # one of its modules
            yield f"import {_name(f'{here}.{one.name}')} as {name}"
        elif here.startswith(CLOSED):
            yield f"from {_name(here)} import {one.name} as {name}"
        else:
            yield f"from {here} import {one.name} as {name}"


def _name(module: str) -> str:
    return module.replace(".", "_")
