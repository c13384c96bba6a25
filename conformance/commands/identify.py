"""`attnspec identify`: which conventions an implementation follows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ..reporting.progress import Progress, progress
from .shell import NothingError, every, further, mended, named, options, say


@click.command(short_help="Identify the conventions that an implementation follows.")
@click.argument("targets", nargs=-1, metavar="TARGET...")
@every
@options("operator", "framework", "dtypes", "device", "specs")
@click.option("--markdown/--text", default=False, help="Write Markdown tables, or blocks to paste.")
@click.option("--count", default="", metavar="PAGE", help="Only count the words on a page made by --markdown.")
def identify(
    targets: tuple[str, ...],
    every: bool,
    operator: str | None,
    framework: str | None,
    dtypes: tuple[str, ...],
    device: str,
    specs: tuple[str, ...],
    markdown: bool,
    count: str,
) -> None:
    """Identify the conventions that TARGETs follow and the cases that show it, as a block for their declaration."""
    with mended():
        if count:
            say(_counted(Path(count)), plain=True)
            return
        with progress("reading specifications") as shown:
            asked = {"operator": operator, "framework": framework, "dtypes": dtypes, "device": device}
            asked["specs"] = further(specs).folders
            for line in _identified(named(targets, every, device), asked, markdown, shown):
                with shown.apart():
                    say(line, plain=True)


def _identified(targets: Sequence[str], given: Mapping[str, Any], markdown: bool, shown: Progress) -> Iterator[str]:
    from ..execution.devices import check_device
    from ..reporting.summary import title
    from ..runs.groups import groups, header_of
    from ..runs.options import Options
    from . import identification

    check_device(given["device"])
    asked = Options(targets=tuple(targets), **given)
    own = groups(asked)
    subjects = {group.subject.name: group.subject for group in own}
    if not subjects:
        raise NothingError("nothing to identify: no target claims these dtypes")
    found = []
    for subject in subjects.values():
        shown.says(f"identifying {subject.name}")
        words = identification.identified(subject, asked.device, asked.dtypes)
        found.append((subject, words, identification.splits(subject, asked.device, words)))
        yield from () if markdown else identification.page(*found[-1])
    yield from identification.tables(found, title(header_of(asked, own, ""))) if markdown else ()


def _counted(page: Path) -> str:
    """How many adapters follow each word, as it is kept."""
    import json

    from ..data.files import read_text
    from ..reporting.prevalence import PAGE, counted

    return json.dumps(counted(read_text(page, PAGE).splitlines()), indent=1)
