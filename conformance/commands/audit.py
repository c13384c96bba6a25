"""`attnspec audit`: whether this suite notices known mistakes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ..errors import Exit
from ..reporting.progress import Progress, progress
from .shell import NothingError, further, mended, options, say, verbosity

if TYPE_CHECKING:
    from ..mechanisms.loader import Specs


@click.command(short_help="Test this suite: check that every known mistake is caught.")
@options("mechanisms", "specs", "references")
@click.option("--deep", is_flag=True, help="Run correct variants on 2000 drawn cases each.")
@click.option("--table/--no-table", default=False, help="Print which law refutes which mistake, and on which case.")
@click.option("--derive", is_flag=True, help="Write which scenarios show which mistakes, into evidence/.")
@click.option("--fresh", is_flag=True, help="Audit also what is unchanged since an earlier audit.")
@click.option(
    "--for", "target", metavar="TARGET", help="List the mistakes that a quick check of TARGET cannot notice, and why."
)
@options("operator", "framework")
@click.option("-n", "--workers", default=0, metavar="N", help="Processes; 0 is one for each core.")
@verbosity
def audit(
    mechanisms: tuple[str, ...],
    specs: tuple[str, ...],
    references: tuple[str, ...],
    deep: bool,
    table: bool,
    derive: bool,
    fresh: bool,
    target: str | None,
    operator: str | None,
    framework: str | None,
    workers: int,
    verbose: int,
) -> None:
    """Test this suite: run every known mistake, and correct variants, against the laws."""
    with mended(bool(verbose)):
        if target is not None:
            audit_for(target, mechanisms, operator, framework, further(specs, references))
            return
        if operator or framework:
            raise click.UsageError("--operator and --framework are about the TARGET of --for")
        from ..auditing import audit
        from ..auditing.earlier import Earlier

        known = further(specs, references)
        earlier = Earlier(known.library(), fresh=fresh)
        started, processes = time.time(), workers or os.cpu_count() or 1
        faults = 0
        parts = (
            audit.derive(mechanisms, workers=processes, specs=known)
            if derive
            else audit.audited(mechanisms, deep=deep, workers=processes, specs=known, earlier=earlier)
        )
        for part in parts:
            for line in part.lines(table=table or bool(verbose)):
                say(line)
            faults += len(part.faults)
        say(f"audit: {faults or 'no'} faults in {time.time() - started:.0f} s{earlier.told()}")
        sys.exit(int(Exit.VIOLATED if faults else Exit.CONFORMANT))


def audit_for(
    target: str, mechanisms: tuple[str, ...], operator: str | None, framework: str | None, specs: Specs
) -> None:
    """Say which known mistakes a check of a target could not notice."""
    with progress("reading specifications") as shown:
        for line in _blind(target, mechanisms, operator, framework, specs, shown):
            with shown.apart():
                say(line)


def _blind(
    target: str,
    mechanisms: tuple[str, ...],
    operator: str | None,
    framework: str | None,
    specs: Specs,
    shown: Progress,
) -> Iterator[str]:
    from ..auditing.blind_spots import page, seen
    from ..runs.groups import groups
    from ..runs.options import Options

    asked = Options(targets=(target,), mechanisms=mechanisms, operator=operator, framework=framework)
    found = groups(replace(asked, specs=specs.folders, references=specs.references))
    if not found:
        raise NothingError("nothing to audit: no target claims these mechanisms and dtypes")
    for subject in {group.subject.name: group.subject for group in found}.values():
        own = [group for group in found if group.subject is subject]
        shown.says(f"looking for mistakes that would go unnoticed in {subject.name}")
        yield from page(subject, [seen(subject, group.mechanism, group.dtype) for group in own])
