"""`attnspec waive`: a failure that somebody answers for."""

from __future__ import annotations

from pathlib import Path

import click

from .shell import further, mended, of_project, options, say


@click.command(short_help="Answer for a failing case until a day.")
@click.argument("case")
@click.option("--reason", required=True, metavar="TEXT", help="Why it may fail for now.")
@click.option("--issue", required=True, metavar="URL", help="Where it is being fixed.")
@click.option("--owner", required=True, metavar="NAME", help="Who answers for it.")
@click.option("--expires", required=True, metavar="DAY", help="The last day on which it is excused.")
@click.option("--ceiling", metavar="NUMBER", help="The largest error that is excused, in units of the bound.")
@click.option("--waivers", default="attnspec-waivers.yaml", show_default=True, metavar="FILE", help="The file.")
@options("report_dir", "specs")
def waive(case: str, waivers: str, report_dir: str, specs: tuple[str, ...], **answers: str) -> None:
    """Answer for a failing CASE: have 'check --waivers FILE' excuse it until a day, as long as it still fails."""
    with mended(False):
        from ..diagnosis.stored import find, library_of, path_of
        from ..runs.waivers import waive as waived

        folder = Path(of_project("report_dir", report_dir))
        named = further(specs)
        witness = find(case, folder, named)
        added = waived(
            Path(of_project("waivers", waivers)), witness, path_of(case, folder), answers, library_of(witness, named)
        )
        say(added.rstrip("\n"), plain=True)
