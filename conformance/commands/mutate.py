"""`attnspec mutate`: mutants of a kernel that a check would not notice."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click

from ..errors import Exit, TargetError
from ..reporting.progress import progress
from .shell import NothingError, given, mended, options, say

FOLDER = "attnspec-mutants"
OWN = ("target", "max_time", "workers", "drawn", "folder")
"""What is asked for here and of no check."""


@click.command(short_help="Find mutants of a kernel that a check would not notice.")
@click.argument("target", metavar="FILE[:FUNCTION]|ADAPTER")
@options("operator", "framework", "mechanisms", "dtypes", "profile", "seed", "time_limit", "specs")
@click.option("--max-time", type=float, default=None, metavar="SECONDS", help="Try no more mutants after this time.")
@click.option("-n", "--workers", default=0, metavar="N", help="Processes; 0 is one for each core.")
@click.option(
    "--drawn",
    default=2000,
    show_default=True,
    metavar="N",
    help="Cases on which a surviving mutant is compared with FILE.",
)
@click.option("--folder", default=FOLDER, show_default=True, metavar="DIR", help="The file of the outcomes.")
def mutate(target: str, max_time: float | None, workers: int, drawn: int, folder: str, **_: object) -> None:
    """Find mutants of FILE that a check would not notice: changes of comparisons, offsets, constants and so on.

    With a FUNCTION, only it and what it uses are changed. ADAPTER is a shipped one or a correct variant of the audit.

    Each mutant is checked in a worker process until it first fails. A survivor is compared with the original on drawn
    cases for up to 20 seconds: if all bits are the same, it is reported as equivalent. Outcomes are stored, and known
    mutants are not run again.

    \b
    attnspec mutate my_kernels.py:flash
    attnspec mutate my_kernels.py -n 8 --max-time 600 --profile ci
    attnspec mutate online_softmax --profile ci

    Exit codes: 0 if only equivalent mutants survive, 1 if others do, 5 if not all were tried.
    """  # noqa: D301 - click leaves the lines alone that follow the character itself
    with mended():
        from ..auditing.edits import edits
        from ..auditing.survival import Kernel, fates, words
        from ..runs.options import Options

        path, function, named = _parted(target, Path(folder))
        typed = {
            name: x for name, x in given().items() if name not in ("target", "max_time", "workers", "drawn", "folder")
        }
        chosen = Options(targets=(target,), **typed)
        source = path.read_text("utf-8")
        try:
            found = edits(source, named)
        except SyntaxError as error:
            raise TargetError(f"{path} is not Python source code: {error}") from None
        if not found:
            raise NothingError(f"{path} has nothing to mutate")
        deadline = None if max_time is None else time.time() + max_time
        with progress("checking the original") as shown:
            kernel = Kernel(str(path), function, chosen, folder, words(str(path), function, chosen), drawn, deadline)
            outcomes = []
            for edit, outcome in fates(kernel, found, workers or os.cpu_count() or 1):
                outcomes.append((edit, outcome))
                shown.says(f"{len(outcomes)} of {len(found)} changes")
        counts = {fate: sum(o.fate == fate for _, o in outcomes) for fate in ("killed", "survived", "equivalent")}
        for fate in ("survived", "equivalent"):
            for edit, outcome in sorted((each for each in outcomes if each[1].fate == fate), key=lambda x: x[0].line):
                say(f"{fate:10}  {path}:{edit.line}  {edit.kind}: {outcome.says}", plain=True)
                for line in edit.difference(source, path.name)[1:]:
                    say(f"    {line}", plain=True)
        tried = counts["killed"] + counts["survived"]
        rate = f"{100 * counts['killed'] / tried:.0f}%" if tried else "none"
        left = len(found) - sum(counts.values())
        say(
            f"{rate} of {tried} mutants are killed; {counts['survived']} survive, {counts['equivalent']} more are "
            f"equivalent on all drawn cases" + (f", {left} were not tried" if left else "")
        )
        code = Exit.VIOLATED if counts["survived"] else Exit.NOTHING_TESTED if left else Exit.CONFORMANT
        sys.exit(int(code))


def _parted(target: str, folder: Path) -> tuple[Path, str, str]:
    """The file of a target, what of it is checked, and the function that is changed; nothing for all of either."""
    file, _, function = target.partition(".py:")
    path = Path(f"{file}.py" if function else target)
    if path.suffix != ".py":
        from ..auditing.standalone import standalone

        found = standalone(target, folder)
        return found.path, target, found.function
    if not path.is_file():
        raise TargetError(f"no such file: {path}")
    return path, function, function
