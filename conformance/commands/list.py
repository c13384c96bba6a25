"""`attnspec list`: lists of mechanisms, laws, adapters and so on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from .shell import mended, options, say


@click.command("list", short_help="List mechanisms, laws, operators, adapters, mistakes and more.")
@click.argument(
    "what",
    type=click.Choice(
        ["mechanisms", "laws", "operators", "adapters", "mistakes", "conventions", "functions", "signatures"]
    ),
)
@options("specs")
def list_(what: str, specs: tuple[str, ...]) -> None:
    """List mechanisms, laws, operators, adapters, mistakes, conventions, functions or signatures."""
    with mended():
        from ..runs.project import declared
        from .kept import lines_of

        folders = specs or declared(Path.cwd()).get("specs", ())

        def made() -> Iterator[str]:
            from ..mechanisms.loader import Specs
            from .listing import listed

            return listed(what, Specs(tuple(folders)).library())

        for line in lines_of(what, folders, made):
            say(line)
