"""`attnspec diff`: how two implementations differ."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from ..reporting.progress import progress
from ..runs.interruptions import interruptible
from .check import muted
from .shell import given, mended, options, say, typed, verbosity

ASKED = (
    "operator",
    "framework",
    "layout",
    "dtypes",
    "device",
    "mechanisms",
    "specs",
    "references",
    "profile",
    "seed",
    "max_time",
    "time_limit",
)


@click.command(short_help="Compare two implementations.")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@options(*ASKED)
@click.option("--markdown", is_flag=True, help="As Markdown.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON, as docs/diff.md describes.")
@verbosity
def diff(a: str, b: str, markdown: bool, as_json: bool, verbose: int, **_: Any) -> None:
    """Compare A and B: conventions, options, laws, precision, bits and contracts.

    Both are targets of 'attnspec check' with the same operator, and run on the same cases.

    \b
    attnspec diff torch_sdpa my_kernels.py:flash
    attnspec diff torch_sdpa transformers_eager --dtype bfloat16
    attnspec diff my_kernels.py@/envs/old my_kernels.py@/envs/new

    Exit codes: 0 if there is no difference beyond bounds and conventions, 1 if there is one, 5 if too little was
    compared.
    """  # noqa: D301 - click leaves the lines alone that follow the character itself
    with mended(bool(verbose)):
        with interruptible(), progress("reading specifications") as shown, muted():
            from ..reporting import side_by_side
            from ..runs.difference import differences, exit_of
            from ..runs.options import Options

            asked = {name: x for name, x in given().items() if name in ASKED}
            found = differences(Options(targets=(a, b), **asked), typed(), shown.says)
        if as_json:
            say(json.dumps(found, indent=1), plain=True)
        else:
            render = side_by_side.markdown if markdown else side_by_side.page
            for line in render(found):
                say(line, plain=True)
        sys.exit(int(exit_of(found)))
