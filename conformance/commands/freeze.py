"""`attnspec freeze`: pin the laws that kernels must pass, or renew the pin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..errors import UsageError
from ..runs.options import LINE, PIN, given_at
from .check import asked
from .shell import NothingError, every, mended, options, say

OWN = (
    "targets",
    "pin",
    "resume",
    "html",
    "report_dir",
    "shard",
    "balance",
    "exitfirst",
    "workers",
    "waivers",
    "require",
)
"""Options of a check that say nothing of which laws there are."""
SHOWN = 20
"""Laws of one kind that are named; the rest is counted."""


@click.command(short_help="Pin the laws that count, so that an upgrade breaks no build.")
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@every
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default=Path(PIN), show_default=True, help="The pin file."
)
@options(*(option.name for option in given_at(LINE) if option.name not in OWN))
def freeze(every: bool, output: Path, **_: Any) -> None:
    """Write the laws that TARGETs must pass to a file, with versions, digests, profile and seed.

    'attnspec check --pin FILE', or `pin = "FILE"` in [tool.attnspec], then fails only for these laws. Laws that a
    later attnspec adds or changes are reported as notes, with their failures, until 'attnspec freeze' is run again.

    \b
    attnspec freeze my_kernels.py --profile ci
    attnspec check my_kernels.py --pin attnspec-pin.ndjson
    """  # noqa: D301 - click leaves the lines alone that follow the character itself
    with mended():
        from ..data.files import replace_text
        from ..runs.groups import groups
        from ..runs.pins import pin_of, raised, read, written

        chosen = asked(every, "output")
        found = groups(chosen)
        if not found:
            raise NothingError("nothing to pin: no target claims these mechanisms and dtypes")
        before = read(output) if output.exists() else None
        pin = pin_of(chosen, found)
        try:
            replace_text(output, written(pin))
        except OSError as error:
            raise UsageError(f"{output} cannot be written: {error.strerror}") from None
        laws = sum(len(known.laws) for known in pin.mechanisms.values())
        say(f"{output}: {laws} laws of {len(pin.mechanisms)} mechanisms, as attnspec {pin.attnspec} has them")
        say(f"  for {', '.join(pin.subjects)}, under the profile {pin.profile} and the seed {pin.seed}")
        if before is not None:
            _say_raised(list(raised(before, pin)), before.attnspec)


def _say_raised(changed: list[tuple[str, str]], earlier: str) -> None:
    """What is asked for that was not, and the other way round."""
    if not changed:
        say("  nothing in it has changed")
    for kind in ("new", "changed", "gone"):
        own = [name for name, what in changed if what == kind]
        if own:
            more = f" and {len(own) - SHOWN} more" if len(own) > SHOWN else ""
            say(f"  {kind} since attnspec {earlier}: {', '.join(own[:SHOWN])}{more}")
