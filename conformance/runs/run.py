"""The one way through a check: options, groups, cells as they come, and the end."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from ..cases.workloads import WORKED
from ..diagnosis.stored import save
from ..errors import Exit
from ..execution.devices import check_device, workers_on
from ..reporting import junit
from ..reporting.progress import Progress
from ..reporting.results import Line, Results, group_of, resumable
from ..reporting.standings import FAILED, INTERRUPTED, exit_of
from .cluster import Cluster
from .groups import Group, free, groups, header_of
from .options import Options
from .pins import under_pin
from .pool import Pool, StartError
from .runner import Runner

JUNIT = "junit.xml"
STOPPED = "the run was stopped: stopping after 1 failures"
"""Why a run has no more cells that ends at the first failure."""
OUTDATED = "a file was saved while it was checked"
"""Why a run has no more cells whose targets have changed."""


class Run:
    """One check, made of options and a command, as its user has typed it.

    `Run(options, command).execute()` does all of it.
    Who runs the groups in another way calls `begin`, `expect` and `keep`, and `finish` at the end.

    A run is made and executed once, and another one can be made at any time after it, in the same process: files of
    targets are read again if they have changed, and what does not depend on them is there already, such as
    specifications, drawn cases, and processes that have a framework loaded.
    """

    def __init__(self, options: Options, command: str = "", found: Sequence[Group] | None = None) -> None:
        """Resolve the targets, unless their groups are known; whatever is wrong with what was asked for is an `Error`.

        Nothing is written before it begins but the declarations of classes with weights.
        """
        if not options.on:
            check_device(options.device)
        options = under_pin(options)
        self.options, self.command = options, command
        self.groups = groups(options) if found is None else [*found]
        self.runner = Runner(options)
        self.folder = Path(options.report_dir) if options.report_dir else None
        self.cases = self.folder
        """Where failing cases are kept, in a folder of their own."""
        self.done: set[tuple[str, ...]] = set()
        """The groups whose cells an earlier run has computed."""
        self.ended = ""
        """Why it ended early; nothing if it did not."""
        self.told: Callable[[Mapping[str, Any]], None] | None = None
        """Who is told of each cell as soon as it is found."""
        self.outdated: Callable[[], bool] | None = None
        """Whether its targets have changed since it began, so that it need not go on."""
        self._results: Results | None = None

    def begin(self) -> None:
        """Open the report folder for this run, with the cells of an earlier one that it resumes."""
        header, earlier = header_of(self.options, self.groups, self.command), []
        if self.folder is not None and self.options.resume:
            earlier = resumable(self.folder, header, {group.key: group.laws for group in self.groups})
            self.done = {group_of(cell) for cell in earlier}
        self._results = Results(self.folder, header, earlier)

    def execute(self, shown: Progress | None = None) -> None:
        """Run the groups to the end, and write what they gave.

        What interrupts it is raised when all that was found until then is written.
        """
        if self._results is None:
            self.begin()
        ended = FAILED
        try:
            for group in self.groups:
                self.expect(group, group.laws)
            ended = self._run(shown)
        except KeyboardInterrupt:
            ended = INTERRUPTED
            raise
        finally:
            self.finish(ended)
            if self.folder is not None:
                junit.write(self.folder / JUNIT, self.lines, str(self.folder))

    def _run(self, shown: Progress | None) -> str:
        """Why it ended early; nothing if every group was run."""
        waiting = [group for group in self.groups if group.key not in self.done]
        total, count = sum(len(group.laws) for group in waiting), 0

        def begins(group: Group | None) -> None:
            if shown is not None:
                at = "" if group is None else f"{group.mechanism.name} [{group.name}-{group.dtype}]"
                shown.cells(count, total, at)

        begins(None)
        try:
            with closing(self._cells(waiting, begins)) as found:
                for cell in found:
                    self.keep(cell)
                    count += 1
                    begins(None)
                    if self.options.exitfirst and self.fails(cell):
                        return STOPPED
                    if self.outdated is not None and self.outdated():
                        return OUTDATED
        except StartError as error:
            return str(error)
        return ""

    def _cells(self, waiting: Sequence[Group], begins: Callable[[Group], None]) -> Generator[Mapping[str, Any]]:
        """The cells of groups as they are found, in this process or in others."""
        if self.options.on:
            free(self.options)
            with Cluster(self.runner, self.options.workers) as cluster:
                for cells in cluster.run(waiting, begins):
                    yield from cells
            return
        workers = min(workers_on(self.options.device, self.options.workers), len(waiting))
        if workers == 0:
            for group in waiting:
                begins(group)
                yield from self.runner.cells(group)
            return
        free(self.options)  # others make the calls, and need what has been held to ask for them
        with Pool(self.runner, workers) as pool:
            for cells in pool.run(waiting, begins):
                yield from cells

    # Records

    def expect(self, group: Group, laws: Sequence[str]) -> None:
        """Keep account of cells that are to come."""
        self.results.add(group.expected(laws, self.options.device))

    def keep(self, cell: Mapping[str, Any]) -> None:
        """Keep a cell, and its witness where it has one."""
        self.results.add(cell)
        if self.told is not None:
            self.told(cell)
        if "witness" in cell and self.cases is not None:
            own = cell["witness"]["law"] if cell["law"].startswith(WORKED) else cell["law"]
            save(self.cases, {**cell["witness"], "law": own})

    def finish(self, ended: str = "") -> None:
        """The end of the records, once; `ended` says why they end early, and nothing if they do not."""
        self.ended = ended
        self.results.finish(ended)

    @property
    def results(self) -> Results:
        assert self._results is not None, "it has not started"
        return self._results

    @property
    def lines(self) -> list[Line]:
        return self.results.lines

    def fails(self, cell: Mapping[str, Any]) -> bool:
        """Whether a cell makes its subject violated, or has no verdict."""
        counts = self.runner.counts(cell["level"], cell.get("note", ""))
        bad = cell["verdict"] in ("fail", "error", "internal") and counts
        return bad and not self.runner.excuses(cell)

    @property
    def exit(self) -> Exit:
        """What a command ends with."""
        early = {INTERRUPTED: Exit.INTERRUPTED, FAILED: Exit.INTERNAL}
        return early.get(self.ended) or exit_of(self.lines)
