"""What commands share: output, exit codes and options.

It imports what a command needs when the command runs, so that `--help` is instant.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..data.texts import safe, safe_lines
from ..errors import Error, Exit
from ..reporting.typesetting import fitted, terminal
from ..runs.options import OPTIONS, REPORT_DIR, Option

if TYPE_CHECKING:
    from ..mechanisms.loader import Specs
    from ..runs.opening import Kept

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a system that has no more room."""
LONGEST = 10_000
"""Characters of a line that are written."""
Command = Callable[..., Any]


class NothingError(Error):
    """There was nothing to test."""

    exit = Exit.NOTHING_TESTED


def say(text: object = "", *, plain: bool = False, err: bool = False) -> None:
    """Write lines, printable whatever is in them; on a terminal, lines that are not `plain` are no wider than it is."""
    columns = None if plain or err else terminal()
    for line in str(text).split("\n"):
        for part in fitted(safe(line, LONGEST), columns):
            click.echo(part, err=err)


@contextmanager
def mended(verbose: bool | None = None) -> Iterator[None]:
    """Errors that a user can fix become one message and their exit code; all others are ours, and say so.

    They come with a trace where it is asked for. A command that has no `-v`, which is None here, shows it for ours.
    """
    try:
        yield
    except Error as error:
        say(f"attnspec: {error}", err=True)
        if verbose:
            say(safe_lines(traceback.format_exc()), err=True)
        sys.exit(int(error.exit))
    except KeyboardInterrupt:
        click.echo("attnspec: interrupted", err=True)
        sys.exit(int(Exit.INTERRUPTED))
    except (click.exceptions.Exit, click.ClickException, SystemExit):
        raise
    except BrokenPipeError:  # whoever read has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(int(Exit.CONFORMANT))
    except Exception as error:
        if isinstance(error, OSError) and error.errno in FULL:
            click.echo(f"attnspec: cannot write: {error.strerror}", err=True)
            sys.exit(int(Exit.USAGE))
        traced = verbose or verbose is None
        say_ours(f"{type(error).__name__}: {error}", safe_lines(traceback.format_exc(), 200) if traced else "")
        sys.exit(int(Exit.INTERNAL))


def say_ours(what: str, trace: str = "") -> None:
    """Say that attnspec itself failed, with the trace where it is asked for."""
    say(f"attnspec: internal error: {what}", err=True)
    say(trace or "attnspec: this is an error in attnspec; -v shows where", err=True)


# Options


def options(*names: str) -> Callable[[Command], Command]:
    """Options of a check, by name, for a command."""

    def decorate(command: Command) -> Command:
        for name in reversed(names):
            command = _option(OPTIONS[name])(command)
        return command

    return decorate


def _option(option: Option) -> Callable[[Command], Command]:
    default = REPORT_DIR if option.name == "report_dir" else option.default
    flags = [*filter(None, [option.short]), f"--{option.flag}", option.name]
    if option.kind is bool:
        flags[-2] += f"/--no-{option.flag}" if default else ""
        return click.option(*flags, is_flag=True, default=default, help=option.says)
    return click.option(
        *flags,
        multiple=option.several,
        default=None if option.several else default,
        show_default=not option.several and default not in (None, ""),
        type=click.Choice(option.choices) if option.choices else option.kind,
        metavar=option.metavar or None,
        help=option.says.removesuffix(".") + "; may be repeated." if option.several else option.says,
    )


def typed() -> str:
    """The command as it was typed."""
    return str(click.get_current_context().obj)


def given() -> dict[str, Any]:
    """The options that were typed, and not left to their defaults."""
    context = click.get_current_context()
    source = context.get_parameter_source
    return {name: x for name, x in context.params.items() if source(name) is ParameterSource.COMMANDLINE}


def of_project(name: str, x: Any) -> Any:
    """An option as it was typed; else as the project declares it; else its default."""
    from ..runs.project import declared

    return x if name in given() else declared(Path.cwd()).get(name, x)


def further(specs: Sequence[str] = (), references: Sequence[str] = ()) -> Specs:
    """The specifications from outside the package: those that were named, or what the project declares."""
    from ..mechanisms.loader import Specs
    from ..runs.project import declared

    return Specs(tuple(specs) or declared(Path.cwd()).get("specs", ()), tuple(references))


def of_case(command: Command) -> Command:
    """The options of a command that opens a kept case, which `opened` takes."""
    says = "Run the file that the case names, even if it is outside the current folder."
    command = click.option("--trust", is_flag=True, help=says)(command)
    return options("report_dir", "operator", "framework", "time_limit", "specs", "references")(command)


def opened(
    case: str,
    *,
    report_dir: str,
    operator: str | None,
    framework: str | None,
    time_limit: float,
    specs: tuple[str, ...],
    references: tuple[str, ...],
    trust: bool,
) -> Kept:
    """The case that was named, as the options of `of_case` have it opened."""
    from ..runs.opening import Kept

    def note(text: str) -> None:
        click.echo(f"attnspec: {text}", err=True)

    folder, known = Path(of_project("report_dir", report_dir)), further(specs, references)
    return Kept(case, folder, operator, framework, note, trusted=trust, seconds=time_limit, specs=known)


every = click.option("--all", "every", is_flag=True, help="Check every adapter that is installed and not slow.")
watch = click.option("--watch", is_flag=True, help="Check again whenever a file is saved, until Ctrl-C.")
verbosity = click.option("-v", "--verbose", count=True, help="Show all failures in full, with tracebacks.")


def named(targets: tuple[str, ...], every: bool, device: str, *, elsewhere: bool = False) -> tuple[str, ...]:
    """The targets that were asked for, with --all every adapter that runs on the device beside them."""
    if every:
        from ..subjects.registered import every_one

        targets = (*targets, *every_one(device, elsewhere=elsewhere))
    if not targets:
        raise click.UsageError("name a target, or use --all ('attnspec list adapters' lists adapters)")
    return targets
