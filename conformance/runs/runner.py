"""How groups are run, each once, and what they gave."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..cases.profiles import Profile, profile_named
from ..data.plain import cause_of, storable, trace_of
from ..judging.cells import Cell, Request
from ..judging.engine import run
from ..judging.recognition import Mark
from ..mechanisms.workloads import Workload
from ..reporting.findings import marks
from ..reporting.records import CellLine
from ..subjects.subject import AdapterSubject
from .explaining import Explainer, headline
from .groups import Group, library_of, waivers_file
from .lines import cell_data
from .options import Options
from .pins import Pin
from .pins import read as read_pin
from .waivers import Waiver, excused, today, waivers_of
from .workload import asked, calls_in

SHIPPED = "attnspec.adapters."
"""What the names of modules begin with whose adapters come along."""


@dataclass(slots=True)
class Runner:
    """Runs groups, each once, and keeps what they gave."""

    options: Options
    profile: Profile = field(init=False)
    deadline: float | None = field(init=False)
    waivers: tuple[Waiver, ...] = field(init=False)
    pin: Pin | None = field(init=False)
    workload: Workload | None = field(init=False)
    explainer: Explainer = field(init=False)
    results: dict[tuple[str, ...], list[CellLine]] = field(default_factory=dict)
    announce: Callable[[Cell], None] | None = None
    """Who is told of the first failure of a group before it is explained, which takes longer than to find it."""

    def __post_init__(self) -> None:
        self.profile = profile_named(self.options.profile)
        self.workload = asked(self.options, library_of(self.options))
        path = waivers_file(self.options)
        self.waivers = waivers_of(path, library_of(self.options)) if path is not None else ()
        self.pin = read_pin(Path(self.options.pin)) if self.options.pin else None
        self.deadline = None if self.options.max_time is None else time.monotonic() + self.options.max_time
        self.explainer = Explainer(self.options, self.deadline)

    def cells(self, group: Group, laws: Collection[str] | None = None) -> list[CellLine]:
        """The cells of a group as plain data, in the order of its laws, computed when first asked for.

        Where attnspec itself fails, it costs the cells of the group and no others.
        """
        if group.key not in self.results:
            wanted = group.laws if laws is None else laws
            try:
                found = {cell["law"]: cell for cell in self._run(group, wanted)}
                self.results[group.key] = [found[law] for law in group.laws if law in found]
            except Exception as error:
                says, trace = cause_of(error), trace_of(error)
                broken = [group.internal(law, self.options.device, says, trace) for law in wanted]
                self.results[group.key] = broken
        return self.results[group.key]

    def _run(self, group: Group, laws: Collection[str]) -> Iterator[CellLine]:
        request = Request(
            group.subject,
            group.mechanism,
            group.dtype,
            self.profile,
            self.options.device,
            self.options.seed,
            frozenset(laws),
            self.deadline,
            marks=marks_of(group, self.options.device),
            memory=int(self.options.memory * 2**30),
            stress=self.options.stress,
            workload={} if self.workload is None else calls_in(self.workload, group.mechanism.name, group.dtype),
            spread=True,
            dtypes=tuple(self.options.dtypes),
        )
        result = excused(run(request), self.waivers, today(), self.options.seed)
        result = result if self.pin is None else self.pin.applied(result, group)
        failed = [c for c in result.cells if c.bad and c.failure is not None and (c.note or self.counts(c.level))]
        head = headline(failed, group.mechanism) if failed and result.bench is not None else None
        if head is not None and self.announce is not None:
            self.announce(head)
        for cell in result.cells:
            data = cell_data(cell, group, result)
            if head is not None and cell is head:
                data |= self.explainer.explained(group, result, failed, head)
            yield storable(data)

    def counts(self, level: str, note: str = "") -> bool:
        """Whether a failure at this level makes a subject violated, if it is no note."""
        return not note and (level == "must" or self.options.fail_on == "should")

    def excuses(self, cell: Mapping[str, Any]) -> str:
        """The known finding for whose sake a failure does not fail the run; nothing if it does."""
        return cell.get("finding", "") if self.options.fail_on == "new" else ""


def marks_of(group: Group, device: str) -> tuple[Mark, ...]:
    """By what the failures are recognized that are known of a shipped adapter; of others nothing is known."""
    adapter = group.subject.adapter if isinstance(group.subject, AdapterSubject) else None
    if adapter is None or not adapter.module.startswith(SHIPPED):
        return ()
    return marks(group.name, group.mechanism, group.dtype, device=device)
