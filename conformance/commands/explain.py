"""`attnspec explain`: one thing in full."""

from __future__ import annotations

import click

from .shell import further, mended, options, say


@click.command(short_help="Explain a mechanism, a law, a mistake or a convention.")
@click.argument("name")
@options("specs")
def explain(name: str, specs: tuple[str, ...]) -> None:
    """Explain NAME: a mechanism, law, mistake, convention, contract, operator, adapter, grade or function."""
    with mended():
        from . import pages

        say("\n".join(pages.explained(name, further(specs).library())))
