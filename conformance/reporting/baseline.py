"""Earlier states of subjects, read from results or from a committed baseline.

A baseline has a line for each subject, mechanism, dtype and device, in a stable order and without anything that
changes from run to run by itself, so that its history in version control can be read. How long calls take does; an
update leaves it alone as long as it is within the spread.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..data.files import read_text
from ..data.records import by_name, check_format, keys, name, number, one_of, or_none, record, text, whole
from ..data.texts import safe
from ..diagnosis.shapes import TIMES, VERDICTS, device, dtype
from ..errors import UsageError
from .matrix import merged
from .results import MOST, read

FORMAT = 1
"""The number of the format of baselines, which is raised when a key goes or comes to mean something else."""
BASELINE = "attnspec-baseline.ndjson"
JUDGED = ("pass", "fail", "error", "internal", "waived")
"""Verdicts of laws that were tried."""
Key = tuple[str, str, str, str]
"""A subject, a mechanism, a dtype, and a device."""
_HEAD = keys({"kind": one_of(("baseline",)), "format": whole, "attnspec": text, "profile": text, "seed": whole})
_LAW = keys(
    {"verdict": one_of(VERDICTS)}, {"worst": or_none(number), "level": one_of(("must", "should")), "finding": text}
)
_GROUP = keys(
    {
        "subject": name,
        "mechanism": name,
        "dtype": dtype,
        "device": device,
        "digest": text,
        "grade": text,
        "conventions": by_name(text),
        "laws": by_name(_LAW),
    },
    {"times": TIMES},
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a law went; `worst` is the largest error in units of the bound, None where that is not finite."""

    verdict: str
    worst: float | None = None
    says: str = ""
    finding: str = ""
    level: str = "must"


@dataclass(frozen=True, slots=True)
class Times:
    """How long calls took: the quartiles, in seconds."""

    low: float
    median: float
    high: float

    def overlap(self, other: Times) -> bool:
        """Whether the middle halves of both have anything in common."""
        return self.low <= other.high and other.low <= self.high


@dataclass(slots=True)
class Group:
    """The laws of a mechanism for one subject, dtype and device."""

    digest: str
    grade: str = ""
    conventions: dict[str, str] = field(default_factory=dict)
    laws: dict[str, Verdict] = field(default_factory=dict)
    times: Times | None = None


@dataclass(frozen=True, slots=True)
class State:
    """How all subjects stood, and what was tried."""

    attnspec: str
    profile: str
    seed: int
    groups: dict[Key, Group]


def state_of(paths: Sequence[Path]) -> State:
    """The state in a baseline, or in the results of one run or several parts of it.

    What is neither, or parts that were not tried alike, is a `UsageError`.
    """
    if len(paths) == 1 and (lines := _baseline(paths[0])) is not None:
        return _stated(lines, paths[0])
    files = [read(path) for path in paths]
    heads = [lines[0] for lines in files]
    for path, head in zip(paths, heads, strict=True):
        if (head["profile"], head["seed"]) != (heads[0]["profile"], heads[0]["seed"]):
            says = f"it has profile {head['profile']} and seed {head['seed']}, {paths[0]} has others"
            raise UsageError(f"{safe(str(path))} is not of the same run: {says}")
    groups: dict[Key, Group] = {}
    for cell in merged(files):
        group = groups.setdefault(_key(cell), Group(cell["digest"]))
        if cell["verdict"] in JUDGED:
            worst = None if cell["worst"] is None else float(f"{cell['worst']:.3g}")
            says = cell["says"] or ("" if worst is None else f"{worst:g} x bound")
            group.laws[cell["law"]] = Verdict(cell["verdict"], worst, says, cell.get("finding", ""), cell["level"])
        run = cell.get("run", {})
        group.grade = run.get("grade", "") or group.grade
        group.conventions |= {name: found["word"] for name, found in run.get("conventions", {}).items()}
        group.times = _times(run) or group.times
    return State(heads[0]["attnspec"], heads[0]["profile"], heads[0]["seed"], groups)


def updated(before: State, after: State) -> State:
    """A state with the times of an earlier one wherever those are the same within their spread."""
    groups = {}
    for key, group in after.groups.items():
        earlier = before.groups.get(key)
        same = earlier and earlier.times and group.times and earlier.times.overlap(group.times)
        groups[key] = replace(group, times=earlier.times) if earlier and same else group
    return replace(after, groups=groups)


def written(state: State) -> str:
    """A state as the text of a baseline."""
    head = {"kind": "baseline", "format": FORMAT}
    head |= {"attnspec": state.attnspec, "profile": state.profile, "seed": state.seed}
    return "".join(json.dumps(line, allow_nan=False) + "\n" for line in [head, *_lines(state)])


def is_baseline(path: Path) -> bool:
    """Whether a file is a baseline."""
    return _baseline(path) is not None


def _lines(state: State) -> Iterator[dict[str, Any]]:
    for (subject, mechanism, of, at), group in sorted(state.groups.items()):
        laws = {law: _law(found) for law, found in sorted(group.laws.items())}
        place = {"subject": subject, "mechanism": mechanism, "dtype": of, "device": at}
        more = {"grade": group.grade, "conventions": dict(sorted(group.conventions.items())), "laws": laws}
        times = {"times": asdict(group.times)} if group.times else {}
        yield {**place, "digest": group.digest, **more, **times}


def _law(found: Verdict) -> dict[str, Any]:
    """A verdict without what goes without saying: no error, `must`, and the level of what holds."""
    weak = found.level == "should" and found.verdict not in ("pass", "waived")
    told = {"worst": found.worst, "level": "should" if weak else "", "finding": found.finding}
    return {"verdict": found.verdict} | {name: x for name, x in told.items() if x}


def _baseline(path: Path) -> list[str] | None:
    """The lines of a baseline, or None for another file."""
    lines = read_text(path, MOST).splitlines()
    return lines if lines and lines[0].startswith('{"kind": "baseline"') else None


def _stated(lines: Sequence[str], path: Path) -> State:
    head = record(lines[0], _HEAD, path, 1)
    check_format(head["format"], FORMAT, "baselines", path)
    groups = {}
    for place, line in enumerate(lines[1:], 2):
        found = record(line, _GROUP, path, place)
        laws = {law: _verdict(x) for law, x in found["laws"].items()}
        more = dict(found["conventions"]), laws, _times(found)
        groups[_key(found)] = Group(found["digest"], found["grade"], *more)
    return State(head["attnspec"], head["profile"], head["seed"], groups)


def _verdict(x: Mapping[str, Any]) -> Verdict:
    return Verdict(x["verdict"], x.get("worst", 0.0), finding=x.get("finding", ""), level=x.get("level", "must"))


def _times(line: Mapping[str, Any]) -> Times | None:
    found = line.get("times")
    return found and Times(found["low"], found["median"], found["high"])


def _key(line: Mapping[str, Any]) -> Key:
    return line["subject"], line["mechanism"], line["dtype"], line["device"]
