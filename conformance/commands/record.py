"""`attnspec record`: what a program asks of its kernels."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .shell import mended, say


@click.command(
    short_help="Run a program, and write what it asks of its kernels.",
    context_settings={"ignore_unknown_options": True},
)
@click.option(
    "-o", "--output", default="workload.ndjson", show_default=True, metavar="FILE", help="Where it is written."
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def record(output: str, command: tuple[str, ...]) -> None:
    """Run COMMAND, and write what it asks of its kernels: operators, sizes, strides, dtypes, options, counts, no data.

    Seen are calls of the interfaces that 'attnspec list signatures' shows, from any process of the program that runs
    Python. What was asked until the program ended is written however it ended; its exit code is that of this command.

    \b
    attnspec record -o serve.ndjson -- python serve.py --port 8000
    attnspec check my_kernels.py --workload serve.ndjson
    """  # noqa: D301 - click leaves the lines alone that follow the character itself
    with mended(False):
        from ..runs.recording import recorded

        sys.exit(recorded(command, Path(output), lambda text: say(text, err=True)))
