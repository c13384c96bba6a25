"""The terms of reports without a page of their own: regimes, scenarios, dtypes, layouts, verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..language.expressions import Expression
from ..mechanisms.library import Library
from ..mechanisms.mechanism import LAYOUTS, Mechanism
from ..numerics.formats import FORMATS
from .typesetting import expression, prose

STANDINGS = {
    "conformant": "Every law that was tested holds, and the check is complete.",
    "violated": "A law of level must fails, a call ended in an error, or a requirement is not met.",
    "not_conformant": "The verdict violated, as a report shows it.",
    "partial": "Everything that was tested holds, but the check is incomplete; the report says what is missing.",
    "waived": "The law fails, and a waiver excuses it.",
    "pass": "The law holds on every case that was tested.",
    "fail": "The law fails on a case, which is shown.",
    "error": "A call raised, or returned something that is not a result.",
    "internal": "attnspec itself failed, not the subject; the records have the traceback.",
    "not_tested": "No case could decide the law; the cell says why.",
    "not_declared": "The subject does not claim what the law is about.",
    "vacuous": "A case on which every bound was too wide to decide.",
    "must": "The level of a law whose failure makes a subject not conformant.",
    "should": "The level of a law whose failure is only noted.",
    "unless_refused": "The level of a law that allows an error, but not a wrong result.",
}
"""The verdicts of cells and of subjects, and the levels of laws."""
LAYOUT_SAYS = {
    "contiguous": "The entries of every input are adjacent in memory, in C order.",
    "strided": "Every second entry along the last axis of wider memory.",
    "transposed": "The two axes before the last are swapped in memory; for a matrix, its two axes.",
    "offset": "The memory starts one slice before the input.",
    "expanded": "All slices along the first axis share the same memory.",
    "mixed": "Neighbouring inputs have different layouts.",
    "lone": "Only the third input is transposed.",
    "sliced": "The second half of rows that are twice as long, as in a projection of several inputs at once.",
}


TERMS = {
    "adapter": ("A declared function through which the suite calls an implementation.", "`attnspec.adapter`"),
    "audit": (
        "The test of the suite itself: each law refutes a known mistake, and some law refutes each mistake.",
        "`attnspec audit`",
    ),
    "block": ("Part of a plan: scenarios, the covering array, draws of Hypothesis, or crossed sizes.", "a run"),
    "bound": ("How much rounding may change an entry.", "docs/bounds.md, `Result` of a failure"),
    "cache": ("Results that are stored for later use, in memory or on disk.", "`attnspec doctor`"),
    "case": (
        "Sizes, options, a regime, a layout and a seed, from which the inputs of one call are drawn.",
        "`attnspec replay`",
    ),
    "cell": ("The verdict on one law, for one subject, dtype and device.", "results.ndjson"),
    "certain": ("Of a refutation: the error exceeds the worst-case bound.", "docs/bounds.md"),
    "condition": ("What separates the cases that fail from those that pass.", "`When` of a failure"),
    "contract": ("A requirement on every call, whatever is computed.", "`attnspec explain contract.dtype`"),
    "control": ("An unusual but correct implementation, which must pass.", "adapters/controls/, the audit"),
    "convention": ("A point on which correct implementations differ.", "a specification, `attnspec identify`"),
    "counterexample": ("A case on which a law fails, as small as possible.", "`Smallest` of a failure"),
    "coverage": (
        "The evidence for a verdict: the scenarios answered, and the mistakes that they can detect.",
        "end of a run",
    ),
    "covering array": ("A few cases that together contain every pair of settings.", "the pairs of a plan"),
    "crossed sizes": ("Sizes beyond the tiles of kernels, in which options are tried in pairs.", "spec/MECHANISM.yaml"),
    "definition": (
        "The lines that compute the outputs from the inputs; they are also the first law.",
        "a specification",
    ),
    "evidence": ("Which scenarios show which mistakes.", "spec/evidence/, `attnspec audit --derive`"),
    "faulty function": ("A function that is wrong on purpose in one part.", "adapters/faults/, the audit"),
    "fork server": ("A process that has imported everything, and forks workers.", "a run"),
    "grade": ("A claim about the formats of intermediate results.", "docs/bounds.md, `attnspec explain fp32`"),
    "killed": ("Of a mutant: some law refutes it.", "`attnspec audit`"),
    "law": ("A sentence and an expression that hold for every correct implementation.", "a specification"),
    "layout": (
        "The order of the axes of an operator's arrays; of a case, how an input lies in memory.",
        "`attnspec explain attention`, `attnspec explain transposed`",
    ),
    "likely": ("Of a bound: six standard deviations of independent roundings.", "docs/bounds.md"),
    "mechanism": ("What one specification states.", "spec/, `attnspec list mechanisms`"),
    "mistake": ("A known way to be wrong: changed lines of a definition.", "a specification, `Like` of a failure"),
    "mutant": ("A definition with the changed lines of a mistake.", "`attnspec audit`"),
    "note": ("A failure that does not fail the run, because the pin does not contain its law.", "a run with `--pin`"),
    "operator": ("The function that a mechanism describes, with its inputs and options.", "spec/README.md"),
    "option": ("A keyword argument that is not an array, such as `causal`.", "a specification"),
    "pin": ("The laws that count, with their digests, a profile and a seed.", "`attnspec freeze`"),
    "profile": ("How much is tried: smoke, quick, ci, nightly or serving.", "`attnspec check --profile`"),
    "reference": ("A second implementation of an operator in float64, written from the papers.", "reference/"),
    "refusal": ("An implementation raises an error instead of returning a result.", "`attnspec.Unsupported`"),
    "regime": ("A distribution of inputs with a special property, such as ties.", "a specification"),
    "scenario": ("A case that every check runs, designed to show certain mistakes.", "a specification"),
    "shrinking": ("Making a counterexample smaller while the law still fails.", "`Found` of a failure"),
    "subject": ("The implementation under test.", "a report"),
    "target": ("What names subjects on the command line.", "`attnspec check TARGET`"),
    "three-valued boolean": ("True, false, or undecided where bounds overlap.", "spec/README.md"),
    "waiver": ("An exception for a failure that is being fixed, with a reason and a last day.", "`attnspec waive`"),
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
        found.update(m.scenarios, m.crossed, m.regimes, m.examples, m.inputs, m.options, m.outputs, m.definition)
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
    for kind, settings in (("scenario", m.scenarios), ("crossed size", m.crossed), ("regime", m.regimes)):
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
