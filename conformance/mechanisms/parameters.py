"""How plain functions of an operator read parameters that it has not, or has otherwise: data in `spec/parameters/`.

A mask may be true where a key is seen or be added to the scores, and tables of cosines may have one entry for a pair or
two. A file has an operator's readings in the order in which they are tried.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import Place, SpecError, did_you_mean
from ..language.expressions import Expression
from .documents import read
from .mechanism import Mechanism
from .schema import faults_beside, place_of, spec_folder
from .signatures import scope_of
from .stated import kind_and_texts

COMPUTED = ("array", "tuple", "complex")
"""How parameters are passed what is computed."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One way in which functions read some of their parameters."""

    says: str
    parameters: Mapping[tuple[str, ...], str]
    """What a parameter of one of these names is passed."""
    absent: str = ""
    """In which calls they are none."""
    unless: frozenset[str] = frozenset()
    """Functions with these parameters read them otherwise."""
    lacking: str = ""
    """The input that no parameter of a function gives."""
    named: frozenset[str] = frozenset()
    """Words of which functions have one in their name or documentation."""
    fixed: Mapping[str, str] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    dtypes: Mapping[tuple[str, ...], str] = field(default_factory=dict)


@functools.cache
def readings(operator: str) -> tuple[Reading, ...]:
    """Those of an operator, in the order in which they are tried; none where nobody has written any."""
    path = spec_folder() / "parameters" / f"{operator}.yaml"
    document = {str(key): x for key, x in read(path).items()} if path.is_file() else {}
    return tuple(map(_reading, document.get("readings", ())))


def _reading(document: Mapping[Any, Any]) -> Reading:
    plain = {str(key): x for key, x in document.items()}
    return Reading(
        says=str(plain["says"]),
        parameters=_by_names(plain.get("parameters", {})),
        absent=str(plain.get("absent", "")),
        unless=frozenset(map(str, plain.get("unless", ()))),
        lacking=str(plain.get("lacking", "")),
        named=frozenset(map(str, plain.get("named", ()))),
        fixed={str(name): str(text) for name, text in plain.get("fixed", {}).items()},
        requires=tuple(map(str, plain.get("requires", ()))),
        dtypes=_by_names(plain.get("dtypes", {})),
    )


def _by_names(texts: Mapping[Any, Any]) -> dict[tuple[str, ...], str]:
    return {tuple(str(names).split()): str(text) for names, text in texts.items()}


def faults(known: Mapping[str, Mechanism], folder: Path | None = None) -> Iterator[SpecError]:
    """What is wrong with the files of readings, the shipped ones or those of a folder."""
    return faults_beside("parameters", folder, lambda document, stem: _contradictions(document, stem, known))


def _contradictions(document: Mapping[Any, Any], stem: str, known: Mapping[str, Mechanism]) -> Iterator[SpecError]:
    """What does not go together in a file, each with its place."""
    plain = {str(key): x for key, x in document.items()}
    operator = plain["operator"]
    if str(operator) != stem:
        yield SpecError(f"operator: the file is called {stem!r}, and not {operator!r}", place_of(operator))
    elif stem not in known or known[stem].operator != stem:
        hint = did_you_mean(stem, known)
        yield SpecError(f"operator: unknown operator {stem!r}{hint}", place_of(operator))
    else:
        for own in plain["readings"]:
            yield from _misread(own, _reading(own), known[stem])


def _misread(document: Mapping[Any, Any], one: Reading, m: Mechanism) -> Iterator[SpecError]:
    """Expressions of a reading that say nothing of its operator."""
    place = place_of(next(iter(document)))
    if not (one.parameters or one.named or one.lacking or one.fixed):
        yield SpecError("readings: a reading has parameters, or says what holds of functions without them", place)
    if one.lacking and one.lacking not in m.required:
        hint = did_you_mean(one.lacking, m.required)
        yield SpecError(f"lacking: {m.name} does not require {one.lacking!r}{hint}", place)
    for name in (name for name in one.fixed if name not in m.options):
        yield SpecError(f"fixed: {m.name} has no option {name!r}{did_you_mean(name, m.options)}", place)
    for names, text in one.parameters.items():
        how, texts = kind_and_texts(text)
        if how not in COMPUTED:
            yield SpecError(f"parameters.{names[0]}: what is read is computed, and not {text!r}", place)
            continue
        yield from _unknown(f"parameters.{names[0]}", [*texts, *filter(None, [one.absent])], m, place)
    yield from _unknown("requires", one.requires, m, place)


def _unknown(label: str, texts: Iterable[str], m: Mechanism, place: Place | None) -> Iterator[SpecError]:
    """Expressions that cannot be read."""
    for text in texts:
        try:
            Expression(text, scope_of(m))
        except SpecError as error:
            yield SpecError(f"{label}: {error.message}", place)
