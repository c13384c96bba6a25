"""Counterexamples on disk: stored by a short name, found again, and read with care."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..cases.samples import Case, Sample, Unfit
from ..data import records
from ..data.files import read_text
from ..data.texts import safe, told
from ..errors import UsageError
from ..judging.cells import LARGE, has_name, is_large, law_of
from ..mechanisms.library import Library
from ..mechanisms.loader import NONE, Specs, mechanism_named
from ..mechanisms.mechanism import Law, Mechanism
from . import shapes

EARLIER = 80
"""Cases that may stand before one in a file."""
SMALL = 256
"""Entries up to which the arrays of a case are kept with it."""
MOST = 32 << 20
"""Bytes that a kept case may have."""
LARGEST = 1_000_000
"""The largest size that a kept case may have."""


def plain_value(x: Any) -> Any:
    """A value that JSON has."""
    if isinstance(x, np.generic):
        x = x.item()
    if isinstance(x, float) and not math.isfinite(x):
        return str(x)
    return x


def stored_case(sample: Sample, law: Law | None, words: tuple[str, ...]) -> dict[str, Any]:
    """A case with its arrays, those of the law under these words included, as far as they are small."""
    case = sample.case
    arrays = {n: sample.values[n] for n in sample.mechanism.inputs if isinstance(sample.values[n], np.ndarray)}
    if law is not None:
        kept = {key: sample.cache.get(("given", law.name, words, key)) for key in law.given}
        arrays |= {f"{law.name}.{key}": x for key, x in kept.items() if isinstance(x, np.ndarray)}
    small = sum(x.size for x in arrays.values()) <= SMALL
    return case_data(case) | ({"literals": {n: _written(x) for n, x in arrays.items()}} if small else {})


def case_data(case: Case) -> dict[str, Any]:
    return {
        "mechanism": case.mechanism,
        "label": case.label,
        "seed": case.seed,
        "fixed": {n: plain_value(x) for n, x in case.fixed.items()},
        "picks": dict(case.picks),
        "scenario": case.scenario,
        "regime": case.regime,
        "layout": case.layout,
        "literals": {n: _written(np.asarray(x)) for n, x in case.literals.items()},
    }


def _written(x: Any) -> dict[str, Any]:
    return {"dtype": str(x.dtype), "shape": list(x.shape), "entries": [plain_value(e) for e in x.ravel().tolist()]}


def read_case(data: Mapping[str, Any]) -> Case:
    """A case as it was stored."""
    fixed = {n: float(x) if x in ("inf", "-inf", "nan") else x for n, x in data["fixed"].items()}
    literals = {
        n: np.asarray([float(e) if isinstance(e, str) else e for e in x["entries"]], x["dtype"]).reshape(x["shape"])
        for n, x in data["literals"].items()
    }
    return Case(
        data["mechanism"],
        data["label"],
        data["seed"],
        fixed,
        data["picks"],
        data["scenario"],
        data["regime"],
        data["layout"],
        literals,
    )


def save(folder: Path, witness: Mapping[str, Any]) -> Path:
    """Keep a witness under its key."""
    path = folder / "cases" / f"{witness['key']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(witness, indent=1) + "\n", "utf-8")
    return path


def path_of(name: str, folder: Path) -> Path:
    """Where a witness is kept."""
    return Path(name) if name.endswith(".json") else folder / "cases" / f"{name}.json"


def find(name: str, folder: Path, specs: Specs = NONE) -> dict[str, Any]:
    """A kept witness, by key or by path; a missing one, or a file of anything else, is an `Error`.

    Its mechanism is looked for in the folders of `specs`, or in those that it names itself.
    """
    path = path_of(name, folder)
    if not (name.endswith(".json") or is_file(path)):
        known = ", ".join(sorted(p.stem for p in (folder / "cases").glob("*.json"))[:8])
        raise UsageError(f"no case {name!r} in {folder / 'cases'}" + (f" (available: {known})" if known else ""))
    found: dict[str, Any] = records.record(read_text(path, MOST), shapes.witness, path)
    for fault in _unknown(found, library_of(found, specs)):
        raise UsageError(f"{safe(str(path))}: {fault}; the case is not of this version, or it was changed")
    return found


def library_of(found: Mapping[str, Any], specs: Specs = NONE) -> Library:
    """The mechanisms that a kept witness needs: beside the shipped ones those of `specs`, or of what it names."""
    return Specs(specs.folders or tuple(found.get("specs", ())), specs.references).library()


def folders_of(m: Mechanism) -> dict[str, list[str]]:
    """The folders of specifications that a mechanism needs which is none of the shipped ones."""
    return {"specs": list(m.library.folders)} if m.library is not None and m.library.is_outside(m.name) else {}


def is_file(path: Path) -> bool:
    """Whether there is a regular file of that name."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _unknown(found: Mapping[str, Any], library: Library) -> Iterator[str]:
    """What a kept case speaks of that is not there."""
    m = mechanism_named(found["mechanism"], library)
    if not has_name(m, found["law"]):
        yield f"{m.name} has no law {found['law']!r}"
    for convention, words in m.conventions.items():
        if found["words"].get(convention) not in words:
            yield f"words has no word of {convention}; expected one of {', '.join(words)}"
    if len(found.get("before", ())) > EARLIER:
        yield f"before has {len(found['before'])} cases; expected at most {EARLIER}"
    for case in (found["case"], *found.get("before", ())):
        yield from _unknown_in(case, mechanism_of(case, m, found["law"]), found["law"])


def mechanism_of(case: Mapping[str, Any], m: Mechanism, law: str) -> Mechanism:
    """The mechanism of a kept case: what shows a convention of an operator may be a case of any of its mechanisms."""
    others = m.kin if law.startswith("convention.") else ()
    return next((other for other in others if other.name == case["mechanism"]), m)


def _unknown_in(case: Mapping[str, Any], m: Mechanism, law: str) -> Iterator[str]:
    if case["mechanism"] != m.name:
        yield f"it is of {m.name}, and its inputs are of {case['mechanism']!r}"
    examples = {f"example:{name}" for name in m.examples}
    for kind, known in (("scenario", {*m.scenarios, *m.crossed, *examples}), ("regime", {*m.regimes})):
        large = kind == "scenario" and is_large(law) and case[kind].startswith(LARGE)
        if case[kind] and case[kind] not in known and not large:
            yield f"{m.name} has no {kind} {case[kind]!r}"
    names = {*m.sizes, *m.options, *m.inputs}
    givens = {f"{law}.{name}" for stated in [law_of(m, law)] if stated for name in stated.given}
    for part, known in (("fixed", names), ("literals", {*m.inputs, *givens})):
        for name in sorted(set(case[part]) - known):
            yield f"case.{part} has {name!r}, which {m.name} has not"
    for name in m.sizes:
        size = case["fixed"].get(name, 0)
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= LARGEST:
            yield f"case.fixed has {size!r} for the size {name}; expected an integer up to {LARGEST:,}"


@contextmanager
def runnable(name: str) -> Iterator[None]:
    """While a kept case is drawn and run: what cannot be made of its values is its own fault, and not attnspec's."""
    try:
        yield
    except Unfit as error:
        raise UsageError(f"the case {name} is outside the domain: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
        says = f"the case {name} cannot be run: {type(error).__name__}: {told(error)}"
        raise UsageError(
            f"{says} (-v shows where; if the file was not changed, this is an error in attnspec)"
        ) from error


def kept(folder: Path) -> Iterator[str]:
    """The keys of all kept witnesses."""
    return (path.stem for path in sorted((folder / "cases").glob("*.json")))
