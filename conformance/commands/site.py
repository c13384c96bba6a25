"""`attnspec site`: static pages of specifications and results."""

from __future__ import annotations

from pathlib import Path

import click

from .shell import further, mended, options, say


@click.command(short_help="Build a site of specifications and results.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("results", nargs=-1, type=click.Path(path_type=Path))
@options("specs")
def site(folder: Path, results: tuple[Path, ...], specs: tuple[str, ...]) -> None:
    """Build a site into DIR, of the specifications and of RESULTS: files of results or baselines, or folders of them.

    \b
    attnspec site public                          # the semantics
    attnspec site public results attnspec-report  # and how implementations stand

    It has a page for each mechanism and each implementation, the matrix, what has changed from run to run, findings, a
    search, and a badge for each implementation. Pages are static, and can be opened from a disk.
    """  # noqa: D301 - click leaves the lines alone that follow the character itself
    with mended(False):
        from ..site.building import build
        from ..site.history import runs_of

        count = build(folder, runs_of(results), further(specs).library())
        say(f"site     {folder / 'index.html'}   {count} files")
