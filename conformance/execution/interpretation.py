"""Kernels in Triton that are called with arrays of the CPU: Triton's interpreter runs them."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnspec import adapters
from attnspec.adapters import Adapter

from .beside import imported

VARIABLE = "TRITON_INTERPRET"
"""The variable that asks Triton for its interpreter, where it is one."""
BY = "Triton's interpreter"
KERNELS = re.compile(rb"^\s*(import|from)\s+triton\b", re.MULTILINE)
"""What a file has that has kernels in Triton."""


def has_kernels(path: Path) -> bool:
    """Whether a file, or one that it imports from beside it, has kernels in Triton, and they can be run here."""
    files = [path, *imported([path])] if path.suffix == ".py" else []
    return any(map(_imports_triton, files)) and importlib.util.find_spec("triton") is not None


def _imports_triton(path: Path) -> bool:
    try:
        return KERNELS.search(path.read_bytes()) is not None
    except OSError:
        return False


def is_interpreted(path: Path) -> bool:
    """Whether the kernels of a file are interpreted in this process."""
    return os.environ.get(VARIABLE) == "1" and has_kernels(path)


@contextmanager
def interpreting(path: Path) -> Iterator[None]:
    """What a file with kernels is loaded and called in: arrays of the CPU pass for those of a device."""
    if not is_interpreted(path):
        yield
        return
    program: Any = importlib.import_module(f"{adapters.__name__}.triton.interpreter")
    whole: AbstractContextManager[None] = program.interpreting()
    with whole:
        yield


def interpreted(adapter: Adapter, path: Path) -> Adapter:
    """A function of a file, which says what runs it in place of a device."""
    return replace(adapter, interpreted=BY, slow=True) if is_interpreted(path) else adapter
