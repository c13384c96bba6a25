"""The runs that a site shows: results of runs, and committed baselines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..data.texts import safe
from ..errors import UsageError
from ..reporting.baseline import Group, Key, State, is_baseline, state_of
from ..reporting.results import NAME, Line, read
from .places import slug

DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class Run:
    """One run: how subjects stood on a day."""

    name: str
    """Its part of addresses: no two runs have the same."""
    day: str
    """As in 2026-01-31; empty where that is not known."""
    state: State
    lines: Sequence[Line] = field(default_factory=tuple, repr=False)
    """Its results, where they are at hand and not a baseline alone."""
    folder: str = ""


def runs_of(paths: Iterable[Path]) -> list[Run]:
    """The runs of files and folders, the latest last; a folder without any is a `UsageError`."""
    found = [_run(path) for path in dict.fromkeys(_files(paths))]
    taken: dict[str, int] = {}
    named = []
    for run in sorted(found, key=lambda run: (run.day, run.name)):
        taken[run.name] = taken.get(run.name, 0) + 1
        more = f"-{taken[run.name]}" if taken[run.name] > 1 else ""
        named.append(Run(run.name + more, run.day, run.state, run.lines, run.folder))
    return named


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        own = sorted(path.rglob("*.ndjson"))
        if not own:
            raise UsageError(f"{safe(str(path))} has no results: no file in it ends in .ndjson")
        yield from own


def _run(path: Path) -> Run:
    stem = path.parent.name if path.name == NAME else path.stem
    if is_baseline(path):
        day = DAY.search(path.stem)
        return Run(slug(stem), day[0] if day else "", _printable(state_of((path,))))
    lines = read(path)
    started = DAY.match(str(lines[0].get("started", "")))
    return Run(slug(stem), started[0] if started else "", _printable(state_of((path,))), lines, str(path.parent))


def _printable(state: State) -> State:
    """A state whose texts are safe to show, whoever wrote them."""
    groups = {
        (safe(subject), safe(mechanism), dtype, device): replace(
            group,
            conventions={safe(name): safe(word) for name, word in group.conventions.items()},
            laws={
                safe(law): replace(found, says=safe(found.says), finding=safe(found.finding))
                for law, found in group.laws.items()
            },
        )
        for (subject, mechanism, dtype, device), group in state.groups.items()
    }
    return replace(state, attnspec=safe(state.attnspec), profile=safe(state.profile), groups=groups)


def latest(runs: Sequence[Run]) -> dict[Key, tuple[Run, Group]]:
    """The last that is known of every group, with its run."""
    return {key: (run, group) for run in runs for key, group in run.state.groups.items()}


def followers(groups: Mapping[Key, tuple[Run, Group]], mechanisms: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """Who follows which word of a convention, by convention and word, in some mechanisms."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    own = set(mechanisms)
    for (subject, mechanism, _, _), (_, group) in sorted(groups.items()):
        for name, word in group.conventions.items() if mechanism in own else ():
            found.setdefault(name, {}).setdefault(word, {})[subject] = None
    return {name: {word: list(subjects) for word, subjects in words.items()} for name, words in found.items()}
