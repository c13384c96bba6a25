"""What the words of a report mean that have no page of their own: regimes, scenarios, dtypes, layouts, verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..language.expressions import Expression
from ..mechanisms.library import Library
from ..mechanisms.mechanism import LAYOUTS, Mechanism
from ..numerics.formats import FORMATS
from .typesetting import expression, prose

STANDINGS = {
    "conformant": "Every law that was tried holds, and nothing that was asked for is missing.",
    "violated": "A law of level must does not hold, a call ended in an error, or what is required is missing.",
    "not_conformant": "What a report shows for a subject that is violated.",
    "partial": "What was tried holds, but not all of it was tried; the report says what is missing.",
    "waived": "The law does not hold, and a waiver answers for it.",
    "pass": "The law holds on every case that was tried.",
    "fail": "The law does not hold on some case, which is shown.",
    "error": "A call raised, or returned what is no result.",
    "internal": "attnspec failed, and not the subject; the records have the trace.",
    "not_tested": "No case could decide the law; the cell says why.",
    "not_declared": "The subject does not claim what the law is about.",
    "vacuous": "A case on which every bound was too wide to tell right from wrong.",
    "must": "The level of a law whose failure violates a subject.",
    "should": "The level of a law whose failure is noted, and violates nothing.",
    "unless_refused": "The level of a law that an error does not violate and a wrong answer does.",
}
"""The verdicts of cells and of subjects, and the levels of laws."""
LAYOUT_SAYS = {
    "contiguous": "The entries of every input lie one behind the other.",
    "strided": "Every second entry along the last axis of wider memory.",
    "transposed": "The two axes before the last are exchanged in memory; those of a matrix itself.",
    "offset": "The memory starts one slice before the input.",
    "expanded": "Slices along the first axis are one and the same memory.",
    "mixed": "Neighbouring inputs have different layouts.",
    "lone": "The third input alone is transposed.",
}


def known_words(library: Library) -> set[str]:
    """Every word that has a meaning here."""
    found = {*STANDINGS, *LAYOUTS, *FORMATS}
    for m in library.values():
        found.update(m.scenarios, m.regimes, m.examples, m.inputs, m.options, m.outputs, m.definition)
        found.update(word for words in (*m.conventions.values(), *m.vocabulary.values()) for word in words)
    return found


def meanings(word: str, library: Library) -> Iterator[str]:
    """What a word means, and where: one part for each meaning, and no line for a word without any."""
    parts = [*_everywhere(word), *(part for m in library.values() for part in _of_mechanism(m, word))]
    for number, (title, lines) in enumerate(parts):
        if number:
            yield ""
        yield title
        yield from lines


def _everywhere(word: str) -> Iterator[tuple[str, list[str]]]:
    plain = word.lower().replace(" ", "_")
    if plain in STANDINGS:
        yield f"{word} (of a report)", list(prose(STANDINGS[plain], "    "))
    if word in LAYOUT_SAYS:
        yield f"{word} (a memory layout of inputs)", list(prose(LAYOUT_SAYS[word], "    "))
    if word in FORMATS:
        fmt = FORMATS[word]
        says = f"{fmt.digits} bits of significand, so that rounding to nearest errs by {fmt.unit:.3g} of the result; "
        says += f"the largest number is {fmt.largest:.4g}."
        yield f"{word} (a dtype)", list(prose(says, "    "))


def _of_mechanism(m: Mechanism, word: str) -> Iterator[tuple[str, list[str]]]:
    """The meanings that a word has in one file; what is taken over from an operator is told there."""
    taken_over = m.name != m.operator
    for convention, words in () if taken_over else m.conventions.items():
        if word in words:
            lines = [*prose(words[word], "    "), f"    @adapter({m.name!r}, conventions={{{convention!r}: {word!r}}})"]
            yield f"{word} (a word of the convention {convention} of {m.name})", lines
    for option, words in () if taken_over else m.vocabulary.items():
        if word in words:
            says = f"An implementation is passed {option} = {words[word]!r}."
            yield f"{word} (a word of the option {option} of {m.name})", list(prose(says, "    "))
    for kind, settings in (("scenario", m.scenarios), ("regime", m.regimes)):
        if word in settings and not (taken_over and kind == "regime" and word in m.stating.regimes):
            setting = settings[word]
            yield f"{word} (a {kind} of {m.name})", [*_assigned(setting.assigned), f"    {setting.place or m.path}"]
    if word in m.examples:
        example = m.examples[word]
        yield f"{word} (an example of {m.name})", [*_assigned(example.given), f"    {example.place or m.path}"]
    kinds = {"size": m.sizes, "input": m.inputs, "option": m.options, "line of the definition": m.definition}
    for kind, drawn in () if taken_over else kinds.items():
        if word in drawn:
            title = f"{word} ({'an' if kind[0] in 'io' else 'a'} {kind} of {m.name})"
            yield title, list(expression(f"{word} = {drawn[word].text}", "    ", " " * 8))


def _assigned(assigned: Mapping[str, Expression]) -> Iterator[str]:
    for name, x in assigned.items():
        yield from expression(f"{name} = {x.text}", "    ", " " * 8)
