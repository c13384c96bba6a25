"""How plain functions of an operator read parameters that it has not, or has otherwise: data in `spec/parameters/`.

A mask may be true where a key is seen or be added to the scores, and tables of cosines may have one entry for a pair or
two. A file has what functions of an operator and their parameters are called, and its readings in the order in which
they are tried.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import Place, SpecError, did_you_mean
from ..language.expressions import Expression
from .assembled import faults_in
from .documents import read
from .forward import scope_with_results
from .layouts import stacks_of
from .mechanism import Mechanism
from .schema import faults_beside, place_of, spec_folder
from .stated import expressions_in, kind_and_texts

READ = ("array", "tuple", "complex", "in_place", "text")
"""How parameters are passed what is read."""


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
    certain: bool = False
    """Whether its parameters mean nothing else, so that a function that is wrong with them is wrong."""
    asked: bool = False
    """Whether it is only of functions that ask for its parameters: by default, they mean something else."""
    last_resort: bool = False
    """Whether it is tried only on functions that give no results by what comes before it."""
    refusing: bool = False
    """Whether it is tried only on functions that refuse some calls by what they are found to read, and fewer by it."""
    lacking: str = ""
    """The input that no parameter of a function gives."""
    named: frozenset[str] = frozenset()
    """Words of which functions have one in their name or documentation."""
    mentions: frozenset[str] = frozenset()
    """Words of which functions have one in their name, their documentation, or a name in their source."""
    fixed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Options that it has no parameter for, each with the values that it may have, in the order of trying."""
    conventions: Mapping[str, str] = field(default_factory=dict)
    """The words of conventions by which results of a forward pass are computed."""
    shown: frozenset[str] = frozenset()
    """The inputs and options with which calls show it, beside those that it speaks of."""
    requires: tuple[str, ...] = ()
    dtypes: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    returns: tuple[str, ...] = ()
    """What is returned, in its order; the outputs of the operator where nothing is said."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """Outputs that are assembled from what is returned."""
    usual: bool = False
    """Whether it is tried before parameters are read as the operator has them."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Another operator that plain functions compute as well which have further arrays and results."""

    operator: str
    parameters: Mapping[tuple[str, ...], str]
    """What parameters are passed, each by its names."""
    instead: Mapping[str, str]
    """What stands for an input in what all others are passed."""
    requires: tuple[str, ...]
    fixed: Mapping[str, str]
    returns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Words:
    """What is known of the plain functions of an operator."""

    called: tuple[str, ...] = ()
    """Words in the names of such functions, beside the name of the operator."""
    also: tuple[str, ...] = ()
    """Other operators whose names such functions have as well."""
    names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """What inputs and options are called otherwise."""
    limits: tuple[str, ...] = ()
    """What holds of the calls of many functions, which fail on others."""
    meant: tuple[str, ...] = ()
    """What holds of the calls that functions are meant for, which many get wrong otherwise."""
    says: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """For the words of a convention, the phrases by which documentation says them."""
    beside: Beside | None = None
    readings: tuple[Reading, ...] = ()


@functools.cache
def words(operator: str) -> Words:
    """What is known of an operator; nothing where nobody has written anything."""
    path = spec_folder() / "parameters" / f"{operator}.yaml"
    return _words(read(path)) if path.is_file() else Words()


def described() -> list[str]:
    """The operators of which something is known."""
    return sorted(path.stem for path in (spec_folder() / "parameters").glob("*.yaml"))


@functools.cache
def called() -> Mapping[str, str]:
    """For words in the names of functions, the operator that they say."""
    return {word: operator for operator in described() for word in words(operator).called}


@functools.cache
def namesakes(operator: str) -> tuple[str, ...]:
    """The operators whose functions may have the name of another, as their parameters say."""
    return tuple(other for other in described() if operator in words(other).also)


def called_so(mechanism: Mechanism, inputs: Collection[str]) -> frozenset[str]:
    """What functions of an operator call some inputs, alone or several in one."""
    own, found = words(mechanism.operator), {*inputs}
    found |= {other for name in inputs for other in own.names.get(name, ())}
    read = (pair for one in own.readings for pair in one.parameters.items())
    return frozenset(found.union(*(names for names, text in read if {*inputs} & {*re.findall(r"\w+", text)})))


def readings(mechanism: Mechanism) -> list[Reading]:
    """Those of an operator, in the order in which they are tried; none where nobody has written any.

    Gradients have those of the operator whose gradients they are, too, as far as they take the same.
    """
    shared = [one for one in words(mechanism.stating.gradient_of).readings if _is_of(one, mechanism)]
    return [*words(mechanism.operator).readings, *shared]


def limits(mechanism: Mechanism) -> list[str]:
    """What holds of the calls of many functions of an operator, which fail on others; of gradients, as of readings."""
    return _with_shared(mechanism, lambda known: known.limits)


