"""`attnspec doctor`: what is available on this machine."""

from __future__ import annotations

import sys

import click

from ..errors import Exit
from ..reporting.progress import progress
from .shell import mended, say


@click.command(short_help="Say what is available on this machine, and what fixes the rest.")
def doctor() -> None:
    """Say what is available on this machine, what is not and why, and which command fixes it."""
    with mended(False):
        from .packages import lines, packages

        with progress("importing packages"):
            found = packages()
        say("\n".join(lines(found)))
        broken = any(package.broken and package.mends for package in found)
        sys.exit(int(Exit.NOT_LOADED if broken else Exit.CONFORMANT))
