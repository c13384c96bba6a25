"""Modules of a package whose other parts are not installed, or cannot be imported on this machine."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable
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


def interpreted() -> bool:
    """Whether Triton's interpreter runs the kernels of this process."""
    triton: Any = importlib.import_module("triton")
    return bool(triton.knobs.runtime.interpret)


@functools.cache
def in_parts(package: str, whole: Callable[[], bool]) -> bool:
    """Whether modules are to be imported by themselves: kernels are interpreted, or the package does not compile them.

    `whole` imports what is needed of the package as it is, and says whether its kernels can be called there.
    """
    folder_of(package)
    if interpreted():
        return True
    try:
        if whole():
            return False
    except Exception:  # whatever the package raises without something that it wants
        pass
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]
    return True


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
