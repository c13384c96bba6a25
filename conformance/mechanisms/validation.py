"""Checks of a whole document: no name has two meanings, and no part contradicts another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import SpecError, did_you_mean
from ..language.draws import DRAWS
from ..language.functions import FUNCTIONS
from ..language.scopes import RESERVED
from ..numerics.codes import CODES
from ..numerics.formats import FORMATS, NUMBER
from ..numerics.formats import KINDS as NOT_NUMBERS
from .amounts import excesses
from .forward import results
from .inspection import find_cycle
from .layouts import faults as layout_faults
from .mechanism import Assignments, Mechanism
from .schema import Document, place_of

DTYPES = (*FORMATS, *CODES, *NOT_NUMBERS, NUMBER)
KINDS = {"sizes": "a size", "inputs": "an input", "options": "an option"}
LINE = "a line of the definition"


def clashes(document: Document, base: Mechanism | None) -> Iterator[SpecError]:
    """Names that mean two things."""
    taken = {**dict.fromkeys({*FUNCTIONS, *DRAWS}, "a function"), **dict.fromkeys(RESERVED, "a constant")}
    taken["layout"] = "the memory layout of a case"
    own = {**_section(document, "conventions"), **_section(document, "words")}
    if base:
        for key, kind in KINDS.items():
            taken |= dict.fromkeys(getattr(base, key), kind)
        taken |= dict.fromkeys(base.definition, LINE)
        inherited = {**base.conventions, **base.vocabulary}
        taken |= {w: f"a word of {c}" for c, words in inherited.items() if c not in own for w in words}
    for key, kind in KINDS.items():
        for name in _section(document, key):
            if taken.get(name, kind) != kind:
                yield _clash(name, taken[name])
            taken[name] = kind
    lines = base.definition if base else ()
    for name in _section(document, "definition"):
        if name in taken and name not in lines:
            yield _clash(name, taken[name])
        taken[name] = LINE
    for convention, words in own.items():
        for word in words:
            if word in taken and word not in DRAWS:  # a draw is always called, and a word never
                yield _clash(word, taken[word])
            taken[word] = f"a word of {convention}"
    seen = {"definition"}
    for name in (*_section(document, "laws"), *_section(document, "rejects")):
        if name in seen:
            yield SpecError(f"two laws are called {str(name)!r}", place_of(name))
        seen.add(name)


def contradictions(mechanism: Mechanism, document: Document) -> Iterator[SpecError]:
    """Parts that contradict one another, or speak of what is not there."""
    yield from _outputs(mechanism, document)
    yield from _layouts(mechanism, _section(document, "layouts"), {str(name) for name in _section(document, "inputs")})
    if mechanism.gradient_of and mechanism.operator != f"{mechanism.gradient_of}_gradient":
        says = f"gradient_of: the gradients of {mechanism.gradient_of!r} are stated by {mechanism.gradient_of}_gradient"
        yield SpecError(says)
    yield from _follows(mechanism, _section(document, "follows"))
    for name in _section(document, "words"):
        if name not in mechanism.options:
            hint = did_you_mean(name, mechanism.options)
            yield SpecError(f"words: no option is called {str(name)!r}{hint}", place_of(name))
    yield from _dtypes(mechanism, _section(document, "dtypes"))
    yield from _circles(mechanism)
    yield from excesses(mechanism, document)
    fixed = {size for shape in mechanism.shapes.values() for size in shape}
    for name, line in mechanism.definition.items():
        for size in sorted(line.uses & set(mechanism.sizes) - fixed):
            text = f"definition.{name}: the size {size!r} is not fixed by the shape of a required input"
            yield SpecError(text, line.place)


def _section(document: Document, key: str) -> Mapping[Any, Any]:
    found = document.get(key, {})  # type: ignore[call-overload]
    return found if isinstance(found, dict) else {}


def _clash(name: Any, meaning: str) -> SpecError:
    return SpecError(f"{str(name)!r} is already the name of {meaning}", place_of(name))


def _outputs(mechanism: Mechanism, document: Document) -> Iterator[SpecError]:
    where = place_of(document["mechanism"])  # type: ignore[index]
    if not mechanism.outputs:
        yield SpecError("the key 'outputs' is missing", where)
    lines = {*mechanism.definition, *_section(document, "definition")}
    for output in () if mechanism.by_reference else document.get("outputs", ()):  # type: ignore[call-overload]
        if output not in lines:
            hint = did_you_mean(output, lines)
            yield SpecError(f"outputs: no line of the definition is called {str(output)!r}{hint}", place_of(output))
    for part in ("random", "dtypes", "normal_form"):
        lined = lines if part == "dtypes" else ()
        for name in document.get(part, ()):  # type: ignore[call-overload]
            if name not in {*mechanism.outputs, *mechanism.inputs, *lined}:
                kinds = "neither input, output nor line" if lined else "neither input nor output"
                yield SpecError(f"{part}: {str(name)!r} is {kinds}", place_of(name))


def _dtypes(mechanism: Mechanism, given: Mapping[Any, Any]) -> Iterator[SpecError]:
    """Dtypes that are neither formats, nor kinds, nor an option whose words all are."""
    for name, dtype in given.items():
        words = mechanism.vocabulary.get(str(dtype))
        wrong = [text for text in (words.values() if words else (str(dtype),)) if text not in DTYPES]
        if wrong:
            known = [*DTYPES, *mechanism.vocabulary]
            says = f"dtypes.{name}: {wrong[0]!r} is neither a dtype nor an option with words for dtypes"
            yield SpecError(f"{says}{did_you_mean(wrong[0], known)}", place_of(dtype))
        elif words and name not in mechanism.inputs:
            yield SpecError(f"dtypes.{name}: an option says the dtype of inputs alone", place_of(dtype))


def _follows(mechanism: Mechanism, follows: Mapping[Any, Any]) -> Iterator[SpecError]:
    known = mechanism.conventions
    for name, other in follows.items():
        unknown = [convention for convention in (name, other) if convention not in known]
        for convention in unknown:
            hint = did_you_mean(convention, known)
            yield SpecError(f"follows: no convention {str(convention)!r}{hint}", place_of(convention))
        if not unknown and len(known[name]) != len(known[other]):
            yield SpecError(f"follows: {str(name)!r} has not as many words as {str(other)!r}", place_of(name))


def _layouts(mechanism: Mechanism, given: Mapping[Any, Any], drawn: set[str]) -> Iterator[SpecError]:
    if not given:
        return
    places = {(str(layout), str(name)): place_of(name) for layout, own in given.items() for name in own}
    known = {*mechanism.inputs, *mechanism.outputs, *results(mechanism), *drawn}
    for layout, name, says in layout_faults(mechanism.layouts, known):
        yield SpecError(f"layouts.{layout}.{name}: {says}", places.get((layout, name)))


def _circles(mechanism: Mechanism) -> Iterator[SpecError]:
    drawn = {**mechanism.sizes, **mechanism.inputs, **mechanism.options}
    lines = mechanism.definition
    parts: list[tuple[str, Assignments | None, Assignments]] = [("definition", None, lines), ("draws", None, drawn)]
    parts += [(f"laws.{law.name}.given", None, law.given) for law in mechanism.laws.values()]
    parts += [(f"mistakes.{mistake.name}.change", lines, mistake.change) for mistake in mechanism.mistakes.values()]
    parts += [(f"regimes.{regime.name}", drawn, regime.assigned) for regime in mechanism.regimes.values()]
    parts += [(f"scenarios.{scenario.name}", drawn, scenario.assigned) for scenario in mechanism.scenarios.values()]
    parts += [(f"crossed.{crossed.name}", drawn, crossed.assigned) for crossed in mechanism.crossed.values()]
    spent, circular = [0], set[int]()
    for label, below, above in parts:
        if id(below) in circular:
            continue  # that is told already
        try:
            circle = find_cycle(_uses(below, above), None if below is None else above, spent)
        except SpecError as error:  # there is too much to follow
            yield SpecError(f"{label}: {error.message}", next(iter(above.values())).place)
            return
        if circle:
            circular.add(id(above))
            place = next(above[name].place for name in circle if name in above)
            yield SpecError(f"{label}: a cycle: {' -> '.join(circle)}", place)


def _uses(below: Assignments | None, above: Assignments) -> dict[str, frozenset[str]]:
    """What every name reads when assignments take the place of others: in its own, a name means what it replaces."""
    if below is None:
        return {name: expression.uses for name, expression in above.items()}
    found = {name: expression.uses for name, expression in below.items()}
    for name, expression in above.items():
        replaced = below[name].uses if name in below and name in expression.uses else frozenset()
        found[name] = (expression.uses - {name}) | replaced
    return found
