"""`attnspec lint`: specification files."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ..errors import Exit
from .shell import further, mended, options, say, verbosity


@click.command(short_help="Check specification files.")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@options("specs", "references")
@verbosity
def lint(files: tuple[Path, ...], specs: tuple[str, ...], references: tuple[str, ...], verbose: int) -> None:
    """Check specification FILES, or those of --spec, or all shipped ones: schema, names, expressions and prose."""
    with mended(bool(verbose)):
        from ..mechanisms.lint import lint_files
        from ..mechanisms.loader import NONE

        found, count = lint_files(files, NONE if files and not specs else further(specs, references))
        for fault in found:
            say(fault)
        faults = f"{len(found)} fault{'s' * (len(found) > 1)}" if found else "no faults"
        say(f"{count} file{'s' * (count > 1)}, {faults}")
        sys.exit(int(Exit.USAGE if found else Exit.CONFORMANT))
