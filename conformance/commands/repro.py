"""`attnspec repro`: a failing case as one file for people who do not have attnspec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .shell import mended, of_case, opened, say


@click.command(short_help="Write a failing case as a program that does not need attnspec.")
@click.argument("case")
@click.option(
    "-o",
    "--output",
    default="",
    metavar="FILE",
    help="The file to write; - is standard output.  [default: repro_CASE.py]",
)
@click.option("--markdown", is_flag=True, help="Write Markdown for an issue.")
@of_case
def repro(case: str, output: str, markdown: bool, **asked: Any) -> None:
    """Write a failing CASE, by its key or the path of its file, as a one-file program.

    The program needs the implementation under test and its framework, but not attnspec. It contains the inputs, the
    calls, the expected values and the reason. It fails until the fault is fixed.
    """
    with mended():
        from ..reporting.repro import issue, program
        from ..runs.repro import program_of

        path = Path(output or f"repro_{Path(case).stem}.{'md' if markdown else 'py'}")
        beside = Path() if output == "-" else path.parent
        made = program_of(opened(case, **asked), beside=beside)
        text = issue(made) if markdown else program(made)
        if output == "-":
            say(text.rstrip("\n"), plain=True)
            return
        _write(path, text)
        say(f"{path}: {made.law} of {made.subject}" + ("" if markdown else f"; python {path} runs it"))


def _write(path: Path, text: str) -> None:
    """Write a file; one that is not of this command is left alone, with a `UsageError`."""
    from ..errors import UsageError
    from ..reporting.repro import MARK

    try:
        if path.exists() and MARK not in path.read_text("utf-8"):
            raise UsageError(f"{path} exists and was not written by this command; name another file with -o")
        path.write_text(text, "utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from None
