"""How a target names a program: its command, and optionally one of its functions."""

from __future__ import annotations

import shlex

from ..data.texts import safe
from ..errors import UsageError

EXEC = "exec:"
"""What a target begins with that is a command."""
PLACE = "::"
"""What stands between a command and the name of one of its functions."""


def parted(target: str) -> tuple[str, str]:
    """The command of a target, and the name of a function of it; nothing where all are meant."""
    command, _, name = target.removeprefix(EXEC).partition(PLACE)
    return command.strip(), name.strip()


def words_of(command: str) -> list[str]:
    """The program of a command, and its arguments; a `UsageError` where it has none."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"{EXEC}{safe(command)}: {error}") from None
    if not words:
        raise UsageError(f"{EXEC} is followed by a command, as in '{EXEC}./my_kernels --serve'")
    return words
