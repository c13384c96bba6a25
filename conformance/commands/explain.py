"""`attnspec explain`: one thing in full."""

from __future__ import annotations

import click

from .shell import mended, say


@click.command(short_help="Explain a mechanism, a law, a mistake or a convention.")
@click.argument("name")
def explain(name: str) -> None:
    """Explain NAME: a mechanism, law, mistake, convention, contract, operator, adapter, grade or function."""
    with mended(False):
        from . import pages

        say("\n".join(pages.explained(name)))
