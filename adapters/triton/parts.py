"""Modules of a package whose other parts are not installed, or cannot be imported on this machine."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any


def folder_of(package: str) -> Path:
    """Where a package is installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{package} is not installed")
    return Path(spec.submodule_search_locations[0])


def hollow(package: str, folders: tuple[str, ...], stubs: dict[str, dict[str, Any]]) -> None:
    """Have modules of a package importable without what its `__init__` imports.

    `folders` are packages inside it whose files are found and of which nothing runs, and `stubs` modules that have
    only the names which are given. What is imported already stays as it is.
    """
    where = folder_of(package)
    for name in ("", *folders):
        spec = ModuleSpec(".".join(filter(None, [package, name])), None, is_package=True)
        spec.submodule_search_locations = [str(where / name.replace(".", "/"))]
        _known(importlib.util.module_from_spec(spec))
    for name, names in stubs.items():
        module = importlib.util.module_from_spec(ModuleSpec(f"{package}.{name}", None))
        vars(module).update(names)
        _known(module)


def _known(module: ModuleType) -> None:
    """Have a module found by its name, and in the package that it is of."""
    found = sys.modules.setdefault(module.__name__, module)
    above, _, name = module.__name__.rpartition(".")
    if above:
        setattr(sys.modules[above], name, found)
