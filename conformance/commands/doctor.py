"""`attnspec doctor`: what is available on this machine."""

from __future__ import annotations

import sys

import click

from ..errors import Exit
from ..reporting.progress import progress
from .shell import mended, say


@click.command(short_help="Show what is available on this machine, and how to install the rest.")
def doctor() -> None:
    """Show which packages and devices are available here, why others are not, and the command that fixes it."""
    with mended():
        from .packages import lines, packages

        with progress("importing packages"):
            found = packages()
        say("\n".join(lines(found)))
        broken = any(package.broken and package.mends for package in found)
        sys.exit(int(Exit.NOT_LOADED if broken else Exit.CONFORMANT))
