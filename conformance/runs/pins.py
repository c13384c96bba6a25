"""The laws that a kernel must pass: a file of laws with their digests, written by `attnspec freeze`.

Under a pin, a failure counts if the law is in the pin and asks for the same as it did then. What a later attnspec adds,
or asks for in another way, is a note until the pin is raised. A subject that the pin does not know is none of its
business, and is judged by all there is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..data.files import read_text
from ..data.records import by_name, check_format, keys, name, one_of, record, several, text, whole
from ..data.texts import safe
from ..errors import UsageError
from ..judging.cells import Result, every_name
from ..judging.contracts import ONCE
from ..mechanisms.mechanism import Mechanism
from ..reporting.results import version_of
from .groups import Group
from .options import OPTIONS, Options

FORMAT = 1
"""The number of the format of pins, which is raised when a key goes or comes to mean something else."""
MOST = 16 << 20
"""Bytes of a pin."""
_HEAD = keys(
    {
        "kind": one_of(("pin",)),
        "format": whole,
        "attnspec": text,
        "profile": text,
        "seed": whole,
        "subjects": by_name(several(name)),
    }
)
_LINE = keys({"mechanism": name, "version": whole, "digest": text, "laws": by_name(text)})


@dataclass(frozen=True, slots=True)
class Pinned:
    """A mechanism as it was: digests of what all of its laws rest on, and of what each of them asks for."""

    version: int
    digest: str
    laws: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Pin:
    """What subjects must pass, and how much is tried for that."""

    attnspec: str
    profile: str
    seed: int
    subjects: Mapping[str, Sequence[str]]
    """The operators that each was tested against."""
    mechanisms: Mapping[str, Pinned]

    def note(self, subject: str, mechanism: Mechanism, law: str) -> str:
        """Why a failure is a note and no more; nothing if it counts."""
        if subject not in self.subjects:
            return ""
        if mechanism.operator not in self.subjects[subject]:
            return f"attnspec {self.attnspec} did not test it against {mechanism.operator}"
        known = self.mechanisms.get(mechanism.name)
        if known is None:
            return "the mechanism is newer than the pin"
        if law not in known.laws:
            return "the law is newer than the pin"
        now = pinned(mechanism)
        if known.laws[law] != now.laws.get(law):
            return "the law has changed since the pin"
        return "" if known.digest == now.digest else "its specification has changed since the pin"

    def applied(self, result: Result, group: Group) -> Result:
        """A result whose failures are notes wherever the pin says so."""
        found = []
        for cell in result.cells:
            note = self.note(group.name, group.mechanism, cell.law) if cell.bad else ""
            found.append(replace(cell, level="should", note=note) if note else cell)
        return replace(result, cells=tuple(found))


# Making


def pin_of(options: Options, groups: Iterable[Group]) -> Pin:
    """The pin of what groups are tested against now."""
    subjects: dict[str, dict[str, None]] = {}
    mechanisms = {}
    for group in groups:
        subjects.setdefault(group.name, {})[group.mechanism.operator] = None
        mechanisms[group.mechanism.name] = group.mechanism
    return Pin(
        version_of("attnspec"),
        options.profile,
        options.seed,
        {subject: sorted(operators) for subject, operators in sorted(subjects.items())},
        {name: pinned(mechanism) for name, mechanism in sorted(mechanisms.items())},
    )


def pinned(m: Mechanism) -> Pinned:
    """A mechanism by its digests. Prose, examples and known mistakes decide no verdict, and are in none."""
    basis = [
        *map(_texts, (m.sizes, m.inputs, m.options, m.requires, m.definition, m.normal_form)),
        *(
            [name, _texts(setting.assigned)]
            for part in (m.regimes, m.scenarios, m.crossed)
            for name, setting in part.items()
        ),
        [[name, list(words)] for name, words in m.conventions.items()],
        [dict(m.dtypes), list(m.outputs), list(m.random), m.by_reference],
    ]
    laws = dict.fromkeys((*every_name(m), *(f"contract.{once}" for once in ONCE)), "")
    laws |= {
        law.name: _digest([_texts(law.given), law.when.text, law.holds.text, law.level]) for law in m.laws.values()
    }
    laws |= {one.name: _digest([one.when.text, _texts(one.call), one.level]) for one in m.rejects.values()}
    return Pinned(m.version, _digest(basis), laws)


def _texts(assigned: Mapping[str, Any]) -> list[list[str]]:
    return [[name, str(getattr(x, "text", x))] for name, x in assigned.items()]


def _digest(x: Any) -> str:
    return hashlib.blake2b(json.dumps(x, sort_keys=True).encode(), digest_size=5).hexdigest()


# Keeping


def written(pin: Pin) -> str:
    """A pin as a text: a line for how it was made, and one for each mechanism."""
    head = {"kind": "pin", "format": FORMAT, "attnspec": pin.attnspec, "profile": pin.profile, "seed": pin.seed}
    lines: list[dict[str, Any]] = [{**head, "subjects": pin.subjects}]
    for mechanism, known in pin.mechanisms.items():
        place = {"mechanism": mechanism, "version": known.version, "digest": known.digest}
        lines.append({**place, "laws": dict(sorted(known.laws.items()))})
    return "".join(json.dumps(line) + "\n" for line in lines)


def read(path: Path) -> Pin:
    """The pin in a file; a `UsageError` for a file that holds none."""
    lines = read_text(path, MOST).splitlines()
    head = record(lines[0] if lines else "", _HEAD, path, 1)
    check_format(head["format"], FORMAT, "pins", path)
    mechanisms = {}
    for number, line in enumerate(lines[1:], 2):
        found = record(line, _LINE, path, number)
        mechanisms[found["mechanism"]] = Pinned(found["version"], found["digest"], found["laws"])
    return Pin(head["attnspec"], head["profile"], head["seed"], head["subjects"], mechanisms)


def under_pin(options: Options) -> Options:
    """Options with the profile and the seed of their pin, if they have one; others are a `UsageError`."""
    if not options.pin:
        return options
    pin = read(Path(options.pin))
    for key in ("profile", "seed"):
        asked, own = getattr(options, key), getattr(pin, key)
        if asked not in (own, OPTIONS[key].default):
            told = f"leave out --{key}, or the pin (--pin '')"
            raise UsageError(f"{safe(options.pin)} pins the {key} {own}, and {asked} was asked for; {told}")
    return replace(options, profile=pin.profile, seed=pin.seed)


# Raising


def raised(before: Pin, after: Pin) -> Iterator[tuple[str, str]]:
    """What another pin asks for beyond an earlier one or no longer: laws by name, each with what became of it."""
    for mechanism in sorted({*before.mechanisms, *after.mechanisms}):
        then, now = before.mechanisms.get(mechanism), after.mechanisms.get(mechanism)
        if then is None or now is None:
            yield mechanism, "new" if then is None else "gone"
            continue
        if then.digest != now.digest:
            yield mechanism, "changed"
        for law in sorted({*then.laws, *now.laws}):
            if then.laws.get(law) != now.laws.get(law):
                yield (
                    f"{mechanism}.{law}",
                    "new" if law not in then.laws else "gone" if law not in now.laws else "changed",
                )
