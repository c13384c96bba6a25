"""`attnspec waive`: excuse a failure until a date."""

from __future__ import annotations

from pathlib import Path

import click

from .shell import further, mended, of_project, options, say


@click.command(short_help="Excuse a failing case until a date.")
@click.argument("case")
@click.option("--reason", required=True, metavar="TEXT", help="Why it is excused.")
@click.option("--issue", required=True, metavar="URL", help="The address of the issue.")
@click.option("--owner", required=True, metavar="NAME", help="Who is responsible.")
@click.option("--expires", required=True, metavar="DAY", help="The last day of the waiver.")
@click.option("--ceiling", metavar="NUMBER", help="The largest excused error, in units of the bound.")
@click.option("--waivers", default="attnspec-waivers.yaml", show_default=True, metavar="FILE", help="The file.")
@options("report_dir", "specs")
def waive(case: str, waivers: str, report_dir: str, specs: tuple[str, ...], **answers: str) -> None:
    """Excuse a failing CASE: 'check --waivers FILE' accepts it until a date, as long as it still fails."""
    with mended():
        from ..diagnosis.stored import find, library_of, path_of
        from ..runs.waivers import waive as waived

        folder = Path(of_project("report_dir", report_dir))
        named = further(specs)
        witness = find(case, folder, named)
        added = waived(
            Path(of_project("waivers", waivers)), witness, path_of(case, folder), answers, library_of(witness, named)
        )
        say(added.rstrip("\n"), plain=True)
