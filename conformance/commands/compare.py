"""`attnspec compare`: changes since an earlier run, or since a committed baseline."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from ..errors import Exit, UsageError, did_you_mean
from ..runs.options import REPORT_DIR
from .shell import mended, of_project, say


@click.command(short_help="Compare a run with an earlier run or a baseline.")
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--fail-on",
    "fail_on",
    default="new",
    show_default=True,
    metavar="KINDS",
    help="The changes that fail, separated by commas: new, untested, precision, slower, conventions, laws; or nothing.",
)
@click.option("--update", is_flag=True, help="Write AFTER to the baseline BEFORE, which need not exist.")
@click.option("--markdown", is_flag=True, help="Write Markdown, for a job summary.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def compare(before: Path, after: tuple[Path, ...], fail_on: str, update: bool, markdown: bool, as_json: bool) -> None:
    """Compare two states: BEFORE and AFTER are results of runs, or a committed baseline.

    Without AFTER, compare with the results in the report folder. Several results are parts of one run.

    \b
    attnspec compare attnspec-baseline.ndjson --update   # accept this state
    attnspec compare attnspec-baseline.ndjson            # exit 1 if any is new
    attnspec compare old/results.ndjson new/results.ndjson --fail-on new,precision

    A failure under a law that BEFORE does not have, or under a specification that has changed since, is reported
    separately (laws), so that an upgrade of attnspec breaks no build until the baseline is updated.

    Exit codes: 0 if no change fails, 1 if one does, 4 for bad usage.
    """  # noqa: D301 - click leaves the lines alone that follow the character itself
    with mended():
        from ..reporting import changes_page
        from ..reporting.baseline import is_baseline, state_of, updated, written
        from ..reporting.changes import changes
        from ..reporting.results import NAME

        fails = _kinds(fail_on)
        paths = after or (Path(of_project("report_dir", REPORT_DIR)) / NAME,)
        now = state_of(paths)
        if update and not before.exists():
            _write(before, written(now))
            say(f"{before}: {sum(len(group.laws) for group in now.groups.values())} verdicts are the baseline")
            return
        if update and not is_baseline(before):
            raise UsageError(f"{before} is not a baseline and is not overwritten; name another file for --update")
        earlier = state_of((before,))
        told = ", ".join(map(str, paths))
        found = changes_page.Compared(str(before), told, (earlier, now), changes(earlier, now), fails)
        if as_json:
            say(json.dumps(changes_page.as_json(found), indent=1), plain=True)
        else:
            for line in (changes_page.markdown if markdown else changes_page.page)(found):
                say(line, plain=markdown)
        if update:
            _write(before, written(updated(earlier, now)))
            say(f"{before}: updated", err=True)
            return
        sys.exit(int(Exit.VIOLATED if found.failing else Exit.CONFORMANT))


def _kinds(fail_on: str) -> tuple[str, ...]:
    """The kinds of changes that were named; a `UsageError` for another one."""
    from ..reporting.changes import WORSE

    named = tuple(filter(None, (word.strip() for word in fail_on.split(","))))
    for word in named:
        if word not in (*WORSE, "nothing"):
            hint = did_you_mean(word, WORSE)
            raise UsageError(f"--fail-on: unknown change {word!r}{hint} ({', '.join(WORSE)}, or nothing)")
    return tuple(word for word in named if word != "nothing")


def _write(path: Path, text: str) -> None:
    """Write a file whole, or not at all; a `UsageError` where it cannot be written."""
    from ..data.files import replace_text

    try:
        replace_text(path, text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
