"""The pytest plugin: `pytest --attnspec TARGET` runs the cells of the command line as pytest items.

One item is one law, subject and dtype, named `attnspec/MECHANISM.yaml::LAW[SUBJECT-DTYPE]`. The first item of a group
that a process meets runs the group, the others read its result; so selection, reruns, parallel runs and JUnit files are
pytest's own.
With `--attnspec` and no path, only these items are collected, which is said; `pytest --attnspec TARGET .` runs a
project's own tests as well.

Installed, this module is loaded into every pytest of its environment, so it imports nothing of its own until it is
asked to run.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import shlex
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .runs.options import PYTEST, Option, Options, given_at

if TYPE_CHECKING:
    from .reporting.records import CellLine
    from .runs.groups import Group

PREFIX = "attnspec/"
FOLDER = "attnspec-report"
"""Where cases are kept, unless otherwise asked for."""
ALONE = "attnspec: the tests of the project were not collected; name a path, such as '.', to run them as well"
DONE = "attnspec_done"
"""Under which the controlling process tells its workers what is done."""
REFUSED = ("loadgroup", "loadscope", "loadfile")
"""Ways of xdist to distribute that hang or repeat work when a test crashes."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("attnspec", "conformance of attention mechanisms")
    for option in given_at(PYTEST):
        more: dict[str, Any] = {"help": option.says, "dest": f"attnspec_{option.name}", "default": None}
        if option.kind is bool:
            more |= {"action": "store_false" if option.default else "store_true"}
        else:
            more |= {"metavar": option.metavar or None, "type": option.kind, "choices": option.choices or None}
            more |= {"action": "append"} if option.several else {}
        group.addoption(flag_of(option), **more)


def flag_of(option: Option) -> str:
    """The name of an option in the command line of pytest."""
    flag = f"no-{option.flag}" if option.default is True else option.flag
    return "--attnspec" if option.name == "targets" else f"--attnspec-{flag}"


def options_of(config: pytest.Config) -> Options:
    """The options of a run, from those of pytest and those that the project declares."""
    from .runs.project import declared

    given = {option.name: config.getoption(f"attnspec_{option.name}") for option in given_at(PYTEST)}
    given = {name: tuple(x) if isinstance(x, list) else x for name, x in given.items() if x is not None}
    known = {option.name for option in given_at(PYTEST)}
    found = {name: x for name, x in declared(config.invocation_params.dir).items() if name in known}
    return Options(**{**found, **given})


