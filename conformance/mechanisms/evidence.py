"""Which scenarios show which known mistakes; hence their order, and the few that are enough.

The audit derives it, and it is kept beside the specifications in `spec/evidence/`: for every mistake a digit for every
scenario, which says in how many dtypes the mistake shows there. It is of use as long as definition, draws, scenarios
and mistakes are those that it was derived from.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnspec import spec

from ..data.files import read_text
from ..data.records import by_name, keys, number, record, text
from ..data.texts import safe
from ..errors import Error, SpecError
from ..language.expressions import Expression
from ..numerics.formats import FORMATS
from .mechanism import Example, Mechanism

FOLDER = Path(spec.__file__).parent / "evidence"
MOST = 4 << 20
"""Bytes of an evidence file."""
DTYPES = ("float64", "float32", "float16", "bfloat16")
"""From fine to coarse: a mistake that shows in one of them shows in those before it."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of the scenarios of one mechanism."""

    digest: str
    """Of what it was derived from."""
    milliseconds: Mapping[str, float]
    """The scenarios, with the CPU time of the definition on each."""
    shows: Mapping[str, str]
    """For each mistake a digit for each scenario: the number of dtypes in which it shows there, from the finest on."""

    def telling(self, mistake: str, dtype: str) -> set[str]:
        """The scenarios on which a mistake shows in a dtype; where none does, those on which it shows most."""
        digits = dict(zip(self.milliseconds, map(int, self.shows.get(mistake, "")), strict=False))
        least = min(DTYPES.index(dtype) + 1, max(digits.values(), default=0))
        return {label for label, digit in digits.items() if digit >= least > 0}

    def shown_in(self, mistake: str, dtype: str) -> bool:
        """Whether any scenario shows a mistake in a dtype."""
        return any(int(digit) > DTYPES.index(dtype) for digit in self.shows.get(mistake, ""))

    def hanging(self, dtype: str) -> dict[str, str]:
        """The mistakes that a single scenario shows, each with that one."""
        found = {mistake: self.telling(mistake, dtype) for mistake in self.shows}
        return {mistake: next(iter(telling)) for mistake, telling in found.items() if len(telling) == 1}

    def core(self, labels: Iterable[str], dtype: str) -> list[str]:
        """The fewest of some scenarios, by their time, that together show every mistake that all of them show.

        Greedily: the next one is that which shows most further mistakes for its time; in the end those go that the
        others have made superfluous.
        """
        left = list(labels)
        telling = {mistake: self.telling(mistake, dtype) & set(left) for mistake in self.shows}
        wanting, chosen = {mistake for mistake, found in telling.items() if found}, list[str]()
        while wanting:
            worth = {label: sum(label in telling[mistake] for mistake in wanting) for label in left}
            best = max(left, key=lambda label: worth[label] / (1 + self.milliseconds.get(label, math.inf)))
            wanting -= {mistake for mistake in wanting if best in telling[mistake]}
            left.remove(best)
            chosen.append(best)
        for label in tuple(chosen):
            others = set(chosen) - {label}
            if all(found & others for found in telling.values() if label in found):
                chosen.remove(label)
        return chosen

    def amended(self, mistake: str, dtype: str, hidden: Collection[str], shown: str) -> Evidence:
        """With what a dtype has made known: scenarios that do not show a mistake in it, and one that does."""
        least = DTYPES.index(dtype) + 1
        digits = dict(zip(self.milliseconds, map(int, self.shows[mistake]), strict=True))
        digits |= {label: min(digits[label], least - 1) for label in hidden}
        digits |= {label: max(digits[label], least) for label in {shown} & set(digits)}
        return replace(self, shows={**self.shows, mistake: "".join(map(str, digits.values()))})

    def unshown(self, tried: Collection[str], dtype: str) -> list[str]:
        """The mistakes that no scenario shows of those that were tried."""
        return [mistake for mistake in self.shows if not self.telling(mistake, dtype) & set(tried)]


