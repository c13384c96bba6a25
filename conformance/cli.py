"""The command line, whose commands import what they need when they run, so that `--help` is instant."""

from __future__ import annotations

import gc
import shlex
import sys
from collections.abc import Sequence
from typing import Any

import click

from .commands.audit import audit
from .commands.check import check
from .commands.check_protocol import check_protocol
from .commands.compare import compare
from .commands.diff import diff
from .commands.doctor import doctor
from .commands.explain import explain
from .commands.freeze import freeze
from .commands.identify import identify
from .commands.init import init
from .commands.lint import lint
from .commands.list import list_
from .commands.mutate import mutate
from .commands.plan import plan
from .commands.record import record
from .commands.replay import replay
from .commands.report import report
from .commands.repro import repro
from .commands.site import site
from .commands.vectors import vectors
from .commands.waive import waive
from .errors import Exit
from .execution.threads import keep_to_one
from .runs.interruptions import leave

GARBAGE = 50_000
"""Objects that are made before garbage is looked for, which takes long and finds hardly any."""


class Group(click.Group):
    """Usage errors leave with the code of bad usage, and a program that runs this command ends along with it.

    Commands are listed as they are added, the usual one first.
    """

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Run the command that was typed, and leave; one that is given by who calls returns."""
        if args or keywords:
            return self.main(*args, **keywords)
        try:
            code = self.main()
        except SystemExit as end:
            code = end.code
        return leave(int(code or 0))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def main(self, args: Sequence[str] | None = None, *further: Any, **keywords: Any) -> Any:
        keywords["standalone_mode"] = False
        words = sys.argv[1:] if args is None else args
        try:
            return super().main(args, *further, obj=shlex.join(["attnspec", *words]), **keywords)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.ctx.get_help() if error.ctx else str(error))
            sys.exit(int(Exit.USAGE))
        except click.ClickException as error:
            error.show()
            sys.exit(int(Exit.USAGE))
        except click.exceptions.Abort:
            sys.exit(int(Exit.INTERRUPTED))


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="attnspec", message="%(package)s %(version)s")
def main() -> None:
    """Conformance tests for attention mechanisms: laws, a float64 reference, and derived error bounds.

    \b
    Exit codes:
      0  conformant
      1  violated
      2  interrupted
      3  an internal error
      4  bad usage, or a bad specification
      5  nothing was tested, or not all that was asked for
      6  a target cannot be loaded
    """  # noqa: D301 - click leaves the lines alone that follow the character itself
    keep_to_one()
    gc.set_threshold(GARBAGE, 20, 20)


_OF_KERNELS = (check, record, plan, init, replay, repro, diff, compare, identify, vectors, check_protocol)
_OF_RESULTS = (doctor, report, waive, freeze)
for command in (*_OF_KERNELS, *_OF_RESULTS, list_, explain, site, lint, audit, mutate):
    main.add_command(command)


if __name__ == "__main__":
    main()
