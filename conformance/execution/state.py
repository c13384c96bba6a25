"""What a call has changed in its process besides its outputs, found by comparing settings before and after it.

What was changed is set back, so that later calls are judged as if nothing had happened.
Where a call imports something, what imports are known to change is not held against it: filters of warnings,
environment variables, handlers and hooks. An import should not change how numbers are computed, or where files
are found.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ..data.texts import told
from .settings import Setting, random_of, settings_of

SHOWN = 3
"""Changes of one call that are told."""
OFTEN, SELDOM = 4, 8
"""Random states, which take long to read, are compared at the first calls, and later at every so many."""
VALUE = 60
"""Characters of a value that are shown."""

_KNOWN: dict[int, list[Any]] = {}
"""The state of this process after the last call, by how many settings were read."""


class Watch:
    """The state of this process around the calls of one subject."""

    def __init__(self, framework: str, *, alone: bool = False) -> None:
        """Where nothing but calls goes on in a process, its state before a call is that after the one before."""
        self._settings, self._random = settings_of(framework), random_of(framework)
        self._calls = self._modules = 0
        self._kept: list[Any] = []
        self._drawn: Any = None
        self._known: dict[int, list[Any]] | None = _KNOWN if alone else None
        _KNOWN.clear()  # for what has made this one may have imported something

    def begin(self) -> None:
        """Take note of the state before a call."""
        self._calls += 1
        seldom = self._calls > OFTEN and self._calls % SELDOM
        self._drawn = None if seldom else self._random.read()
        known = self._known.get(len(self._settings)) if self._known else None
        self._kept = known or self._read()
        self._modules = len(sys.modules)

    def changed(self) -> str:
        """What the call has changed, in words; all of it is set back."""
        now = self._read()
        if self._known is not None:
            self._known[len(self._settings)] = now
        if _same(now, self._kept):
            return ""
        _KNOWN.clear()
        imported = len(sys.modules) != self._modules
        found = []
        for setting, before, after in zip(self._settings, self._kept, now, strict=True):
            if not _same(before, after) and not (imported and setting.imports):
                found += _changes(setting, before, after)
                with suppress(Exception):  # what cannot be set back is of this process alone
                    setting.restore(before)
        return _listed(found)

    def _read(self) -> list[Any]:
        return [setting.read() for setting in self._settings]

    def drawn(self) -> str:
        """Which global random states the call has changed, where they were compared."""
        if self._drawn is None or len(sys.modules) != self._modules:
            return ""
        now = self._random.read()
        return "" if _same(now, self._drawn) else _listed([*_changes(self._random, self._drawn, now)])


def _same(x: Any, y: Any) -> bool:
    try:
        return bool(x == y)
    except Exception:  # what an implementation has put there may compare as it likes
        return False


def _changes(setting: Setting, before: Any, after: Any) -> Iterator[str]:
    """Every change of a setting, each in words."""
    if not isinstance(before, dict):
        yield setting.name + (f" from {_shown(before)} to {_shown(after)}" if setting.shown else "")
        return
    for part in {**before, **after}:
        x, y = before.get(part), after.get(part)
        if not _same(x, y):
            name = setting.name.format(
                told(part.decode("utf-8", "replace") if isinstance(part, bytes) else part, VALUE)
            )
            yield name + (f" from {_shown(x)} to {_shown(y)}" if setting.shown else "")


def _shown(x: Any) -> str:
    return told(", ".join(map(str, x)) if isinstance(x, tuple) else x, VALUE)


def _listed(changes: list[str]) -> str:
    """Changes as the end of a sentence; nothing if there are none."""
    if not changes:
        return ""
    more = len(changes) - SHOWN
    told_of = [*changes[:SHOWN], *([f"{more} more"] if more > 0 else [])]
    return f"the call changed {', and '.join(told_of)}"
