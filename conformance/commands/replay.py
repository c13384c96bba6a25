"""`attnspec replay`: run a failing case again."""

from __future__ import annotations

import sys
from typing import Any

import click

from .shell import mended, of_case, opened, say, verbosity


@click.command(short_help="Run a failing case again.")
@click.argument("case")
@of_case
@verbosity
def replay(case: str, verbose: int, **asked: Any) -> None:
    """Run a failing CASE again, by its key or the path of its file.

    This runs the Python file that the case names.
    """
    with mended(bool(verbose)):
        from ..runs.replay import replayed

        sys.exit(int(replayed(opened(case, **asked), say)))
