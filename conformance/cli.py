"""The command line. It imports what a command needs when the command runs, so that `--help` is instant."""

from __future__ import annotations

import errno
import io
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import click

from .data.texts import safe, safe_lines
from .errors import Error, Exit
from .execution.threads import keep_to_one
from .reporting.progress import Progress, progress
from .reporting.typesetting import fitted, terminal
from .runs.interruptions import interruptible, leave

REPORT_DIR = "attnspec-report"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a system that has no more room."""
LONGEST = 10_000
"""Characters of a line that are written."""


def say(text: object = "", *, plain: bool = False, err: bool = False) -> None:
    """Write lines, printable whatever is in them; on a terminal, lines that are not `plain` are no wider than it is."""
    columns = None if plain or err else terminal()
    for line in str(text).split("\n"):
        for part in fitted(safe(line, LONGEST), columns):
            click.echo(part, err=err)


@contextmanager
def mended(verbose: bool) -> Iterator[None]:
    """Errors that a user can mend become one message and their exit code; all others are ours, and say so."""
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
        say(f"attnspec: internal error: {type(error).__name__}: {error}", err=True)
        if verbose:
            say(safe_lines(traceback.format_exc(), 200), err=True)
        else:
            say("attnspec: this is a fault of attnspec; -v shows where", err=True)
        sys.exit(int(Exit.INTERNAL))


class Group(click.Group):
    """Usage errors leave with the code of bad usage, and a program that was interrupted leaves at once.

    Commands are listed as they stand here, the usual one first.
    """

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        try:
            return self.main(*args, **keywords)
        except SystemExit as end:
            if end.code == int(Exit.INTERRUPTED):
                leave(int(Exit.INTERRUPTED))
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def main(self, *args: Any, **keywords: Any) -> Any:
        keywords["standalone_mode"] = False
        try:
            return super().main(*args, **keywords)
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


Command = Callable[..., Any]


def _options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


verbosity = click.option("-v", "--verbose", count=True, help="All failures in full, with traces.")
report_dir = click.option(
    "--report-dir", default=REPORT_DIR, show_default=True, metavar="DIR", help="Where results go."
)
function_options = _options(
    click.option("--operator", metavar="NAME", help="The operator of a function whose name does not say it."),
    click.option("--framework", metavar="NAME", help="The framework of its arrays: torch or numpy."),
)


@main.command(short_help="Check adapters, files of adapters, or functions.")
@click.argument("targets", nargs=-1, metavar="TARGET...")
@click.option("--all", "every", is_flag=True, help="Every adapter that is installed and not slow.")
@function_options
@click.option("--dtype", "dtypes", multiple=True, metavar="DTYPE", help="Only this dtype; may be repeated.")
@click.option("--device", default="cpu", show_default=True, metavar="DEVICE", help="cpu, cuda or cuda:N.")
@click.option("--mechanism", "mechanisms", multiple=True, metavar="NAME", help="Only this mechanism; may be repeated.")
@click.option("--law", "laws", multiple=True, metavar="NAME", help="Only this law: mechanism.law, or law.")
@click.option(
    "--require",
    multiple=True,
    metavar="WHAT",
    help="Fail unless this was tested: law:MECHANISM.LAW, mechanism:NAME, option:NAME, grade:NAME, share:0.95.",
)
@click.option(
    "--profile",
    default="quick",
    show_default=True,
    metavar="NAME",
    help="How much is tried: smoke, quick, ci or nightly.",
)
@click.option("--seed", default=0, show_default=True, metavar="N", help="The seed of all cases.")
@click.option("--max-time", type=float, metavar="SECONDS", help="Stop drawing cases after so long.")
@click.option(
    "--fail-on",
    type=click.Choice(["must", "should"]),
    default="must",
    show_default=True,
    help="The level of a law that makes a subject violated.",
)
@click.option(
    "--isolate/--no-isolate",
    default=True,
    help="Call in processes of their own; in this one, nothing bounds the time of a call or what it prints.",
)
@click.option(
    "--time-limit", default=30.0, show_default=True, metavar="SECONDS", help="How long a call may take, if isolated."
)
@click.option("-n", "--workers", default="0", metavar="N", help="Run in N processes beside this one.")
@click.option("--shard", default="", metavar="I/N", help="Only the I-th of N parts.")
@click.option("-x", "--exitfirst", is_flag=True, help="Stop at the first failure.")
@click.option("--waivers", default="", metavar="FILE", help="Failures that somebody answers for: see 'waive'.")
@click.option("--resume", is_flag=True, help="Go on with a run that was ended, from the results in the report folder.")
@report_dir
@verbosity
def check(
    targets: tuple[str, ...],
    every: bool,
    workers: str,
    exitfirst: bool,
    resume: bool,
    report_dir: str,
    verbose: int,
    **options: Any,
) -> None:
    """Check TARGETs: adapters by name, files of adapters, or file.py:function.

    \b
    attnspec check torch_sdpa
    attnspec check my_kernels.py --dtype bfloat16
    attnspec check my_kernels.py:flash --operator attention
    attnspec check reference
    attnspec check mistake:attention.no_scale
    attnspec check fault:boundary_key_twice
    """  # noqa: D301 - click leaves the lines alone that follow the character itself
    with mended(bool(verbose)):
        with interruptible(), progress("reading specifications") as shown:
            targets = named(targets, every, options["device"])
            more = [*(["-x"] if exitfirst else []), *(["--attnspec-resume"] if resume else [])]
            code, lines = run_pytest(targets, options, workers, report_dir, more, shown)
        from .reporting.summary import page

        for line in page(lines, verbose=verbose, folder=report_dir, columns=terminal()):
            say(line, plain=True)
        broken = next((line for line in lines if line.get("verdict") == "internal"), None)
        if broken is not None:
            say(f"attnspec: internal error: {broken['mechanism']}.{broken['law']}: {broken['says']}", err=True)
            say("attnspec: this is a fault of attnspec; -v shows where", err=True)
        sys.exit(code)


def named(targets: tuple[str, ...], every: bool, device: str) -> tuple[str, ...]:
    """The targets that were asked for, with --all every adapter that runs on the device beside them."""
    if every:
        from .subjects.targets import every_one

        targets = (*targets, *every_one(device))
    if not targets:
        raise click.UsageError("name a target, or --all ('attnspec list adapters' lists them)")
    return targets


def run_pytest(
    targets: Sequence[str],
    options: Mapping[str, Any],
    workers: str,
    report_dir: str,
    more: Sequence[str],
    shown: Progress,
) -> tuple[int, list[dict[str, Any]]]:
    """Run the cells as pytest items, and give back the exit code and the lines of the results."""
    os.environ.setdefault("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    from .execution.devices import check_device, workers_on
    from .reporting.results import check_folder, resumable
    from .runs.runner import Options, Runner, groups, header_of

    asked, folder = Options(targets=tuple(targets), **options), Path(report_dir)
    check_device(asked.device)  # what is wrong is said before anything runs
    shown.says(f"loading {' '.join(asked.targets)}")
    found = groups(asked)
    Runner(asked)
    if not found:
        raise NothingError("nothing to test: no mechanism, dtype and target go together")
    check_folder(folder)
    if "--attnspec-resume" in more:
        resumable(folder, header_of(asked, found, ""), {group.key: group.laws for group in found})
    import pytest

    args = [
        "-c",
        os.devnull,
        "--rootdir",
        str(Path.cwd()),
        "--noconftest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:unraisableexception",  # it collects garbage ten times over, for seconds
        "-p",
        "attnspec.plugin",
        "--junitxml",
        str(folder / "junit.xml"),
        "-o",
        "junit_family=xunit2",
        "-W",
        "ignore",
        "--attnspec-report-dir",
        report_dir,
    ]
    args += _plugin_arguments(asked)
    args += more
    if asked.device != "cpu" and workers not in ("0", ""):
        workers = str(workers_on(asked.device, int(workers) if workers.isdigit() else os.cpu_count() or 1))
    if workers not in ("0", ""):
        args += ["-p", "xdist", "-n", workers, "--dist", "worksteal"]
    keeper = _Keeper(shown, sum(len(group.laws) for group in found))
    with redirect_stdout(io.StringIO()) as said:
        status = int(pytest.main(args, plugins=[keeper]))
    message = f"pytest ended with {status}: {' | '.join(safe_lines(said.getvalue().strip(), 3).splitlines())}"
    if keeper.lines is None or status == int(Exit.USAGE):
        raise RuntimeError(message)
    if status == int(Exit.INTERNAL):  # what was found stands
        click.echo(f"attnspec: internal error: {message}", err=True)
    return _code(status, keeper.lines), keeper.lines


class NothingError(Error):
    """There was nothing to test."""

    exit = Exit.NOTHING_TESTED


def _plugin_arguments(asked: Any) -> list[str]:
    args: list[str] = []
    for option, values in (
        ("", asked.targets),
        ("-dtype", asked.dtypes),
        ("-mechanism", asked.mechanisms),
        ("-law", asked.laws),
        ("-require", asked.require),
    ):
        for value in values:
            args += [f"--attnspec{option}", value]
    args += [] if asked.isolate else ["--attnspec-no-isolate"]
    for option in (
        "operator",
        "framework",
        "device",
        "profile",
        "seed",
        "shard",
        "max_time",
        "fail_on",
        "time_limit",
        "waivers",
    ):
        value = getattr(asked, option)
        if value not in (None, ""):
            args += [f"--attnspec-{option.replace('_', '-')}", str(value)]
    return args


def _code(status: int, lines: list[dict[str, Any]]) -> int:
    from .reporting.standings import exit_of

    return status if status in (Exit.INTERRUPTED, Exit.INTERNAL) else int(exit_of(lines))


class _Keeper:
    """A pytest plugin that keeps the lines of the results, and counts what is done."""

    def __init__(self, shown: Progress, total: int) -> None:
        self.lines: list[dict[str, Any]] | None = None
        self.done, self.total, self.shown = 0, total, shown
        shown.cells(0, total)

    def pytest_addoption(self, parser: Any) -> None:
        parser.addoption("--attnspec-quiet", dest="attnspec_quiet", action="store_true", default=True)

    def pytest_collection_finish(self, session: Any) -> None:
        self.total = len(session.items) or self.total  # in a process that only controls others, there are none

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.shown.cells(self.done, self.total, nodeid.removeprefix("attnspec/").replace(".yaml::", "."))

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call":
            self.done += 1
            self.shown.cells(self.done, self.total)

    def pytest_keyboard_interrupt(self, excinfo: Any) -> None:
        """Shorten the traceback, which nobody sees: to format all of it takes seconds."""
        excinfo.traceback = excinfo.traceback[-1:]

    def pytest_unconfigure(self, config: Any) -> None:
        session = config.pluginmanager.get_plugin("attnspec-session")
        if session is not None and session.results is not None:
            session.close(2)
            self.lines = session.results.lines


@main.command(short_help="Run a failing case again.")
@click.argument("case")
@report_dir
@function_options
@click.option(
    "--time-limit", default=30.0, show_default=True, metavar="SECONDS", help="How long a call may take, if isolated."
)
@click.option("--trust", is_flag=True, help="Run the file that the case names even outside the present folder.")
@verbosity
def replay(
    case: str,
    report_dir: str,
    operator: str | None,
    framework: str | None,
    time_limit: float,
    trust: bool,
    verbose: int,
) -> None:
    """Run a failing CASE again, by its key or the path of its file.

    A case that names a Python file has it run.
    """
    with mended(bool(verbose)):
        from .runs.replay import replayed

        def note(text: str) -> None:
            click.echo(f"attnspec: {text}", err=True)

        folder = Path(report_dir)
        code = replayed(case, folder, operator, framework, say, note=note, trusted=trust, seconds=time_limit)
        sys.exit(int(code))


@main.command(short_help="Say which conventions an implementation follows.")
@click.argument("targets", nargs=-1, metavar="TARGET...")
@click.option("--all", "every", is_flag=True, help="Every adapter that is installed and not slow.")
@function_options
@click.option("--dtype", "dtypes", multiple=True, metavar="DTYPE", help="Only this dtype; may be repeated.")
@click.option("--device", default="cpu", show_default=True, metavar="DEVICE", help="cpu, cuda or cuda:N.")
@click.option("--markdown/--text", default=False, help="As tables in Markdown, or as blocks to paste.")
@click.option("--count", default="", metavar="PAGE", help="Only count the words on a page that --markdown has made.")
def identify(
    targets: tuple[str, ...],
    every: bool,
    operator: str | None,
    framework: str | None,
    dtypes: tuple[str, ...],
    device: str,
    markdown: bool,
    count: str,
) -> None:
    """Say which conventions TARGETs follow, and which cases show it, as a block for their declaration."""
    with mended(False):
        if count:
            say(_counted(Path(count)), plain=True)
            return
        with progress("reading specifications") as shown:
            asked = {"operator": operator, "framework": framework, "dtypes": dtypes, "device": device}
            for line in _identified(named(targets, every, device), asked, markdown, shown):
                with shown.apart():
                    say(line, plain=True)


def _identified(targets: Sequence[str], options: Mapping[str, Any], markdown: bool, shown: Progress) -> Iterator[str]:
    from .commands import identification
    from .execution.devices import check_device
    from .reporting.summary import title
    from .runs.runner import Options, groups, header_of

    check_device(options["device"])
    asked = Options(targets=tuple(targets), **options)
    own = groups(asked)
    subjects = {group.subject.name: group.subject for group in own}
    if not subjects:
        raise NothingError("nothing to identify: no dtype and target go together")
    found = []
    for subject in subjects.values():
        shown.says(f"identifying {subject.name}")
        words = identification.identified(subject, asked.device, asked.dtypes)
        found.append((subject, words, identification.splits(subject, asked.device, words)))
        yield from () if markdown else identification.page(*found[-1])
    yield from identification.tables(found, title(header_of(asked, own, ""))) if markdown else ()


def _counted(page: Path) -> str:
    """How many adapters follow each word, as it is kept."""
    import json

    from .data.files import read_text
    from .reporting.prevalence import PAGE, counted

    return json.dumps(counted(read_text(page, PAGE).splitlines()), indent=1)


@main.command(short_help="Say what is at hand on this machine, and what mends the rest.")
def doctor() -> None:
    """Say what is at hand on this machine, what is not and why, and which command mends it."""
    with mended(False):
        from .commands.doctor import lines, packages

        with progress("importing packages"):
            found = packages()
        say("\n".join(lines(found)))
        broken = any(package.broken and package.mends for package in found)
        sys.exit(int(Exit.NOT_LOADED if broken else Exit.CONFORMANT))


@main.command(short_help="Show how adapters stand, from the results of runs.")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--markdown/--text", default=False, help="As Markdown, or for a terminal.")
@report_dir
def report(files: tuple[Path, ...], markdown: bool, report_dir: str) -> None:
    """Show how adapters stand, from results FILES, or from those of the report folder.

    Adapters by mechanisms and dtypes, the conventions that they follow, their precision, and what fails.
    """
    with mended(False):
        from .reporting import matrix
        from .reporting.results import NAME, read

        found = [read(path) for path in files or (Path(report_dir) / NAME,)]
        render = matrix.markdown if markdown else matrix.text
        cells, heads = [*matrix.merged(found), *matrix.lacking(found)], [lines[0] for lines in found]
        more = {} if markdown else {"columns": terminal()}
        lines = render(heads, cells, matrix.unfinished(found), matrix.shortcomings(found), **more)
        say("\n".join(lines), plain=markdown)


@main.command(short_help="Answer for a failing case until a day.")
@click.argument("case")
@click.option("--reason", required=True, metavar="TEXT", help="Why it may fail for now.")
@click.option("--issue", required=True, metavar="URL", help="Where it is being mended.")
@click.option("--owner", required=True, metavar="NAME", help="Who answers for it.")
@click.option("--expires", required=True, metavar="DAY", help="The last day on which it is excused.")
@click.option("--ceiling", metavar="NUMBER", help="The largest error that is excused, in units of the bound.")
@click.option("--waivers", default="attnspec-waivers.yaml", show_default=True, metavar="FILE", help="The file.")
@report_dir
def waive(case: str, waivers: str, report_dir: str, **answers: str) -> None:
    """Answer for a failing CASE: have 'check --waivers FILE' excuse it until a day, as long as it still fails."""
    with mended(False):
        from .diagnosis.witness import find, path_of
        from .runs.waivers import waive as waived

        folder = Path(report_dir)
        say(waived(Path(waivers), find(case, folder), path_of(case, folder), answers).rstrip("\n"), plain=True)


@main.command("list", short_help="List mechanisms, laws, operators, adapters, mistakes and more.")
@click.argument(
    "what", type=click.Choice(["mechanisms", "laws", "operators", "adapters", "mistakes", "conventions", "functions"])
)
def list_(what: str) -> None:
    """List what there is: mechanisms, laws, operators, adapters, mistakes, conventions or functions."""
    with mended(False):
        from .commands import listing

        for line in listing.listed(what):
            say(line)


@main.command(short_help="Explain a mechanism, a law, a mistake or a convention.")
@click.argument("name")
def explain(name: str) -> None:
    """Explain NAME: a mechanism, law, mistake, convention, contract, operator, adapter, grade or function."""
    with mended(False):
        from .commands import pages

        say("\n".join(pages.explained(name)))


@main.command(short_help="Check specification files.")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@verbosity
def lint(files: tuple[Path, ...], verbose: int) -> None:
    """Check specification FILES, or all that are shipped: schema, names, expressions, prose."""
    with mended(bool(verbose)):
        from .mechanisms.lint import lint_files

        found, count = lint_files(files)
        for fault in found:
            say(fault)
        faults = f"{len(found)} fault{'s' * (len(found) > 1)}" if found else "no faults"
        say(f"{count} file{'s' * (count > 1)}, {faults}")
        sys.exit(int(Exit.USAGE if found else Exit.CONFORMANT))


@main.command(short_help="Would this suite notice? Run every known mistake.")
@click.option("--mechanism", "mechanisms", multiple=True, metavar="NAME", help="Only this mechanism; may be repeated.")
@click.option("--deep", is_flag=True, help="Correct variants on 2000 drawn cases each.")
@click.option("--table/--no-table", default=False, help="Print which law refutes which mistake, and how.")
@click.option("--derive", is_flag=True, help="Derive which scenarios show which mistakes, for spec/evidence/.")
@click.option(
    "--for", "target", metavar="TARGET", help="Which mistakes a quick check of TARGET could not notice, and why."
)
@function_options
@click.option("-n", "--workers", default=0, metavar="N", help="Processes to run in; one for each core if 0.")
@verbosity
def audit(
    mechanisms: tuple[str, ...],
    deep: bool,
    table: bool,
    derive: bool,
    target: str | None,
    operator: str | None,
    framework: str | None,
    workers: int,
    verbose: int,
) -> None:
    """Would this suite notice? Run every known mistake, and correct variants, against the laws."""
    with mended(bool(verbose)):
        if target is not None:
            audit_for(target, mechanisms, operator, framework)
            return
        if operator or framework:
            raise click.UsageError("--operator and --framework are about the TARGET of --for")
        from .auditing import audit

        started, processes = time.time(), workers or os.cpu_count() or 1
        faults = 0
        parts = (
            audit.derive(mechanisms, workers=processes)
            if derive
            else audit.audited(mechanisms, deep=deep, workers=processes)
        )
        for part in parts:
            for line in part.lines(table=table or bool(verbose)):
                say(line)
            faults += len(part.faults)
        say(
            f"audit: {faults} faults in {time.time() - started:.0f} s"
            if faults
            else f"audit: no faults in {time.time() - started:.0f} s"
        )
        sys.exit(int(Exit.VIOLATED if faults else Exit.CONFORMANT))


def audit_for(target: str, mechanisms: tuple[str, ...], operator: str | None, framework: str | None) -> None:
    """Say which known mistakes a check of a target could not notice."""
    with progress("reading specifications") as shown:
        for line in _blind(target, mechanisms, operator, framework, shown):
            with shown.apart():
                say(line)


def _blind(
    target: str, mechanisms: tuple[str, ...], operator: str | None, framework: str | None, shown: Progress
) -> Iterator[str]:
    from .auditing.blind_spots import page, seen
    from .runs.runner import Options, groups

    found = groups(Options(targets=(target,), mechanisms=mechanisms, operator=operator, framework=framework))
    if not found:
        raise NothingError("nothing to ask about: no mechanism, dtype and target go together")
    for subject in {group.subject.name: group.subject for group in found}.values():
        own = [group for group in found if group.subject is subject]
        shown.says(f"looking for what would go unnoticed in {subject.name}")
        yield from page(subject, [seen(subject, group.mechanism, group.dtype) for group in own])


if __name__ == "__main__":
    main()
