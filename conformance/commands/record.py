"""`attnspec record`: the kernel calls of a program."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .shell import mended, say


@click.command(
    short_help="Run a program, and record its kernel calls.",
    context_settings={"ignore_unknown_options": True},
)
@click.option("-o", "--output", default="workload.ndjson", show_default=True, metavar="FILE", help="The file to write.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def record(output: str, command: tuple[str, ...]) -> None:
    """Run COMMAND, and record its kernel calls: operators, sizes, strides, dtypes, options and counts, but no data.

    It records calls of the interfaces that 'attnspec list signatures' lists, in every Python process of the program. It
    writes the file however the program ends, and exits with the program's exit code.

    \b
    attnspec record -o serve.ndjson -- python serve.py --port 8000
    attnspec check my_kernels.py --workload serve.ndjson
    """  # noqa: D301 - click leaves the lines alone that follow the character itself
    with mended():
        from ..runs.recording import recorded

        sys.exit(recorded(command, Path(output), lambda text: say(text, err=True)))
