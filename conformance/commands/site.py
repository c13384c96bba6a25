"""`attnspec site`: static pages of specifications and results."""

from __future__ import annotations

from pathlib import Path

import click

from .shell import further, mended, options, say


@click.command(short_help="Build a web site of specifications and results.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("results", nargs=-1, type=click.Path(path_type=Path))
@options("specs")
def site(folder: Path, results: tuple[Path, ...], specs: tuple[str, ...]) -> None:
    """Build a web site in DIR from the specifications and from RESULTS: results files or baselines, or folders of them.

    \b
    attnspec site public                          # specifications only
    attnspec site public results attnspec-report  # with results

    The site has a page for each mechanism and each implementation, the matrix, the changes between runs, the findings,
    a search, and a badge for each implementation. Pages are static and can be opened from disk.
    """  # noqa: D301 - click leaves the lines alone that follow the character itself
    with mended():
        from ..site.building import build
        from ..site.history import runs_of

        count = build(folder, runs_of(results), further(specs).library())
        say(f"site     {folder / 'index.html'}   {count} files")
