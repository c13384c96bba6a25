"""`attnspec list`: what there is."""

from __future__ import annotations

import click

from .shell import further, mended, options, say


@click.command("list", short_help="List mechanisms, laws, operators, adapters, mistakes and more.")
@click.argument(
    "what", type=click.Choice(["mechanisms", "laws", "operators", "adapters", "mistakes", "conventions", "functions"])
)
@options("specs")
def list_(what: str, specs: tuple[str, ...]) -> None:
    """List what there is: mechanisms, laws, operators, adapters, mistakes, conventions or functions."""
    with mended(False):
        from . import listing

        for line in listing.listed(what, further(specs).library()):
            say(line)
