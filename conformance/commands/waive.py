"""`attnspec waive`: a failure that somebody answers for."""

from __future__ import annotations

from pathlib import Path

import click

from .shell import mended, options, say


@click.command(short_help="Answer for a failing case until a day.")
@click.argument("case")
@click.option("--reason", required=True, metavar="TEXT", help="Why it may fail for now.")
@click.option("--issue", required=True, metavar="URL", help="Where it is being mended.")
@click.option("--owner", required=True, metavar="NAME", help="Who answers for it.")
@click.option("--expires", required=True, metavar="DAY", help="The last day on which it is excused.")
@click.option("--ceiling", metavar="NUMBER", help="The largest error that is excused, in units of the bound.")
@click.option("--waivers", default="attnspec-waivers.yaml", show_default=True, metavar="FILE", help="The file.")
@options("report_dir")
def waive(case: str, waivers: str, report_dir: str, **answers: str) -> None:
    """Answer for a failing CASE: have 'check --waivers FILE' excuse it until a day, as long as it still fails."""
    with mended(False):
        from ..diagnosis.witness import find, path_of
        from ..runs.waivers import waive as waived

        folder = Path(report_dir)
        say(waived(Path(waivers), find(case, folder), path_of(case, folder), answers).rstrip("\n"), plain=True)