def meant(mechanism: Mechanism) -> list[str]:
    """What holds of the calls that functions are meant for; of gradients, as of readings."""
    return _with_shared(mechanism, lambda known: known.meant)


def _with_shared(mechanism: Mechanism, texts: Callable[[Words], tuple[str, ...]]) -> list[str]:
    """Conditions of an operator, and those of the one whose gradients it is that it can speak of."""
    own, shared = texts(words(mechanism.operator)), texts(words(mechanism.stating.gradient_of))
    return [*own, *(text for text in shared if not [*_unknown("", [text], mechanism)])]


def documented(mechanism: Mechanism, text: str) -> dict[str, str]:
    """The words of conventions that a documentation says, one of each; of gradients, as of readings."""
    plain, found = f" {' '.join(re.findall('[a-z0-9]+', text.lower()))} ", dict[str, str]()
    for name, words_ in {**words(mechanism.stating.gradient_of).says, **words(mechanism.operator).says}.items():
        said = [word for word, phrases in words_.items() if any(f" {phrase} " in plain for phrase in phrases)]
        if len(said) == 1 and said[0] in mechanism.conventions.get(name, {}):
            found[name] = said[0]
    return found


def _is_of(one: Reading, mechanism: Mechanism) -> bool:
    """Whether an operator has all that a reading speaks of."""
    texts = [part for text in one.parameters.values() for part in expressions_in(text)]
    texts += [*one.requires, *filter(None, [one.absent])]
    known = {*one.fixed} <= {*mechanism.options} and one.lacking in ("", *mechanism.required)
    return known and not [*_unknown("", texts, mechanism)]


def _words(document: Mapping[Any, Any]) -> Words:
    plain = {str(key): x for key, x in document.items()}
    return Words(
        called=tuple(map(str, plain.get("called", ()))),
        also=tuple(map(str, plain.get("also", ()))),
        names={str(name): frozenset(str(others).split()) for name, others in plain.get("names", {}).items()},
        limits=tuple(map(str, plain.get("limits", ()))),
        meant=tuple(map(str, plain.get("meant", ()))),
        says=_phrases(plain.get("says", {})),
        beside=_beside(plain["beside"]) if "beside" in plain else None,
        readings=tuple(map(_reading, plain.get("readings", ()))),
    )


def _phrases(document: Mapping[Any, Any]) -> dict[str, dict[str, tuple[str, ...]]]:
    return {str(name): {str(word): tuple(map(str, x)) for word, x in words.items()} for name, words in document.items()}


def _beside(document: Mapping[Any, Any]) -> Beside:
    plain = {str(key): x for key, x in document.items()}
    instead, fixed = ({str(n): str(text) for n, text in plain.get(key, {}).items()} for key in ("instead", "fixed"))
    requires, returns = (tuple(map(str, plain.get(key, ()))) for key in ("requires", "returns"))
    return Beside(str(plain["operator"]), _by_names(plain["parameters"]), instead, requires, fixed, returns)


def _reading(document: Mapping[Any, Any]) -> Reading:
    plain = {str(key): x for key, x in document.items()}
    return Reading(
        says=str(plain["says"]),
        parameters=_by_names(plain.get("parameters", {})),
        absent=str(plain.get("absent", "")),
        unless=frozenset(map(str, plain.get("unless", ()))),
        certain=bool(plain.get("certain", False)),
        asked=bool(plain.get("asked", False)),
        last_resort=bool(plain.get("last_resort", False)),
        refusing=bool(plain.get("refusing", False)),
        lacking=str(plain.get("lacking", "")),
        named=frozenset(map(str, plain.get("named", ()))),
        mentions=frozenset(map(str, plain.get("mentions", ()))),
        fixed={str(name): _values(x) for name, x in plain.get("fixed", {}).items()},
        conventions={str(name): str(word) for name, word in plain.get("conventions", {}).items()},
        shown=frozenset(map(str, plain.get("shown", ()))),
        requires=tuple(map(str, plain.get("requires", ()))),
        dtypes=_by_names(plain.get("dtypes", {})),
        returns=tuple(map(str, plain.get("returns", ()))),
        outputs={str(name): str(text) for name, text in plain.get("outputs", {}).items()},
        usual=bool(plain.get("usual", False)),
    )


def _values(x: Any) -> tuple[str, ...]:
    return tuple(map(str, x)) if isinstance(x, list) else (str(x),)


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
        yield from _misnamed(plain, stem, known)
        for key in ("limits", "meant"):
            yield from _unknown(key, map(str, plain.get(key, ())), known[stem], place_of(operator))
        for name, said in _phrases(plain.get("says", {})).items():
            own = known[stem].conventions.get(name, {})
            for word in (word for word in said if word not in own):
                hint = did_you_mean(word, own)
                yield SpecError(f"says: {stem} has no convention {name} = {word}{hint}", place_of(operator))
        if "beside" in plain:
            yield from _misplaced(_beside(plain["beside"]), stem, known, place_of(next(iter(plain["beside"]))))
        for own in plain.get("readings", ()):
            yield from _misread(own, _reading(own), known[stem])


