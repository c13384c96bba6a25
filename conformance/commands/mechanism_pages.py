"""The pages of a mechanism, and of its laws, mistakes, conventions and calls to be refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ..cases.plans import plan
from ..cases.profiles import PROFILES
from ..judging.conventions import WORD_ENTRIES
from ..language.expressions import Expression
from ..mechanisms.definition import Frame
from ..mechanisms.library import Library
from ..mechanisms.loader import Specs
from ..mechanisms.mechanism import Example, Law, Mechanism, Mistake, Reject
from ..mechanisms.references import has_reference
from ..reporting.typesetting import entries, expression, expressions, prose
from ..subjects.registered import installed
from ..subjects.stand_ins import DefinitionSubject
from .listing import signature, subjects


def mechanism_page(m: Mechanism) -> Iterator[str]:
    yield m.title
    yield "=" * len(m.title)
    yield ""
    yield from prose(m.summary)
    yield ""
    if m.formula:
        yield from expression(m.formula, "    ", " " * 8)
        yield ""
    yield from signature(m.stating)
    yield ""
    yield from _lines(m)
    layouts = {name: ", ".join(f"{x} {axes}" for x, axes in own.items()) for name, own in m.layouts.items()}
    yield from _section("Layouts, the definition's own first", entries(layouts))
    for option, texts in m.vocabulary.items():
        yield from _section(f"Words of {option}", entries({word: repr(text) for word, text in texts.items()}))
    yield from _section("Domain", expressions(_texts(m.requires), ":"))
    for example in m.examples.values():
        yield from _section(f"Example {example.name}", _worked(m, example))
    yield from _section("Laws", entries({law.name: law.says + _softly(law.level) for law in m.laws.values()}))
    refused = {x.name: x.says + _softly(x.level) for x in m.rejects.values()}
    yield from _section("Refused otherwise", entries(refused))
    yield from _section("Known mistakes", entries({x.name: x.says + _seen(x) for x in m.mistakes.values()}))
    yield from _section("Conventions", _words(m))
    settings = {x.name: ", ".join(_assigned(x.assigned)) for x in m.scenarios.values()}
    yield from _section("Scenarios, which are always run", expressions(settings, ":"))
    yield from _section("Subjects", _subjects(m))
    yield from _section("Sources", (line for source in m.sources for line in _hanging(source)))
    yield ""
    yield f"attnspec audit --mechanism {m.name}{_further(m)} --table shows what each law refutes."
    yield f"Written in {m.path}."


def _section(title: str, lines: Iterator[str]) -> Iterator[str]:
    """A title and what stands under it; nothing where nothing does."""
    first = next(lines, None)
    if first is not None:
        yield ""
        yield title
        yield first
        yield from lines


def _softly(level: str) -> str:
    return f" ({level.replace('_', ' ')})" if level != "must" else ""


def _seen(mistake: Mistake) -> str:
    return f" Seen: {mistake.seen}." if mistake.seen else ""


def _hanging(text: str) -> Iterator[str]:
    """A paragraph of a list, its further lines set in."""
    first, *further = prose(text, " " * 8)
    yield first[4:]
    yield from further


def _texts(lines: Mapping[str, Expression]) -> dict[str, str]:
    return {name: line.text for name, line in lines.items()}


def _lines(m: Mechanism) -> Iterator[str]:
    yield "Definition" if m.name == m.operator else f"Definition (that of {m.operator})"
    if m.by_reference:
        yield f"    the float64 reference, attnspec.reference.{m.operator}"
    yield from expressions(_texts(m.definition), ":")


def _worked(m: Mechanism, example: Example) -> Iterator[str]:
    """What is given, arrays first and single numbers in one line, and what comes out."""
    given = _assigned(example.given)
    for array in (text for text in given if " = [" in text):
        yield from expression(array, "    ", " " * 8)
    single = [text for text in given if " = [" not in text]
    if single:
        yield from expression(", ".join(single), "    ", " " * 4)
    for output, printed in example.gives.items():
        kind = {"integer": np.int64, "boolean": np.bool_}.get(m.dtypes.get(output, ""), np.float64)
        shown = str(np.asarray(printed.value, kind).tolist()).replace("True", "true").replace("False", "false")
        yield from expression(f"gives {output} = {shown}", "    ", " " * 8)


def _assigned(assignments: Mapping[str, Expression]) -> list[str]:
    return [f"{name} = {x.text}" for name, x in assignments.items()]


def _words(m: Mechanism) -> Iterator[str]:
    """The conventions of an operator, and of a further mechanism those that it turns on."""
    for convention in m.conventions if m.name == m.operator else _turned_on(m):
        yield f"    {convention}"
        for word, says in m.conventions[convention].items():
            yield from prose(f"{word}: {says}", " " * 8)


def _subjects(m: Mechanism) -> Iterator[str]:
    """The adapters that are run against a mechanism, and how to run one."""
    known = subjects(m)
    if not known:
        witness = (
            "the float64 reference is the second witness" if has_reference(m) else "its definition is the one witness"
        )
        yield from prose(f"No adapter claims it; {witness}.", "    ")
    else:
        yield from prose(", ".join(a.name for a in known), "    ")
        at_hand = min(known, key=lambda a: (not installed(a), bool(a.extra)))  # what needs no extra comes first
        yield f"    attnspec check {at_hand.name} --mechanism {m.name}"


def _further(m: Mechanism) -> str:
    """What commands need that are about a mechanism of a further folder."""
    return Specs(m.library.folders).arguments if m.library is not None and m.library.is_outside(m.name) else ""


def law_page(m: Mechanism, law: Law) -> Iterator[str]:
    yield m.address(law.name) + _softly(law.level)
    yield from prose(law.says, "    ")
    yield ""
    if law.given:
        yield "given"
        yield from _indented(*_assigned(law.given))
    if law.when.text != "true":
        yield "when"
        yield from _indented(law.when.text)
    yield "holds"
    yield from _indented(law.holds.text)
    yield ""
    used = law.when.uses | law.holds.uses | {n for g in law.given.values() for n in g.uses}
    named = [name for name in m.definition if name in used and name not in m.outputs]
    if named:
        yield "where"
        yield from _indented(*(f"{name} = {m.definition[name].text}" for name in named))
        yield ""
    yield from _innocent(m)
    if law.contract:
        yield from prose(f"It need not refute a known mistake: {law.contract}")
    yield str(law.place or m.path)


def _indented(*texts: str) -> Iterator[str]:
    for text in texts:
        yield from expression(text, "    ", " " * 8)


def definition_page(m: Mechanism) -> Iterator[str]:
    yield m.address("definition")
    yield from prose(
        "Every output agrees with the definition, within the error that the claimed precision allows: a bound that is "
        "derived for every entry from the inputs, and never chosen.",
        "    ",
    )
    yield ""
    yield from _lines(m)
    yield ""
    yield from _innocent(m)


def _innocent(m: Mechanism) -> Iterator[str]:
    """The conventions that the mechanism turns on: the usual innocent reasons for a failure."""
    turned = _turned_on(m)
    if turned:
        yield "Harmless cause: the implementation follows another convention than the declared one. If intended:"
        for convention in turned:
            words = " or ".join(f"{word!r}" for word in m.conventions[convention])
            yield f"    conventions={{{convention!r}: {words}}}"
        yield ""


def _turned_on(m: Mechanism) -> list[str]:
    subject = DefinitionSubject(m, "definition")
    found: set[str] = set()
    for sample in plan(m, subject.claims, PROFILES["quick"], 0, "float64").one_by_one():
        if found >= {*m.conventions}:
            break
        if sample.entries <= WORD_ENTRIES:
            frame = Frame(m, sample.values)
            frame.outputs(m.outputs[0])
            found |= frame.turned_on
    return [convention for convention in m.conventions if convention in found]


def mistake_page(m: Mechanism, mistake: Mistake) -> Iterator[str]:
    yield f"{m.address(mistake.name)} (a known mistake)"
    yield from prose(mistake.says, "    ")
    yield ""
    yield "changes"
    for name, changed in mistake.change.items():
        yield from _indented(f"{name} = {changed.text}")
        if name in m.definition:
            yield from expression(f"instead of {m.definition[name].text}", " " * 8, " " * 12)
    if mistake.seen:
        yield from prose(f"seen in {mistake.seen}")
    yield ""
    yield from prose(f"attnspec check mistake:{m.address(mistake.name)}{_further(m)} shows the laws that refute it.")


def reject_page(m: Mechanism, reject: Reject) -> Iterator[str]:
    yield f"{m.address(reject.name)} ({reject.level})"
    yield from prose(f"A call must be refused: {reject.says}", "    ")
    yield ""
    yield "the call"
    yield from _indented(*_assigned(reject.call))
    if reject.when.text != "true":
        yield "when"
        yield from _indented(reject.when.text)


def convention_page(convention: str, library: Library) -> Iterator[str]:
    yield f"{convention} (a convention)"
    yield "Correct implementations differ in it; declare the word that yours follows, and attnspec tests it."
    for m in library.naming(convention):
        words = m.conventions.get(convention, {}) if m.name == m.operator else {}
        if words:
            yield ""
            yield m.name
        for word, says in words.items():
            yield from prose(f"{word}: {says}", "    ")
        if words:
            yield f"    @adapter({m.name!r}, conventions={{{convention!r}: {next(iter(words))!r}}})"
