"""The workload of a run: its calls as verdicts of groups, and its summary."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from ..cases.workloads import WORKED
from ..errors import UsageError
from ..mechanisms.library import Library
from ..mechanisms.workloads import Use, Workload
from ..reporting.records import WorkloadPart
from .options import Options
from .recording import workload_of


def asked(options: Options, library: Library) -> Workload | None:
    """The workload that is named, if one is; `UsageError` where it cannot be read, or other options contradict it."""
    if not options.workload:
        return None
    for name in ("mechanisms", "laws"):
        if getattr(options, name):
            flag = name.removesuffix("s")
            raise UsageError(f"--workload selects the calls, and --{flag} selects others; leave out one of them")
    return workload_of(options.workload, library)


def calls_in(found: Workload, operator: str, dtype: str = "") -> dict[str, Use]:
    """The calls of an operator by the names of their verdicts, the most frequent first; of one dtype, if it is said."""
    own = dict[str, Use]()
    for use in found.uses:
        if use.operator == operator and dtype in ("", use.dtype):
            name = f"{WORKED}{use.key}"
            own[name] = replace(use, count=use.count + (own[name].count if name in own else 0))
    return dict(sorted(own.items(), key=lambda each: -each[1].count))


def dtypes_in(found: Workload, operator: str) -> Sequence[str]:
    """The dtypes in which an operator is called, the most frequent first."""
    counts = dict[str, int]()
    for use in calls_in(found, operator).values():
        counts[use.dtype] = counts.get(use.dtype, 0) + use.count
    return sorted(counts, key=lambda dtype: -counts[dtype])


def part_of(found: Workload, path: str) -> WorkloadPart:
    """What the first line of results says of a workload."""
    operators = dict.fromkeys(use.operator for use in found.uses)
    uses = [use for operator in operators for use in calls_in(found, operator).values()]
    return {
        "path": os.path.relpath(path) if os.path.isabs(path) else path,
        "uses": [
            {"id": use.key, "operator": use.operator, "dtype": use.dtype, "says": str(use), "count": use.count}
            for use in sorted(uses, key=lambda use: -use.count)
        ],
        "left": [{"interface": one.interface, "says": one.says, "count": one.count} for one in found.left],
    }