def _misnamed(plain: Mapping[str, Any], stem: str, known: Mapping[str, Mechanism]) -> Iterator[SpecError]:
    """Words that mean something else already."""
    m = known[stem]
    for word in plain.get("called", ()):
        own = known.get(str(word))
        other = word if own is not None and own.name == own.operator else called().get(str(word), stem)
        if other != stem:
            yield SpecError(f"called: {word!r} says {other!r}", place_of(word))
    for other in plain.get("also", ()):
        if str(other) not in known or str(other) == stem:
            yield SpecError(f"also: no other operator is {other!r}{did_you_mean(str(other), known)}", place_of(other))
    for name, others in plain.get("names", {}).items():
        if str(name) not in (*m.required, *m.takes, *stacks_of(m.layouts)):
            hint = did_you_mean(str(name), (*m.required, *m.takes))
            yield SpecError(f"names: {stem} has no input or option {name!r}{hint}", place_of(name))
        for word in {*str(others).split()} & {*m.required, *m.takes}:
            yield SpecError(f"names.{name}: {stem} has {word!r} itself", place_of(name))


def _misplaced(one: Beside, stem: str, known: Mapping[str, Mechanism], place: Place | None) -> Iterator[SpecError]:
    """What another operator lacks of which functions are said to be, too."""
    if one.operator not in known or one.operator == stem or known[one.operator].operator != one.operator:
        hint = did_you_mean(one.operator, known)
        yield SpecError(f"beside: no other operator is {one.operator!r}{hint}", place)
        return
    m = known[one.operator]
    yield from _unknown("beside", [*one.parameters.values(), *one.instead.values(), *one.requires], m, place)
    yield from _no_options("beside", one.fixed, m, place)
    for name in (name for name in one.returns if name not in m.outputs):
        yield SpecError(f"beside: {m.name} has no output {name!r}{did_you_mean(name, m.outputs)}", place)


def _misread(document: Mapping[Any, Any], one: Reading, m: Mechanism) -> Iterator[SpecError]:
    """Expressions of a reading that say nothing of its operator."""
    place = place_of(next(iter(document)))
    if not (one.parameters or one.named or one.lacking or one.fixed or one.returns or one.conventions):
        yield SpecError("readings: a reading has parameters, or says what holds of functions without them", place)
    if one.lacking and one.lacking not in m.required:
        hint = did_you_mean(one.lacking, m.required)
        yield SpecError(f"lacking: {m.name} does not require {one.lacking!r}{hint}", place)
    yield from _no_options("fixed", one.fixed, m, place)
    for name in (name for name in one.shown if name not in m.takes):
        yield SpecError(f"shown: {m.name} does not take {name!r}{did_you_mean(name, m.takes)}", place)
    for name, word in one.conventions.items():
        if word not in m.conventions.get(name, ()):
            yield SpecError(f"conventions: {m.name} has no convention {name!r} with the word {word!r}", place)
    for names, text in one.parameters.items():
        how, texts = kind_and_texts(text)
        if how == "in_place" and texts[1:] and texts[1] not in (*m.outputs, *one.returns):
            yield SpecError(f"parameters.{names[0]}: {m.name} has no output {texts[1]!r}", place)
        if how not in READ:
            yield SpecError(f"parameters.{names[0]}: what is read is computed or text, and not {text!r}", place)
            continue
        yield from _unknown(f"parameters.{names[0]}", [*expressions_in(text), *filter(None, [one.absent])], m, place)
    yield from _unknown("requires", one.requires, m, place)
    for values in one.fixed.values():
        yield from _unknown("fixed", values, m, place)
    for key, says in faults_in(one.outputs, m, one.returns, ()):
        yield SpecError(says, place_of(next(name for name in document if str(name) == key)))


def _no_options(label: str, names: Iterable[str], m: Mechanism, place: Place | None) -> Iterator[SpecError]:
    """What is no option of an operator."""
    for name in (name for name in names if name not in m.options):
        yield SpecError(f"{label}: {m.name} has no option {name!r}{did_you_mean(name, m.options)}", place)


def _unknown(label: str, texts: Iterable[str], m: Mechanism, place: Place | None = None) -> Iterator[SpecError]:
    """Expressions that cannot be read."""
    for text in texts:
        try:
            Expression(text, scope_with_results(m))
        except SpecError as error:
            yield SpecError(f"{label}: {error.message}", place)
