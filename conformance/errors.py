"""The family of errors, and the place in a file that each points at.

An error of this family is the user's to fix and is shown as one message; anything else that escapes is ours.
"""

from __future__ import annotations

import difflib
import heapq
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum


class Exit(IntEnum):
    """What the command line returns."""

    CONFORMANT = 0
    VIOLATED = 1
    INTERRUPTED = 2
    INTERNAL = 3
    USAGE = 4
    NOTHING_TESTED = 5
    NOT_LOADED = 6


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in a file; lines and columns count from one."""

    file: str
    line: int
    column: int
    folds: tuple[tuple[int, int, int], ...] = field(default=(), compare=False, repr=False)
    """Of a text over several lines: how many columns further each later line begins, and its line and column."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def right(self, columns: int) -> Place:
        """The place so many columns further in the same text."""
        start = max((fold for fold in self.folds if fold[0] <= columns), default=(0, self.line, self.column))
        later = tuple((at - columns, line, column) for at, line, column in self.folds if at > columns)
        return Place(self.file, start[1], start[2] + columns - start[0], later)


class Error(Exception):
    """The base of every error that a user can fix; `exit` is what the command line returns for it."""

    exit = Exit.USAGE


class UsageError(Error):
    """A command, option or name that means nothing."""


class TargetError(Error):
    """A target that cannot be loaded: no such file, no adapter in it, an import that fails."""

    exit = Exit.NOT_LOADED


class NotConformantError(Error, AssertionError):
    """A subject that is not conformant where it was to be; its text is the report."""

    exit = Exit.VIOLATED


class SpecError(Error):
    """A specification that says something wrong; `place` is set where it is known."""

    def __init__(self, message: str, place: Place | None = None) -> None:
        self.message, self.place = message, place
        super().__init__(f"{place}: {message}" if place else message)


class SpecErrors(Error):
    """Several of them, one a line, so that all are fixed at once."""

    def __init__(self, errors: Iterable[SpecError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(str(error) for error in self.errors))


def first_of(errors: Iterable[SpecError], most: int, counted: int) -> list[SpecError]:
    """The first errors of one file, and how many more there are as one further error; no more than so many are counted.

    The further one stands at the last place of those before it.
    """
    found = iter(errors)
    told = list(itertools.islice(found, most))
    more = sum(1 for _ in itertools.islice(found, counted - most))
    if more:
        several = f"{more} more faults" if more < counted - most else f"at least {more} more faults"
        told.append(SpecError(f"and {several} in this file, which are not shown; fix these first", last_place(told)))
    return told


def last_place(errors: Iterable[SpecError]) -> Place | None:
    """The last place of some errors of one file."""
    places = (error.place for error in errors if error.place)
    return max(places, key=lambda place: (place.line, place.column), default=None)


LONGEST_NAME = 100
"""Characters of a name beyond which nobody may have meant a known one."""
LIKELY = 200
"""Known names, those of nearly the same length and letters, among which the one that was meant is looked for."""


def label_of(name: str, place: str) -> str:
    """What messages call something that is declared in a place, if that is known."""
    return f"{place}: {name}" if place else name


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known name, and nothing where none is near."""
    if len(name) > LONGEST_NAME:
        return ""
    letters = set(name)
    likely = heapq.nsmallest(LIKELY, known, lambda x: abs(len(x) - len(name)) + len(letters ^ set(x)))
    near = difflib.get_close_matches(name, likely, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
