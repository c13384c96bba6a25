"""What a process that calls a subject cannot import: the specifications, their meaning, and the reference.

An answer that comes from attnspec itself says nothing of the subject. This stops what happens by accident, and what
generated kernels do every day; it is no defence against malice, for a subject may read any file.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

PACKAGE = __name__.partition(".")[0]
OPEN = f"{PACKAGE}.adapters"
CLOSED = tuple(f"{OPEN}.{kind}" for kind in ("controls", "faults"))
"""What attnspec audits itself with, right implementations of all operators among them."""
INTERFACE = f"{PACKAGE}.api"
"""What a file may import beside its adapters, and then not use in a call."""


class Guard(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers for the modules of attnspec, before anybody else is asked."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(f"{PACKAGE}."):
            return None
        if fullname == INTERFACE:
            return importlib.machinery.ModuleSpec(fullname, self)
        if fullname == OPEN or (fullname.startswith(f"{OPEN}.") and not fullname.startswith(CLOSED)):
            return None
        raise ImportError(f"{fullname} {WHY}", name=fullname)

    def exec_module(self, module: ModuleType) -> None:
        """The interface as a file may name it: whatever it has raises when it is called."""

        def unavailable(*_: Any, **__: Any) -> NoReturn:
            raise ImportError(f"{module.__name__} {WHY}", name=module.__name__)

        module.__dict__["__getattr__"] = lambda _: unavailable


WHY = (
    "cannot be used where a subject is called: an answer that comes from attnspec itself says nothing of the subject. "
    "A file under test may import attnspec.adapter, attnspec.module, attnspec.Unsupported and attnspec.adapters"
)


def close() -> None:
    """Have no module of attnspec imported from now on but those that adapters need."""
    if not any(isinstance(finder, Guard) for finder in sys.meta_path):
        sys.meta_path.insert(0, Guard())
