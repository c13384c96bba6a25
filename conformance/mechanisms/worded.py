"""The definition under several words of its conventions, which are alike in most lines.

An evaluation keeps what each line has read. Under other words, a line whose names all mean what they did is as it was;
one that is computed again and comes out the same, to the bit, ends the matter for all lines that read it.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..numerics.numbers import Number
from ..numerics.truths import Truth
from .definition import Frame, one_and_the_same


@dataclass(slots=True)
class Read:
    """What a name has read itself."""

    names: dict[str, None] = field(default_factory=dict)
    """Lines and conventions, in order."""
    words: set[str] = field(default_factory=set)
    """Conventions that it has asked for otherwise than by name, for which its line may have the same name."""


class Worded(Frame):
    """An evaluation that others under other words share what they can with."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.asked: dict[str, set[str]] = {}
        """The conventions whose word each name has asked for, itself or by what it read."""
        self.read: dict[str, Read] = {}
        self.other: Worded | None = None
        """The same evaluation under other words."""
        self._open: list[tuple[set[str], Read]] = []
        """Both of the names that are being computed."""

    def __getitem__(self, name: str) -> Any:
        if name not in self.memo:
            own = {name} if name in self.mechanism.conventions else set[str]()
            self._open.append((own, Read()))
            try:
                if not self._as_under_other_words(name):
                    super().__getitem__(name)
                    self._joined(name)
            finally:
                self.asked[name], self.read[name] = self._open.pop()
        if self._open and (name in self.mechanism.definition or self.asked[name]):
            self._open[-1][1].names[name] = None
        self._ask(self.asked[name])
        return self.memo[name]

    def _ask(self, conventions: Collection[str]) -> None:
        self.turned_on.update(conventions)
        if self._open:
            self._open[-1][0].update(conventions)

    def _as_under_other_words(self, name: str) -> bool:
        """Whether all that a line has read under the other words means the same here, in which case it is known.

        What was read first may decide what is read next, so it is compared in the order in which it was read.
        """
        other = self.other
        if other is None or name not in other.memo or name not in self.mechanism.definition:
            return False
        read = other.read[name]
        if any(self.values[convention] != other.values[convention] for convention in read.words):
            return False
        if any(not one_and_the_same(self[each], other.memo[each]) for each in read.names):
            return False
        self._worded(read.words)
        self.memo[name] = other.memo[name]
        return True

    def _joined(self, name: str) -> None:
        """Of two results that are the same, keep one."""
        if self.other is not None and name in self.other.memo and same(self.memo[name], self.other.memo[name]):
            self.memo[name] = self.other.memo[name]

    def _worded(self, conventions: Collection[str]) -> None:
        self._ask(conventions)
        if self._open:
            self._open[-1][1].words.update(conventions)

    def word(self, convention: str) -> str:
        self._worded({convention})
        return super().word(convention)

    def operator(self, name: str, arguments: dict[str, Any]) -> Any:
        self._worded(self.mechanism.beside(name).conventions.keys() & self.values.keys())
        return super().operator(name, arguments)

    def under(self, words: Mapping[str, str]) -> Worded:
        """The same evaluation under other words."""
        under = copy.copy(self)
        under.__dict__.pop("referred", None)
        under.values = {**self.values, **words}
        changed = {name for name in words if words[name] != self.values[name]}
        shared = [] if self.mechanism.by_reference else [n for n in self.memo if not self.asked[n] & changed]
        under.memo = {n: self.memo[n] for n in shared}
        under.asked, under.read = {n: self.asked[n] for n in shared}, {n: self.read[n] for n in shared}
        under.other = None if self.mechanism.by_reference else self
        under.turned_on, under._busy, under._open = set(), [], []
        return under


def same(x: Any, y: Any) -> bool:
    """Whether two values are the same, to the bit, and lie in memory in the same way."""
    kind = type(x)
    if x is y or kind is not type(y):
        return x is y
    if kind is np.ndarray:
        if x.dtype != y.dtype or x.shape != y.shape or x.strides != y.strides or x.dtype.hasobject:
            return False
        return bool(x.tobytes() == y.tobytes())
    if kind is Number:
        errors = same(x.worst, y.worst) and same(x.variance, y.variance) and same(x.shared, y.shared)
        return errors and x.grade is y.grade and x.held == y.held and same(x.value, y.value)
    if kind is Truth:
        return same(x.can, y.can) and same(x.must, y.must) and same(x.excess, y.excess)
    if kind in (tuple, list):
        return len(x) == len(y) and all(map(same, x, y))
    return bool(kind in (bool, int, str) and x == y) or (isinstance(x, (float, np.generic)) and repr(x) == repr(y))