def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Node ids of cells are paths of the installed specifications to pytest."""
    for index, arg in enumerate(args):
        path, separator, rest = arg.partition("::")
        if path.startswith(PREFIX) and path.endswith(".yaml") and not Path(path).exists():
            from .mechanisms.schema import spec_folder

            name, further = path.removeprefix(PREFIX), early_config.known_args_namespace.attnspec_specs or ()
            found = next((each for folder in further if (each := Path(folder, name)).exists()), spec_folder() / name)
            args[index] = f"{found}{separator}{rest}"


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("attnspec_targets", None):
        return
    if getattr(config.option, "dist", "no") in REFUSED:
        raise pytest.UsageError(f"attnspec does not run with --dist {config.option.dist}; use worksteal or load")
    _check_workers(config)
    from .errors import Error
    from .execution.threads import keep_to_one
    from .mechanisms.schema import spec_folder
    from .runs.interruptions import interruptible, wait_for_the_end

    keep_to_one()

    try:
        session = Session(config)
    except Error as error:
        from .data.texts import safe_lines

        raise pytest.UsageError(safe_lines(str(error))) from None
    config.pluginmanager.register(session, "attnspec-session")
    if session.controls:
        ending = ExitStack()
        ending.enter_context(interruptible())
        config.add_cleanup(ending.close)
    elif hasattr(config, "workerinput"):
        wait_for_the_end()
    paths = [str(path) for path in dict.fromkeys(map(file_of, session.run.groups))]
    given = config.args_source is pytest.Config.ArgsSource.ARGS
    named = [arg for arg in config.args if str(arg).partition("::")[0] in paths]
    session.alone = not given
    if session.alone:
        atexit.register(gc.freeze)  # no specification is searched for garbage when the process ends
    without_conftests(config, spec_folder())
    if not named:
        config.args = [*(config.args if given else []), *paths]


def _check_workers(config: pytest.Config) -> None:
    """Refuse more processes than there are devices: one that waits for a device would keep the run from its end."""
    from .execution.devices import workers_on

    device = str(config.getoption("attnspec_device") or "cpu")
    workers = config.getoption("numprocesses", None) or 0
    if workers > 1 and device != "cpu" and workers > (most := workers_on(device, workers)):
        raise pytest.UsageError(f"-n {workers} with {most} of {device}: every process needs a device of its own")


def without_conftests(config: pytest.Config, folder: Path) -> None:
    """Have no conftest.py loaded for the sake of the specifications: where they come from is not part of a project."""
    manager: Any = config.pluginmanager
    here, original = config.invocation_params.dir, manager._is_in_confcutdir
    foreign = {folder, *folder.parents} - {here, *here.parents, config.rootpath, *config.rootpath.parents}
    manager._is_in_confcutdir = lambda path: path not in foreign and original(path)


class Session:
    """A run whose cells are items: pytest decides which of them are computed, when, and in which process."""

    def __init__(self, config: pytest.Config) -> None:
        from .runs.groups import free
        from .runs.run import Run

        self.config, options = config, options_of(config)
        self.run = Run(options, shlex.join(["pytest", *config.invocation_params.args]))
        self.run.cases = Path(options.report_dir or FOLDER)  # even where results are not kept
        if config.getoption("numprocesses", None):  # others make the calls, and need what has been held to ask for them
            free(options)
        self.controls = not (hasattr(config, "workerinput") or config.option.collectonly)
        if self.controls:
            self.run.begin()
        else:
            self.run.done = {tuple(key) for key in getattr(config, "workerinput", {}).get(DONE, ())}
        self.alone = False
        """Whether only cells are collected, for no path was named."""
        self.places: dict[str, tuple[Group, str]] = {}
        """Which cell is to come of an item."""
        self.expecting = False
        """Whether it is known which cells are to come."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker what needs no computing."""
        node.workerinput[DONE] = [list(key) for key in self.run.done]

    # Collection

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        if file_path.suffix != ".yaml":
            return None
        own = [group for group in self.run.groups if file_of(group) == file_path]
        if not own:
            return None
        own = [group for group in own if group.key not in self.run.done]
        return SpecFile.from_parent(
            parent, path=file_path, nodeid=f"{PREFIX}{file_path.name}", groups=own, session_=self
        )

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Subject by subject, so that what serves one of them is there for as long as it is needed, and no longer."""
        turns = {name: turn for turn, name in enumerate(dict.fromkeys(g.subject.name for g in self.run.groups))}
        own = sorted(
            (item for item in items if isinstance(item, CellItem)), key=lambda item: turns[item.group.subject.name]
        )
        others = [item for item in items if not isinstance(item, CellItem)]
        items[:] = [*others, *own]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """What is left of each group after deselection."""
        self.wanted: dict[tuple[str, ...], list[str]] = {}
        for item in session.items:
            if isinstance(item, CellItem):
                self.wanted.setdefault(item.group.key, []).append(item.law)
        if not self.config.getoption("numprocesses", None):
            self._expect({item.nodeid for item in session.items})

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """What the workers have collected, in the process that controls them."""
        self._expect(set(ids))

    def _expect(self, ids: Collection[str]) -> None:
        """Keep account of the cells that are to come, those included that an earlier run has computed."""
        if not self.controls or self.expecting:
            return
        self.expecting = True
        for group in self.run.groups:
            self.places |= {nodeid_of(group, law): (group, law) for law in group.laws}
            laws = [law for law in group.laws if group.key in self.run.done or nodeid_of(group, law) in ids]
            if laws:
                self.run.expect(group, laws)

    def cell(self, group: Group, law: str) -> CellLine:
        cells = self.run.runner.cells(group, self.wanted.get(group.key, [law]))
        return next(cell for cell in cells if cell["law"] == law)

    # Results, in the controlling process

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not self.controls:
            return
        text = getattr(report, "attnspec", None)
        if text is None:
            self._broken(report)
        elif report.when == "call":
            self.run.keep(json.loads(text))

    def _broken(self, report: pytest.TestReport) -> None:
        """Keep account of an item that gave no cell, such as one whose process died."""
        interrupted = getattr(self.config.pluginmanager.get_plugin("dsession"), "shouldstop", False)
        place = self.places.pop(report.nodeid, None) if report.failed and not interrupted else None
        if place is not None:
            from .data.texts import safe, safe_lines

            group, law = place
            trace = str(report.longrepr)
            says = next((line for line in reversed(trace.splitlines()) if line.strip()), "it gave no cell")
            self.run.keep(group.internal(law, self.run.options.device, safe(says), safe_lines(trace)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        from .runs.interruptions import end_workers

        end_workers(self.config)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """The end of the records; what is partial is an error of its own in pytest's account, and in its JUnit file."""
        if not self.controls:
            return
        from .reporting.standings import altered, unfinished

        self.close(exitstatus, stopped=session.shouldfail or session.shouldstop)
        for line in unfinished(self.run.lines):
            self.config.hook.pytest_runtest_logreport(report=_partial(line))
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        if altered(self.run.lines):
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR

    def close(self, exitstatus: int, *, stopped: bool | str) -> None:
        """Write the end of the records."""
        from .reporting.standings import FAILED, INTERRUPTED

        reasons = {pytest.ExitCode.INTERRUPTED: INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR: FAILED}
        ended = reasons.get(pytest.ExitCode(exitstatus), f"the run was stopped: {stopped}" if stopped else "")
        expects = any(line["kind"] == "expected" for line in self.run.lines)
        if not self.expecting or (ended and not expects):  # nothing of it came to be run
            self.expecting = False
            self._expect({nodeid_of(group, law) for group in self.run.groups for law in group.laws})
        self.run.finish(ended)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.controls:
            return
        from .reporting.summary import page

        folder = str(self.run.folder or "")
        columns = self.config.get_terminal_writer().fullwidth if terminalreporter.isatty else None
        for line in page(self.run.lines, folder=folder, cases=str(self.run.cases), columns=columns):
            terminalreporter.write_line(line)
        if self.alone:
            terminalreporter.write_line(ALONE)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        outcome: Any = yield
        if isinstance(item, CellItem) and item.result is not None:
            outcome.get_result().attnspec = json.dumps(item.result)  # ASCII: whatever is in it can be sent


