"""`attnspec check`: a run, its progress, and its page."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..data.texts import safe_lines
from ..errors import Error
from ..reporting.progress import Progress, progress
from ..reporting.typesetting import fitted, page_width, terminal
from ..runs.interruptions import interruptible
from ..runs.options import LINE, REPORT_DIR, Options, given_at
from .shell import NothingError, every, given, mended, named, options, say, say_ours, typed, verbosity, watch

if TYPE_CHECKING:
    from ..runs.run import Run


@click.command(short_help="Check adapters, files of adapters, or functions.")
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@every
@options(*(option.name for option in given_at(LINE) if option.name != "targets"))
@watch
@verbosity
def check(every: bool, watch: bool, verbose: int, **_: Any) -> None:
    """Check TARGETs: adapters by name, files of adapters, file.py:function, file.py:Class, or package.module:function.

    Without TARGETs, check those that [tool.attnspec] in pyproject.toml names. Options on the command line override that
    table.

    \b
    attnspec check torch_sdpa
    attnspec check my_kernels.py --dtype bfloat16
    attnspec check my_kernels.py:flash --operator attention
    attnspec check my_model.py:CausalSelfAttention
    attnspec check torch.nn.functional:layer_norm
    attnspec check reference
    attnspec check mistake:attention.no_scale
    attnspec check fault:boundary_key_twice
    """  # noqa: D301 - click leaves the lines alone that follow the character itself
    with mended(bool(verbose)):
        if watch:
            from .watch import watched

            sys.exit(int(watched(asked(every), lambda options, outdated: checked(options, verbose, outdated))))
        sys.exit(int(checked(asked(every), verbose).exit))


def checked(options: Options, verbose: int, outdated: Callable[[], bool] | None = None) -> Run:
    """A run from its beginning to the page that it gives.

    Who watches says by `outdated` whether what is checked has changed; the run ends then, and gives no page.
    They are shown the first failure as soon as it is explained.
    """
    from ..runs.run import OUTDATED

    above, columns = set[str](), terminal()
    with interruptible(), progress("reading specifications") as shown, muted():
        run = begun(options, shown)
        if outdated is not None:
            run.outdated, run.told = outdated, lambda cell: _shown_first(cell, run, shown, above, columns)
            run.runner.explainer.blocks = 1  # the next round may have none of the others
            run.runner.announce = lambda cell: shown.line(f"{cell.mechanism}.{cell.law} fails in {cell.dtype} ...")
        failed = executed(run, shown)
    if run.ended == OUTDATED:
        return run
    from ..reporting.summary import page

    if failed:
        say_ours(failed[0], failed[1] if verbose else "")
    for line in page(run.lines, verbose=verbose, folder=str(run.folder), columns=columns, above=above):
        say(line, plain=True)
    if options.html:
        from ..reporting.rendering import Source, write

        write(Path(options.html), [Source(run.lines, str(run.folder))])
        say(f"page     {options.html}")
    broken = next((line for line in run.lines if line.get("verdict") == "internal"), None)
    if broken is not None:
        say_ours(f"{broken['mechanism']}.{broken['law']}: {broken['says']}")
    return run


def _shown_first(cell: Mapping[str, Any], run: Run, shown: Progress, above: set[str], columns: int | None) -> None:
    """Show a failure at once if it is explained in full and none was shown before; its case is `above` then."""
    if above or not cell.get("witness", {}).get("full"):
        return
    from ..reporting.blocks import failure

    above.add(cell["witness"]["key"])
    for line in failure(cell, str(run.folder), page_width(columns)).split("\n"):
        for part in fitted(line, columns):
            shown.line(part)


def asked(every: bool, *own: str) -> Options:
    """What was typed, and for the rest, what the project declares; `own` are options that are none of a check."""
    from ..runs.project import declared

    typed_in = {name: x for name, x in given().items() if name not in ("every", "watch", "verbose", *own)}
    found: dict[str, Any] = {"report_dir": REPORT_DIR, **declared(Path.cwd()), **typed_in}
    if every and "targets" not in typed_in:
        found["targets"] = ()
    targets = named(found.get("targets", ()), every, found.get("device", "cpu"), elsewhere=bool(found.get("on")))
    return Options(**{**found, "targets": targets})


def begun(options: Options, shown: Progress) -> Run:
    """A run that has begun; whatever is wrong with what was asked for is said before anything is written."""
    from ..runs.run import Run

    shown.says(f"loading {' '.join(options.targets)}")
    run = Run(options, typed())
    if not run.groups:
        raise NothingError("nothing to test: no target claims these mechanisms and dtypes")
    run.begin()
    return run


def executed(run: Run, shown: Progress) -> tuple[str, str] | None:
    """Run it, whatever interrupts it; what went wrong within attnspec, and where."""
    try:
        with suppress(KeyboardInterrupt):
            run.execute(shown)
    except Error:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}", safe_lines(traceback.format_exc(), 200)
    return None


@contextmanager
def muted() -> Iterator[None]:
    """Have nothing be seen of what functions print that are called in this process."""
    with ExitStack() as ending, open(os.devnull, "w", encoding="utf-8") as nowhere:
        for number, stream in ((1, sys.stdout), (2, sys.stderr)):
            with suppress(OSError, ValueError):
                stream.flush()
                kept = os.dup(number)
                ending.callback(os.close, kept)
                ending.callback(os.dup2, kept, number)
                os.dup2(nowhere.fileno(), number)
        ending.enter_context(redirect_stdout(nowhere))
        ending.enter_context(redirect_stderr(nowhere))
        yield
