"""The family of errors, and the place that each one points at.

An error of this family is the user's to mend and is shown as one message; anything else that escapes is ours.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
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

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def right(self, columns: int) -> Place:
        """The place so many columns further on the same line."""
        return Place(self.file, self.line, self.column + columns)


class Error(Exception):
    """The base of every error that a user can mend; `exit` is what the command line returns for it."""

    exit = Exit.USAGE


class UsageError(Error):
    """A command, option or name that means nothing."""


class TargetError(Error):
    """A target that cannot be loaded: no such file, no adapter in it, an import that fails."""

    exit = Exit.NOT_LOADED


class SpecError(Error):
    """A specification that says something wrong; `place` is set where it is known."""

    def __init__(self, message: str, place: Place | None = None) -> None:
        self.message, self.place = message, place
        super().__init__(f"{place}: {message}" if place else message)


class SpecErrors(Error):
    """Several of them, one a line, so that all are mended at once."""

    def __init__(self, errors: Iterable[SpecError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(str(error) for error in self.errors))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known name, and nothing where none is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
