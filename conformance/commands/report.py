"""`attnspec report`: how adapters stand, from the results of runs."""

from __future__ import annotations

from pathlib import Path

import click

from ..reporting.typesetting import terminal
from .shell import mended, of_project, options, say


@click.command(short_help="Show how adapters stand, from the results of runs.")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--markdown/--text", default=False, help="As Markdown, or for a terminal.")
@options("html", "report_dir")
def report(files: tuple[Path, ...], markdown: bool, html: str | None, report_dir: str) -> None:
    """Show how adapters stand, from results FILES, or from those of the report folder.

    Adapters by mechanisms and dtypes, the conventions that they follow, their precision, and what fails.
    """
    with mended(False):
        from ..reporting import matrix
        from ..reporting.results import NAME, read

        paths = files or (Path(of_project("report_dir", report_dir)) / NAME,)
        found = [read(path) for path in paths]
        if html:
            from ..reporting.rendering import Source, write

            folders = [str(path.parent) for path in paths]
            write(Path(html), [Source(lines, folder) for lines, folder in zip(found, folders, strict=True)])
            say(f"page     {html}")
            return
        render = matrix.markdown if markdown else matrix.text
        cells, heads = [*matrix.merged(found), *matrix.lacking(found)], [lines[0] for lines in found]
        more = {} if markdown else {"columns": terminal()}
        lines = render(heads, cells, matrix.unfinished(found), matrix.shortcomings(found), **more)
        say("\n".join(lines), plain=markdown)
