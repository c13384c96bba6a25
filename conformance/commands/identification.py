"""The conventions that an implementation follows, whatever it declares, as a block to paste into its declaration."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..cases.samples import Sample
from ..judging.conventions import Finding, explained, identify, words_of
from ..mechanisms.mechanism import Mechanism
from ..subjects.subject import Subject

LEGEND = (
    "The conventions that outputs show, whatever is declared; `attnspec explain CONVENTION` explains the words.",
    "A word in bold differs from what is declared.",
    "A question mark means that no word explains the results, a dash that no case distinguishes the words.",
)
NAMED = 3
"""Cases that are named as evidence."""
ENOUGH = 2
"""Cases on either side of what decides between two words."""


@dataclass(frozen=True, slots=True)
class Split:
    """Something on which the word that is followed depends, and the word on either side of it."""

    where: str
    there: str
    elsewhere: str


Found = Mapping[str, Mapping[str, Finding]]
"""What is found of each convention, by dtype."""


def identified(subject: Subject, device: str, dtypes: Sequence[str] = ()) -> dict[str, dict[str, Finding]]:
    """What is found in each dtype that the subject claims, or in those that are asked for."""
    operator = subject.mechanism.stating
    with warnings.catch_warnings(), subject.session():
        warnings.simplefilter("ignore")
        return {d: identify(subject, operator, d, device, blind=True) for d in dtypes or subject.claims.dtypes}


def splits(subject: Subject, device: str, found: Found) -> dict[tuple[str, str], Split]:
    """What decides, where no word explains everything, by dtype and convention."""
    operator = subject.mechanism.stating
    with warnings.catch_warnings(), subject.session():
        warnings.simplefilter("ignore")
        return {
            (dtype, name): split
            for dtype, findings in found.items()
            for name, finding in findings.items()
            if finding.how == "unexplained"
            and (
                split := _split(
                    operator, explained(subject, operator, dtype, device, name, words_of(operator, findings))
                )
            )
        }


def _split(operator: Mechanism, cases: Sequence[tuple[Sample, set[str]]]) -> Split | None:
    """The option, input or size of one that divides the cases into two sorts, each explained by a word of its own."""
    names = (*operator.optional, *operator.options, *operator.sizes)
    for name in names:
        there = [words for sample, words in cases if _set(operator, sample, name)]
        elsewhere = [words for sample, words in cases if not _set(operator, sample, name)]
        if min(len(there), len(elsewhere)) < ENOUGH:
            continue
        both = [set.intersection(*side) for side in (there, elsewhere)]
        if all(both):
            where = f"where {name} is {'1' if name in operator.sizes else 'given'}"
            return Split(where, *(next(w for w in _words(operator) if w in side) for side in both))
    return None


def _words(operator: Mechanism) -> list[str]:
    return [word for words in operator.conventions.values() for word in words]


def _set(operator: Mechanism, sample: Sample, name: str) -> bool:
    """Whether an option or input is given, not being at its default; whether a size is one."""
    if name in operator.sizes:
        return bool(np.all(sample.values[name] == 1))
    default = operator.defaults.get(name)
    return not np.array_equal(np.asarray(sample.values[name], object), np.asarray(default, object))


def page(subject: Subject, found: Found, decided: Mapping[tuple[str, str], Split]) -> Iterator[str]:
    """The lines of 'attnspec identify' for one subject."""
    dtypes = " ".join(found)
    yield f"{subject.name}   {subject.operator}   {dtypes}"
    names = list(subject.mechanism.stating.conventions)
    if not names:
        yield f"    {subject.operator} has no conventions"
        return
    versions = {name: {dtype: findings[name] for dtype, findings in found.items()} for name in names}
    consistent = {name: finding for name, version in versions.items() if (finding := _one(version)) is not None}
    if consistent:
        entries = {name: f'    "{name}": "{finding.word}",' for name, finding in consistent.items()}
        width = max(map(len, entries.values()))
        yield "conventions={"
        for name, entry in entries.items():
            yield f"{entry:<{width}}  # {_evidence(consistent[name])}"
        yield "}"
    declared = subject.mechanism.stating.declared(subject.claims.conventions)
    for name, version in versions.items():
        if name not in consistent:
            yield f"{name}: {_inconsistent(version)}"
            for (dtype, convention), split in decided.items():
                if convention == name:
                    yield f"    in {dtype}: {split.there} {split.where}, {split.elsewhere} elsewhere"
        elif name in declared and declared[name] != consistent[name].word:
            yield f"{name}: declared as {declared[name]}, and follows {consistent[name].word}"


def _one(version: Mapping[str, Finding]) -> Finding | None:
    """What is found in all dtypes that tell; None if there is no such word."""
    told = [finding for finding in version.values() if finding.how != "untold"]
    same = told and all((f.how, f.word) == ("observed", told[0].word) for f in told)
    return max(told, key=lambda finding: finding.cases) if same else None


def _evidence(finding: Finding) -> str:
    more = len(finding.told_by) - NAMED
    named = ", ".join(finding.told_by[:NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"shown by {named}"


def _inconsistent(version: Mapping[str, Finding]) -> str:
    told = {dtype: finding for dtype, finding in version.items() if finding.how != "untold"}
    if not told:
        return "no answered case distinguishes its words"
    broken = {dtype: finding for dtype, finding in told.items() if finding.how == "unexplained"}
    if broken:
        listed = ", ".join(f"{f.word} explains {f.agreed} of {f.cases} cases in {d}" for d, f in broken.items())
        return f"follows no word consistently: {listed}"
    return "depends on the dtype: " + ", ".join(f"{finding.word} in {dtype}" for dtype, finding in told.items())


# A table of many


def tables(subjects: Sequence[tuple[Subject, Found, Mapping[tuple[str, str], Split]]], headline: str) -> Iterator[str]:
    """What many subjects follow, as Markdown: a table for each operator, implementations by conventions."""
    yield from ("# Conventions of implementations", "", f"- `{headline}`", "")
    yield from LEGEND
    operators = {subject.operator: subject.mechanism.stating for subject, *_ in subjects}
    for operator in (operators[name] for name in sorted(operators) if operators[name].conventions):
        rows = [item for item in subjects if item[0].operator == operator.name]
        if rows:
            yield from ("", f"## {operator.name}", "", f"| implementation | {' | '.join(operator.conventions)} |")
            yield f"|---|{'---|' * len(operator.conventions)}"
            for subject, found, decided in sorted(rows, key=lambda item: item[0].name):
                words = (_word(subject, name, found, decided) for name in operator.conventions)
                yield f"| {subject.name} | {' | '.join(words)} |"


def _word(subject: Subject, name: str, found: Found, decided: Mapping[tuple[str, str], Split]) -> str:
    """The word that is followed, in bold where another one is declared, or on what it depends; a dash if untold."""
    version = {dtype: findings[name] for dtype, findings in found.items()}
    told = {dtype: finding for dtype, finding in version.items() if finding.how != "untold"}
    if not told:
        return "-"
    one = _one(version)
    if one is not None:
        other = subject.claims.conventions.get(name, one.word) != one.word
        return f"**{one.word}**" if other else one.word
    words: dict[str, list[str]] = {}
    for dtype, finding in told.items():
        split = decided.get((dtype, name))
        if split is not None:
            word = f"{split.there} {split.where}, else {split.elsewhere}"
        else:
            word = finding.word if finding.how == "observed" else "?"
        words.setdefault(word, []).append(dtype)
    if len(words) == 1:
        return next(iter(words))
    return "; ".join(f"{word} in {' and '.join(dtypes)}" for word, dtypes in words.items())
