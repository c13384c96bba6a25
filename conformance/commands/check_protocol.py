"""`attnspec check-protocol`: whether a program follows the protocol, whatever its kernels compute."""

from __future__ import annotations

import sys

import click

from ..errors import Exit
from .shell import mended, options, say


@click.command(name="check-protocol", short_help="Check that a program follows the kernel protocol.")
@click.argument("command")
@options("device", "time_limit")
def check_protocol(command: str, device: str, time_limit: float) -> None:
    """Check, clause by clause, that COMMAND follows the protocol of docs/protocol.md, whatever its kernels compute.

    \b
    attnspec check-protocol './my_kernels --serve'
    attnspec check 'exec:./my_kernels --serve'        # then check the kernels

    Exit codes: 0 if the program follows every clause, 1 if not, 6 if there is no such program.
    """  # noqa: D301 - click leaves the lines alone that follow the character itself
    with mended():
        from ..execution.addresses import EXEC
        from ..execution.supervisor import supervisor
        from ..runs.protocol import kept

        target = EXEC + command.removeprefix(EXEC)
        broken = 0
        for found in kept(target, device, time_limit, supervisor(time_limit, device)):
            say(f"{'FAIL' if found.wrong else 'ok  '}  {found.clause:24}  {found.says}", plain=True)
            if found.wrong:
                broken += 1
                say(f"      {'':24}  {found.wrong}", plain=True)
        say(f"BROKEN  {broken} clauses" if broken else "KEPT    every clause")
        sys.exit(int(Exit.VIOLATED if broken else Exit.CONFORMANT))
