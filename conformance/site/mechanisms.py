"""The page of a mechanism: its semantics as tested, and which convention each implementation follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..mechanisms.mechanism import Law, Mechanism, Mistake, Reject
from ..reporting.baseline import Group, Key
from ..reporting.exhibits import Edit, edit
from ..reporting.formulas import mathml
from .history import Run, followers
from .places import threads
from .stepping import Walk, walks
from .tables import Row, rows

Pieces = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Argument:
    """An input or an option: what it is, and its default."""

    name: str
    kind: str
    shape: str
    default: str
    words: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A law, or a call that is to be refused."""

    name: str
    says: str
    level: str
    given: str
    when: str
    holds: str


@dataclass(frozen=True, slots=True)
class Wrong:
    """A known mistake, with the lines that it changes and the threads in which it was seen."""

    name: str
    says: str
    edits: tuple[Edit, ...]
    seen: Pieces


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a convention, and who follows it."""

    name: str
    says: str
    followers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MechanismPage:
    """One mechanism."""

    name: str
    operator: str
    title: str
    version: int
    summary: str
    formula: str
    tex: str
    outputs: str
    arguments: tuple[Argument, ...]
    lines: tuple[tuple[str, str], ...]
    by_reference: bool
    domain: tuple[tuple[str, str], ...]
    layouts: tuple[tuple[str, tuple[str, ...]], ...]
    """Each with the axes of every array of `arrays`; what it leaves as the definition has it is told as such."""
    arrays: tuple[str, ...]
    walks: tuple[Walk, ...]
    laws: tuple[Claim, ...]
    refused: tuple[Claim, ...]
    mistakes: tuple[Wrong, ...]
    conventions: tuple[tuple[str, tuple[Word, ...]], ...]
    scenarios: tuple[tuple[str, str], ...]
    sources: tuple[Pieces, ...]
    kin: tuple[str, ...]
    rows: tuple[Row, ...]


def mechanism_page(m: Mechanism, groups: Mapping[Key, tuple[Run, Group]]) -> MechanismPage:
    """The page of a mechanism, with what is known of implementations."""
    own = {key: found for key, found in groups.items() if key[1] == m.name}
    named = followers(groups, [one.name for one in m.kin])
    arrays = tuple(dict.fromkeys(array for axes in m.layouts.values() for array in axes))
    return MechanismPage(
        m.name,
        m.operator,
        m.title,
        m.version,
        m.summary,
        mathml(m.formula),
        m.formula,
        ", ".join(m.outputs),
        tuple(_arguments(m)),
        tuple((name, line.text) for name, line in m.definition.items()),
        m.by_reference,
        tuple((name, line.text) for name, line in m.requires.items()),
        tuple((name, tuple(axes.get(x, "") for x in arrays)) for name, axes in m.layouts.items()),
        arrays,
        tuple(walks(m)),
        tuple(_law(law) for law in m.laws.values()),
        tuple(_refused(reject) for reject in m.rejects.values()),
        tuple(_mistake(m, mistake) for mistake in m.mistakes.values()),
        tuple(
            (name, tuple(Word(word, says, tuple(named.get(name, {}).get(word, ()))) for word, says in words.items()))
            for name, words in m.conventions.items()
        ),
        tuple((one.name, _assigned(one.assigned)) for one in m.scenarios.values()),
        tuple(threads(source) for source in m.sources),
        tuple(one.name for one in m.kin if one.name != m.name),
        tuple(rows(own)),
    )


def _assigned(assignments: Mapping[str, object]) -> str:
    return ", ".join(f"{name} = {getattr(x, 'text', x)}" for name, x in assignments.items())


def _arguments(m: Mechanism) -> Sequence[Argument]:
    found = []
    for name in (*m.required, *m.optional, *m.options):
        kind = "input" if name in m.required else "optional input" if name in m.optional else "option"
        axes = m.shapes.get(name, ())
        words = ", ".join(f"{word}: {text!r}" for word, text in m.vocabulary.get(name, {}).items())
        found.append(Argument(name, kind, ", ".join(axis or "_" for axis in axes), _default(m, name), words))
    return found


def _default(m: Mechanism, name: str) -> str:
    if name not in m.defaults:
        return "required"
    x = m.defaults[name]
    return "none" if x is None else str(x).lower() if isinstance(x, bool) else str(x)


def _law(law: Law) -> Claim:
    when = "" if law.when.text == "true" else law.when.text
    return Claim(law.name, law.says, law.level.replace("_", " "), _assigned(law.given), when, law.holds.text)


def _refused(reject: Reject) -> Claim:
    when = "" if reject.when.text == "true" else reject.when.text
    return Claim(reject.name, reject.says, reject.level, "", when, _assigned(reject.call))


def _mistake(m: Mechanism, mistake: Mistake) -> Wrong:
    edits = tuple(
        edit({"line": line, "before": m.definition[line].text if line in m.definition else line, "after": after.text})
        for line, after in mistake.change.items()
    )
    return Wrong(mistake.name, mistake.says, edits, threads(mistake.seen))
