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
    "error": "A call raised, or returned what is not a result.",
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


TERMS = {
    "adapter": ("A declared function that presents an implementation to the suite.", "`attnspec.adapter`"),
    "audit": (
        "The test of the suite itself: each law refutes a known mistake, and each mistake is refuted.",
        "`attnspec audit`",
    ),
    "block": ("Part of a plan: the scenarios, the covering array, or the cases that Hypothesis draws.", "a run"),
    "bound": ("How far rounding may take an entry from the definition.", "docs/bounds.md, `Result` of a failure"),
    "cache": ("What is computed once and kept, in memory or on disk.", "`attnspec doctor`"),
    "case": ("Sizes, options, a regime, a layout and a seed, from which one input is drawn.", "`attnspec replay`"),
    "cell": ("The verdict on one law, for one subject, dtype and device.", "results.ndjson"),
    "certain": ("Of a refutation: the error exceeds the bound of the worst case.", "docs/bounds.md"),
    "condition": ("What separates the cases that fail from those that pass.", "`When` of a failure"),
    "contract": ("What is asked of every call, whatever is computed.", "`attnspec explain contract.dtype`"),
    "control": ("A correct implementation of another kind, which has to pass.", "adapters/controls/, the audit"),
    "convention": ("A point on which correct implementations differ.", "a specification, `attnspec identify`"),
    "counterexample": ("A case on which a law does not hold, made as small as possible.", "`Smallest` of a failure"),
    "coverage": ("What a verdict rests on: scenarios answered, and mistakes that could be noticed.", "end of a run"),
    "covering array": ("Few cases that together have every pair of settings.", "the pairs of a plan"),
    "definition": ("The lines from inputs to outputs, which are also the first law.", "a specification"),
    "evidence": ("Which scenarios show which mistakes.", "spec/evidence/, `attnspec audit --derive`"),
    "faulty function": ("A function that is wrong on purpose in one part.", "adapters/faults/, the audit"),
    "fork server": ("A process that has imported everything, and forks those that make calls.", "a run"),
    "grade": ("A claim about the formats of intermediate results.", "docs/bounds.md, `attnspec explain fp32`"),
    "killed": ("Of a mutant: some law refutes it.", "`attnspec audit`"),
    "law": ("A sentence and an expression that hold for every correct implementation.", "a specification"),
    "layout": (
        "The order of the axes of an operator's arrays; of a case, how an input lies in memory.",
        "`attnspec explain attention`, `attnspec explain transposed`",
    ),
    "likely": ("Of a bound: six standard deviations, if roundings are independent.", "docs/bounds.md"),
    "mechanism": ("What one specification states.", "spec/, `attnspec list mechanisms`"),
    "mistake": ("A known way to be wrong: changed lines of a definition.", "a specification, `Like` of a failure"),
    "mutant": ("A definition with the changed lines of a mistake.", "`attnspec audit`"),
    "note": ("A failure that fails no run, for the pin does not have its law.", "a run with `--pin`"),
    "operator": ("The function that mechanisms are about, with its inputs and options.", "spec/README.md"),
    "option": ("What is passed by keyword and is not an array, such as `causal`.", "a specification"),
    "pin": ("The laws that count, with their digests, a profile and a seed.", "`attnspec freeze`"),
    "profile": ("How much is tried: smoke, quick, ci, nightly or serving.", "`attnspec check --profile`"),
    "reference": ("The operator once more in float64, written from the papers.", "reference/"),
    "refusal": ("An implementation raises an error in place of a result.", "`attnspec.Unsupported`"),
    "regime": ("A way to draw inputs with a special property, such as ties.", "a specification"),
    "scenario": ("A case that is always tried, designed to show certain mistakes.", "a specification"),
    "shrinking": ("Making a counterexample smaller while the law still fails.", "`Found` of a failure"),
    "subject": ("The implementation under test.", "a report"),
    "target": ("What names subjects on the command line.", "`attnspec check TARGET`"),
    "three-valued boolean": ("True, false, or undecided where bounds overlap.", "spec/README.md"),
    "waiver": ("A reason and a last day for a failure that is being fixed.", "`attnspec waive`"),
}
"""The terms of this project: what each means, and where it appears."""


def page() -> Iterator[str]:
    """The lines of docs/glossary.md."""
    yield from ("# Glossary", "", "`attnspec explain WORD` shows a word in the terminal.", "")
    yield from ("| term | meaning | where it appears |", "|---|---|---|")
    for term, (says, where) in TERMS.items():
        yield f"| {term} | {says} | {where} |"
    for title, words in (("Verdicts and levels", STANDINGS), ("Memory layouts", LAYOUT_SAYS)):
        yield from ("", f"## {title}", "", "| word | meaning |", "|---|---|")
        yield from (f"| `{word}` | {says} |" for word, says in words.items())


def known_words(library: Library) -> set[str]:
    """Every word that has a meaning here."""
    found = {*TERMS, *STANDINGS, *LAYOUTS, *FORMATS}
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
    if word in TERMS:
        says, where = TERMS[word]
        yield f"{word} (a term)", [*prose(says, "    "), f"    {where.replace('`', '')}"]
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
    for option, words in m.vocabulary.items():
        if word in words and (not taken_over or option in m.own):
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
    for kind, drawn in kinds.items():
        if word in drawn and (not taken_over or word in m.own):
            title = f"{word} ({'an' if kind[0] in 'io' else 'a'} {kind} of {m.name})"
            yield title, list(expression(f"{word} = {drawn[word].text}", "    ", " " * 8))


def _assigned(assigned: Mapping[str, Expression]) -> Iterator[str]:
    for name, x in assigned.items():
        yield from expression(f"{name} = {x.text}", "    ", " " * 8)


if __name__ == "__main__":
    print(*page(), sep="\n")
