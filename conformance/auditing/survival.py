"""Which mutants of a kernel survive a check: each is checked until it first fails."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from ..cases.exploring import explored
from ..cases.profiles import profile_named
from ..errors import Error, UsageError
from ..judging.bench import Bench
from ..judging.cells import Cell, Request
from ..judging.conventions import words_of
from ..judging.engine import run
from ..judging.settling import Declined
from ..judging.trial import Trial
from ..runs.groups import Group, groups
from ..runs.options import Options
from ..subjects.subject import AdapterSubject
from .edits import Edit

COMPARING = 20.0
"""Seconds in which a survivor is compared with the kernel."""
Fate = Literal["killed", "survived", "equivalent", "untried"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one change."""

    key: str
    fate: Fate
    says: str
    """What has noticed it, or on how many cases it gives other bits."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """What is changed, and how it is checked."""

    path: str
    function: str
    options: Options
    folder: str
    """Where changed sources and outcomes are kept."""
    words: Mapping[str, Mapping[str, str]]
    """The conventions that it follows, by its subjects: a change may not follow others."""
    drawn: int
    """Cases on which a survivor is compared with it."""
    deadline: float | None
    """When the time is over, as `time.time` has it."""

    @property
    def left(self) -> float:
        return float("inf") if self.deadline is None else self.deadline - time.time()


def key_of(edit: Edit, function: str, options: Options) -> str:
    """What an outcome depends on: the changed source, what of it is checked, and how."""
    asked = (edit.text, function, options.profile, options.seed, options.mechanisms, options.dtypes, options.operator)
    return hashlib.blake2b(repr(asked).encode(), digest_size=8).hexdigest()


def words(path: str, function: str, options: Options) -> dict[str, dict[str, str]]:
    """The conventions that a kernel follows, by its subjects; a `UsageError` for one that fails as it is."""
    found: dict[str, dict[str, str]] = {}
    for group in _groups(path, function, options):
        with group.subject.session(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = run(_request(group, options))
        if bad := [cell for cell in result.cells if cell.bad and cell.level == "must"]:
            raise UsageError(
                f"{group.name} fails {bad[0].address} in {group.dtype} as it is: {_why(bad[0])}; what is changed in a "
                f"kernel that fails is not noticed by that. 'attnspec check {_asked(path, function)}' says more"
            )
        told = {c: one.word for c, one in result.conventions.items() if one.how in ("declared", "observed")}
        found.setdefault(group.subject.name, {}).update(told)
    if not found:
        raise UsageError(f"{path} has nothing to check: no function claims these mechanisms and dtypes")
    return found


def fates(kernel: Kernel, found: Sequence[Edit], workers: int) -> Iterator[tuple[Edit, Outcome]]:
    """What becomes of each change, as it is known: what an earlier run has kept first, of which nothing is run."""
    folder = Path(kernel.folder)
    folder.mkdir(parents=True, exist_ok=True)
    kept, waiting = _kept(folder / "outcomes.ndjson"), list[Edit]()
    for edit in found:
        known = kept.get(key_of(edit, kernel.function, kernel.options))
        if known is None:
            waiting.append(edit)
        else:
            yield edit, known
    with (
        (folder / "outcomes.ndjson").open("a", encoding="utf-8") as file,
        ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool,
    ):
        asked = {pool.submit(tried, kernel, edit): edit for edit in waiting}
        try:
            for future in as_completed(asked):
                outcome = future.result()
                if outcome.fate != "untried":
                    file.write(json.dumps(asdict(outcome)) + "\n")
                    file.flush()
                yield asked[future], outcome
        finally:
            for future in asked:
                future.cancel()


def _kept(path: Path) -> dict[str, Outcome]:
    """The outcomes of earlier runs; a line that was cut off is none."""
    found = {}
    with suppress(FileNotFoundError):
        for line in path.read_text("utf-8").splitlines():
            with suppress(ValueError, TypeError):
                outcome = Outcome(**json.loads(line))
                found[outcome.key] = outcome
    return found


def tried(kernel: Kernel, edit: Edit) -> Outcome:
    """What becomes of one change."""
    key = key_of(edit, kernel.function, kernel.options)
    if kernel.left <= 0:
        return Outcome(key, "untried", "the time was over")
    home = str(Path(kernel.path).resolve().parent)
    if home not in sys.path:
        sys.path.insert(0, home)  # what the file imports from beside it
    place = Path(kernel.folder, key, Path(kernel.path).name)
    place.parent.mkdir(exist_ok=True)
    place.write_text(edit.text, "utf-8")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _tried(kernel, place, key)
    finally:
        place.unlink()
        with suppress(OSError):
            place.parent.rmdir()


def _tried(kernel: Kernel, place: Path, key: str) -> Outcome:
    try:
        own = _groups(str(place), kernel.function, kernel.options)
    except Error as error:
        return Outcome(key, "killed", f"it cannot be checked: {str(error).splitlines()[0]}")
    for group in own:
        subject = group.subject
        assert isinstance(subject, AdapterSubject)
        told = {**kernel.words.get(subject.name, {}), **subject.claims.conventions}
        subject.claims = replace(subject.claims, conventions=told)
        deadline = None if kernel.deadline is None else time.monotonic() + kernel.left
        with subject.session():
            result = run(_request(group, kernel.options, deadline, first=True))
        bad = [cell for cell in result.cells if cell.bad and cell.level == "must"]
        if bad:
            return Outcome(key, "killed", f"{bad[0].address} {group.dtype}: {_why(bad[0])}")
        if not result.cases:
            return Outcome(key, "killed", f"{group.mechanism.name} {group.dtype}: nothing is answered")
        if kernel.left <= 0:
            return Outcome(key, "untried", "the time was over")
    return _compared(kernel, own, key)


def _compared(kernel: Kernel, own: Sequence[Group], key: str) -> Outcome:
    """Whether a survivor gives the bits of the kernel on further cases."""
    cases = other = 0
    pairs = [*zip(own, _groups(kernel.path, kernel.function, kernel.options), strict=True)]
    for group, before in pairs:
        m = group.mechanism
        followed = words_of(m, {}) | dict(kernel.words.get(group.subject.name, {}))
        benches = [Bench(s, m, group.dtype, kernel.options.device, followed) for s in (group.subject, before.subject)]
        claims, seed = before.subject.claims, kernel.options.seed + 1
        with group.subject.session(), before.subject.session():
            samples = explored(m, claims, seed, group.dtype, -(-kernel.drawn // len(own)))
            until = time.monotonic() + COMPARING / len(pairs)
            for sample in samples:
                if time.monotonic() >= until:
                    break
                trials = [Trial(bench, sample) for bench in benches]
                with suppress(Declined):
                    one, two = (trial.bench.subject.call(trial.call(trial.base)) for trial in trials)
                    cases += 1
                    same = one.outputs.keys() == two.outputs.keys() and (one.fault is None) == (two.fault is None)
                    other += not (same and all(np.array_equal(x, two.outputs[n], True) for n, x in one.outputs.items()))
    if other or not cases:
        return Outcome(key, "survived", f"gives other bits on {other} of {cases} cases")
    return Outcome(key, "equivalent", f"gives the same bits on {cases} cases")


def _request(group: Group, options: Options, deadline: float | None = None, *, first: bool = False) -> Request:
    """A run of a group; with `first`, it ends at the first failure."""
    parts = group.subject, group.mechanism, group.dtype, profile_named(options.profile)
    return Request(*parts, options.device, options.seed, frozenset(group.laws), deadline, first=first)


def _why(cell: Cell) -> str:
    """Why a cell is bad, in a few words."""
    return cell.says or f"an error of {cell.worst:.3g} x the bound"


def _asked(path: str, function: str) -> str:
    return f"{path}:{function}" if function else path


def _groups(path: str, function: str, options: Options) -> list[Group]:
    return groups(replace(options, targets=(_asked(path, function),)))
