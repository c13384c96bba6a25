"""`attnspec replay`: a failing case once more."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .shell import further, mended, of_project, options, say, verbosity


@click.command(short_help="Run a failing case again.")
@click.argument("case")
@options("report_dir", "operator", "framework", "time_limit", "specs", "references")
@click.option("--trust", is_flag=True, help="Run the file that the case names even outside the present folder.")
@verbosity
def replay(
    case: str,
    report_dir: str,
    operator: str | None,
    framework: str | None,
    time_limit: float,
    specs: tuple[str, ...],
    references: tuple[str, ...],
    trust: bool,
    verbose: int,
) -> None:
    """Run a failing CASE again, by its key or the path of its file.

    A case that names a Python file has it run.
    """
    with mended(bool(verbose)):
        from ..runs.opening import Kept
        from ..runs.replay import replayed

        def note(text: str) -> None:
            click.echo(f"attnspec: {text}", err=True)

        folder, known = Path(of_project("report_dir", report_dir)), further(specs, references)
        kept = Kept(case, folder, operator, framework, note, trusted=trust, seconds=time_limit, specs=known)
        sys.exit(int(replayed(kept, say)))
