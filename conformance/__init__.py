"""attnspec: specification-driven conformance tests for attention mechanisms.

The public names resolve when they are first used, so that importing this package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnspec.adapters import Adapter, Unsupported, adapter, module

    from . import strategies
    from .api import Report, check
    from .errors import Error, NotConformantError, SpecError, SpecErrors, TargetError, UsageError
    from .runs.recording import record

__version__ = "0.1.0"

_HOMES = {
    "Adapter": "attnspec.adapters",
    "Error": "attnspec.errors",
    "NotConformantError": "attnspec.errors",
    "Report": "attnspec.api",
    "SpecError": "attnspec.errors",
    "SpecErrors": "attnspec.errors",
    "TargetError": "attnspec.errors",
    "Unsupported": "attnspec.adapters",
    "UsageError": "attnspec.errors",
    "adapter": "attnspec.adapters",
    "check": "attnspec.api",
    "module": "attnspec.adapters",
    "record": "attnspec.runs.recording",
}

__all__ = [
    "Adapter",
    "Error",
    "NotConformantError",
    "Report",
    "SpecError",
    "SpecErrors",
    "TargetError",
    "Unsupported",
    "UsageError",
    "adapter",
    "check",
    "module",
    "record",
    "strategies",
]


def __getattr__(name: str) -> Any:
    if name == "strategies":
        return importlib.import_module("attnspec.strategies")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'attnspec' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