def path_of(mechanism: Mechanism) -> Path:
    """The file of what was derived from a mechanism, in a folder beside its own."""
    stated = mechanism.library.file_of(mechanism.name) if mechanism.library is not None else None
    beside = Path(spec.__file__).parent if stated is None else stated.path.parent
    return (FOLDER if beside == Path(spec.__file__).parent else beside / "evidence") / f"{mechanism.name}.json"


def evidence_of(mechanism: Mechanism) -> Evidence | None:
    """What was derived from a mechanism as it stands, if anything was."""
    found = _read(path_of(mechanism))
    return found if found is not None and found.digest == digest_of(mechanism) else None


def digest_of(mechanism: Mechanism) -> str:
    """Of all that evidence depends on: what is drawn, the definition, and the mistakes."""
    m, hashed = mechanism, hashlib.sha256()
    settings = {**m.scenarios, **m.regimes, **{f"example:{x.name}": x for x in m.examples.values()}}
    parts: dict[str, Mapping[str, Any]] = {
        "sizes": m.sizes,
        "inputs": m.inputs,
        "options": m.options,
        "requires": m.requires,
        "conventions": m.conventions,
        "definition": m.definition,
        "normal form": m.normal_form,
        **{f"scenario {name}": x.given if isinstance(x, Example) else x.assigned for name, x in settings.items()},
        **{f"mistake {name}": x.change for name, x in m.mistakes.items()},
    }
    for part, entries in parts.items():
        for name, entry in entries.items():
            hashed.update(f"{part}: {name} = {entry.text if isinstance(entry, Expression) else list(entry)}\n".encode())
    return hashed.hexdigest()[:12]


def _evidence(x: Any, at: str) -> Iterator[str]:
    """What an evidence file has against itself."""
    faults = list(keys({"digest": text, "milliseconds": by_name(number), "shows": by_name(text)})(x, at))
    if not faults:
        wrong = [name for name, digits in x["shows"].items() if not _counts(digits, len(x["milliseconds"]))]
        faults += [f"shows.{safe(name, 60)} is not a digit from 0 to {len(DTYPES)} for each scenario" for name in wrong]
        faults += [f"the key {safe(name, 60)!r} has no meaning" for name in sorted(set(x) - {*Evidence.__slots__})]
    yield from faults


def _counts(digits: str, count: int) -> bool:
    return len(digits) == count and set(digits) <= {*map(str, range(len(DTYPES) + 1))}


@functools.cache
def _read(path: Path) -> Evidence | None:
    if not path.exists():
        return None
    try:
        return Evidence(**record(read_text(path, MOST), _evidence, path))
    except Error as error:
        raise SpecError(f"{error}; derive it anew: attnspec audit --derive --mechanism {path.stem}") from None


def derived(mechanism: Mechanism, costs: Mapping[str, float], errors: Mapping[str, Mapping[str, float]]) -> Evidence:
    """From the seconds of each scenario, and how far each mistake exceeds the bound of float64 there."""
    milliseconds = {label: round(1e3 * seconds, 1) for label, seconds in costs.items()}
    shows = {
        mistake: "".join(str(dtypes_shown(excess.get(label, 0.0))) for label in milliseconds)
        for mistake, excess in errors.items()
    }
    return Evidence(digest_of(mechanism), milliseconds, shows)


def dtypes_shown(excess: float) -> int:
    """In how many dtypes an error shows that is so many times the bound of float64."""
    finest = FORMATS["float64"].unit
    return sum(excess * finest > 2 * FORMATS[dtype].unit for dtype in DTYPES)


def write(mechanism: Mechanism, evidence: Evidence) -> None:
    """Put what was derived from a mechanism beside its specification."""
    path = path_of(mechanism)
    path.parent.mkdir(exist_ok=True)
    entries = {name: getattr(evidence, name) for name in Evidence.__dataclass_fields__}
    path.write_text(json.dumps(entries, indent=1) + "\n", "utf-8")
    _read.cache_clear()
