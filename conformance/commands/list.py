"""`attnspec list`: what there is."""

from __future__ import annotations

import click

from .shell import mended, say


@click.command("list", short_help="List mechanisms, laws, operators, adapters, mistakes and more.")
@click.argument(
    "what", type=click.Choice(["mechanisms", "laws", "operators", "adapters", "mistakes", "conventions", "functions"])
)
def list_(what: str) -> None:
    """List what there is: mechanisms, laws, operators, adapters, mistakes, conventions or functions."""
    with mended(False):
        from . import listing

        for line in listing.listed(what):
            say(line)