class SpecFile(pytest.File):
    """A specification file, with an item for every cell."""

    def __init__(self, *, groups: list[Group], session_: Session, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.groups, self.session_ = groups, session_

    def collect(self) -> Iterator[pytest.Item]:
        for group in self.groups:
            for law in group.laws:
                nodeid = nodeid_of(group, law)  # said in full, so that --lf finds it by what it has stored
                name = nodeid.partition("::")[2]
                yield CellItem.from_parent(self, name=name, nodeid=nodeid, group=group, law=law, session_=self.session_)


def file_of(group: Group) -> Path:
    """The file of the mechanism of a group, as pytest collects it."""
    from .mechanisms.schema import spec_folder

    m = group.mechanism
    stated = m.library.file_of(m.name) if m.library is not None else None
    return spec_folder() / f"{m.name}.yaml" if stated is None else Path(os.path.abspath(stated.path))


def nodeid_of(group: Group, law: str) -> str:
    """The name by which pytest knows a cell."""
    return f"{PREFIX}{group.mechanism.name}.yaml::{law}[{group.name}-{group.dtype}]"


def _partial(line: Mapping[str, Any]) -> pytest.TestReport:
    """A subject that is partial or lacks what is required, as pytest reports what went wrong outside of a test."""
    from .reporting.standings import lacking

    kind, says = lacking(line)
    name = f"{PREFIX}{kind}[{line['subject']}]"
    return pytest.TestReport(name, ("attnspec", None, name), {}, "failed", says, "setup")


class CellItem(pytest.Item):
    """One cell: a law of a mechanism, for one subject and dtype."""

    result: CellLine | None = None

    def __init__(self, *, group: Group, law: str, session_: Session, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.group, self.law, self.session_ = group, law, session_

    def runtest(self) -> None:
        from .data.texts import safe

        cell = self.session_.cell(self.group, self.law)
        self.result = cell
        verdict, says = cell["verdict"], safe(cell["says"])
        if verdict in ("not_declared", "not_tested"):
            pytest.skip(f"{verdict}: {says}")
        if verdict == "waived":
            pytest.xfail(f"waived {says}")
        if verdict in ("fail", "error", "internal"):
            if note := cell.get("note"):
                pytest.xfail(f"note: {note}: {says}")
            if not self.session_.run.runner.counts(cell["level"]):
                pytest.xfail(f"should: {says or 'the law fails'}")
            if finding := self.session_.run.runner.excuses(cell):
                pytest.xfail(f"known: {finding}")
            raise ViolationError(cell)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        from .data.texts import safe_lines
        from .errors import Error
        from .reporting.blocks import failure

        if isinstance(excinfo.value, ViolationError):
            return failure(excinfo.value.cell, str(self.session_.run.cases))
        if isinstance(excinfo.value, Error):
            return safe_lines(str(excinfo.value))
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        place = self.group.mechanism.laws.get(self.law)
        line = place.place.line - 1 if place is not None and place.place is not None else None
        return (
            self.path,
            line,
            f"{self.group.mechanism.name}.{self.law} [{self.group.name}, {self.group.dtype}]",
        )


class ViolationError(Exception):
    """A cell that fails."""

    def __init__(self, cell: CellLine) -> None:
        super().__init__(f"{cell['mechanism']}.{cell['law']}")
        self.cell = cell
