"""The pages of `attnspec explain`, made from what is tested and from nothing else."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from attnspec.adapters import Adapter

from ..cases.plans import plan
from ..cases.profiles import PROFILES
from ..data.texts import safe
from ..errors import UsageError, did_you_mean
from ..judging.contracts import CONTRACTS, ONCE
from ..judging.conventions import WORD_ENTRIES
from ..language.draws import DRAWS
from ..language.expressions import Expression
from ..language.functions import FUNCTIONS
from ..mechanisms.definition import Frame
from ..mechanisms.library import Library
from ..mechanisms.loader import Specs
from ..mechanisms.loader import library as shipped_library
from ..mechanisms.mechanism import Example, Law, Mechanism, Mistake, Reject
from ..mechanisms.references import has_reference
from ..numerics.grades import GRADES, LADDER, STANDARD
from ..reporting.findings import Finding, findings, named, standing
from ..reporting.glossary import known_words, meanings
from ..reporting.typesetting import entries, expression, expressions, prose
from ..subjects.registered import adapter_named, adapter_names, faults, find, install_command, installed
from ..subjects.stand_ins import DefinitionSubject
from ..subjects.targets import operators
from .listing import signature, subjects

CONTRACT_ADVICE = {
    "shape": "Return the shape that `attnspec list operators` shows; the adapter transposes if its library differs.",
    "dtype": "Cast the result to the dtype of the first input; a logsumexp stays in float32.",
    "device": "Leave the result on the device of the inputs.",
    "fresh_output": "Return new memory: a result that shares it changes when its owner is written to.",
    "inputs_unchanged": "Copy before computing in place; the caller may use its arrays again.",
    "state": "Restore what the call must change (`with np.errstate(...)`, `with torch.no_grad()`), and pass dtypes "
    "and devices instead of changing defaults. Drawing from a global generator is a `should`, and allowed if outputs "
    "are random. Changes that an import within a call makes to warnings, environment and handlers do not count.",
    "bounds": "Mask the loads and stores of a tile by the lengths of its arrays.",
    "written": "Write every entry of an output that is allocated empty, including rows without keys and tails.",
    "repeatable": "Look for a race, for dropout, or for state of an earlier call. It is a `should` unless the adapter "
    "declares deterministic=True.",
    "batch_invariant": "Choose tiles, splits and the order of sums by the sizes of one item, not by the number of "
    "items. --profile serving tests adapters that declare batch_invariant=True; for others the report says what "
    "was observed.",
    "chunk_invariant": "Choose tiles, splits and the order of sums independently of the queries in the call. "
    "--profile serving tests adapters that declare chunk_invariant=True; for others the report says what was observed.",
    "threads": "Give every call its own memory, or use a lock. --profile serving tests adapters that declare "
    "thread_safe=True; for others the report says what was observed.",
    "parameters": "Give the parameter the operator's name, remove it from the adapter's function, or "
    "declare under `fixed` that it only has its default.",
    "layout": "Declare layout=... with the name in the first line of the report, or pass --layout NAME; it is "
    "required under --profile ci and nightly, which judge nothing else until it is declared.",
    "backward": "Compute every gradient from what the forward pass saved, and leave that, the cotangents and `grad` of "
    "the inputs as they are: autograd adds to `grad`. What is kept by shape, such as a compiled variant, must not say "
    "whether gradients are needed. A backward pass that raises on second use is not blamed.",
    "independence": "Some calls are repeated, in another order, in a process without attnspec; a result there that is "
    "beyond every bound fails it. Look for code that depends on loaded modules or on earlier calls. It is "
    "tested for files and registered adapters, in isolation and on the CPU; it does not protect against malice.",
    "precision": "Declare grade=... if the larger errors are intended; otherwise look for an intermediate stored "
    "in low precision.",
}
Pages = dict[str, Callable[[], Iterator[str]]]


def explained(name: str, library: Library | None = None) -> Iterator[str]:
    """The page of whatever has that name; an unknown one is a `UsageError`."""
    library = library or shipped_library()
    mechanism, _, law = name.partition(".")
    if mechanism in library and law.startswith(("contract.", "convention.")):  # as a report writes it
        name = law
    pages = _pages_of(library, [library[mechanism]]) if mechanism in library else {}
    if name not in pages and (finding := named(name)) is not None:
        return _finding_page(finding)
    if name not in pages and (page := _known_alone(name, library)) is not None:
        return page
    if name not in pages:
        pages = _pages(library, library.values())
    if name not in pages:
        short = [known for known in pages if known.partition(".")[2] == name]
        told = list(meanings(name, library))
        if len(short) == 1:
            return iter([*pages[short[0]](), *(["", *told] if told else [])])
        if told:
            further = [f"attnspec explain {known} shows a law or mistake of that name." for known in sorted(short)]
            return iter([*told, *([""] if further else []), *further])
        known = {
            *pages,
            *(finding.id for finding in findings()),
            *(page.partition(".")[2] for page in pages),
            *known_words(library),
        }
        hint = f"; one of {', '.join(sorted(short))}" if short else did_you_mean(name, known)
        raise UsageError(f"nothing is named {safe(name)!r}{hint}")
    return pages[name]()


def _known_alone(name: str, library: Library) -> Iterator[str] | None:
    """The page of an adapter or of a faulty function, which is found without those of all others."""
    if name.startswith("fault:"):
        one = faults().get(name)
        return None if one is None else _fault_page(one)
    if any(name in m.conventions for m in library.values()) or (adapter := adapter_named(name)) is None:
        return None
    return _adapter_page(adapter)


def _pages(library: Library, mechanisms: Iterable[Mechanism]) -> Pages:
    """The page of every name."""
    pages: Pages = {}
    for function in (*FUNCTIONS.values(), *DRAWS.values()):
        pages[function.name] = lambda f=function: iter([f.usage, *prose(f.says, "    ")])
    for grade in GRADES.values():
        pages[grade.name] = lambda g=grade: _grade_page(g.name)
    for adapter in adapter_names():
        pages[adapter] = lambda a=adapter: _adapter_page(find(a))
    for fault in faults().values():
        pages[fault.name] = lambda a=fault: _fault_page(a)
    for contract in (*CONTRACTS, *ONCE):
        pages[f"contract.{contract}"] = lambda c=contract: _contract_page(c)
    return pages | _pages_of(library, mechanisms)


def _pages_of(library: Library, mechanisms: Iterable[Mechanism]) -> Pages:
    """The pages of mechanisms and of what their specifications name, for which no adapter is imported."""
    pages: Pages = {}
    for m in mechanisms:
        for convention in m.conventions:
            pages[convention] = pages[f"convention.{convention}"] = lambda c=convention: _convention_page(c, library)
        pages[m.address("definition")] = lambda m=m: _definition_page(m)
        for law in m.laws.values():
            pages[m.address(law.name)] = lambda m=m, x=law: _law_page(m, x)
        for mistake in m.mistakes.values():
            pages.setdefault(m.address(mistake.name), lambda m=m, x=mistake: _mistake_page(m, x))
        for reject in m.rejects.values():
            pages[m.address(reject.name)] = lambda m=m, x=reject: _reject_page(m, x)
        pages[m.name] = lambda m=m: _mechanism_page(m)
    return pages


def _finding_page(finding: Finding) -> Iterator[str]:
    """A finding, with the program that shows it and what that prints, and the commands that find it again."""
    yield finding.heading
    yield "=" * len(finding.heading)
    yield ""
    yield f"{finding.id}: {standing(finding)}; {finding.package} {finding.versions}"
    if finding.link:
        yield finding.link
    for part in (finding.documented, finding.happens, finding.matters):
        yield from (["", *(line for sentence in part.splitlines() for line in prose(sentence))] if part else [])
    for title, text in (("Program", finding.code), ("Prints", finding.prints)):
        yield from ["", f"{title}:", *textwrap.indent(text, "    ").splitlines()] if text else []
    yield from ["", "Found by:", *(f"    {seen.command}" for seen in finding.seen)]


def _mechanism_page(m: Mechanism) -> Iterator[str]:
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


def _law_page(m: Mechanism, law: Law) -> Iterator[str]:
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


def _definition_page(m: Mechanism) -> Iterator[str]:
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
    for sample in plan(m, subject.claims, PROFILES["quick"], 0, "float64").scenarios:
        if found >= {*m.conventions}:
            break
        if sample.entries <= WORD_ENTRIES:
            frame = Frame(m, sample.values)
            frame.outputs(m.outputs[0])
            found |= frame.turned_on
    return [convention for convention in m.conventions if convention in found]


def _mistake_page(m: Mechanism, mistake: Mistake) -> Iterator[str]:
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


def _reject_page(m: Mechanism, reject: Reject) -> Iterator[str]:
    yield f"{m.address(reject.name)} ({reject.level})"
    yield from prose(f"A call must be refused: {reject.says}", "    ")
    yield ""
    yield "the call"
    yield from _indented(*_assigned(reject.call))
    if reject.when.text != "true":
        yield "when"
        yield from _indented(reject.when.text)


def _convention_page(convention: str, library: Library) -> Iterator[str]:
    yield f"{convention} (a convention)"
    yield "Correct implementations differ in it; declare the word that yours follows, and attnspec tests it."
    for m in operators(library).values():
        words = m.conventions.get(convention, {})
        if words:
            yield ""
            yield m.name
        for word, says in words.items():
            yield from prose(f"{word}: {says}", "    ")
        if words:
            yield f"    @adapter({m.name!r}, conventions={{{convention!r}: {next(iter(words))!r}}})"


def _contract_page(name: str) -> Iterator[str]:
    yield f"contract.{name}"
    yield from prose({**CONTRACTS, **ONCE}[name], "    ")
    yield from prose(CONTRACT_ADVICE[name], "    ")


def _grade_page(name: str) -> Iterator[str]:
    grade = GRADES[name]
    yield f"{name}: {grade.says}"
    for dtype, ladder in LADDER.items():
        if grade in ladder:
            tried = " -> ".join(str(g) + (" (standard)" if g is STANDARD[dtype] else "") for g in ladder)
            yield f"    {dtype}: {tried}"


def _adapter_page(a: Adapter) -> Iterator[str]:
    yield f"{a.name}   {a.operator}, {a.framework}"
    yield f"    {a.summary}"
    yield f"    dtypes: {', '.join(a.dtypes)}"
    for label in ("conventions", "limits", "fixed", "grade"):
        if part := getattr(a, label):
            yield f"    {label}: {part}"
    yield from (f"    requires: {condition}" for condition in a.requires)
    yield f"    {a.function.__module__}" if installed(a) else f"    not installed: {install_command(a)}"


def _fault_page(a: Adapter) -> Iterator[str]:
    yield f"{a.name} (a fault of {a.operator})"
    yield from prose(a.summary, "    ")
    yield f"    dtypes: {', '.join(a.dtypes)}"
    yield f"    {a.module}"
    yield ""
    if a.seen:
        yield from prose(f"seen in {a.seen}")
        yield ""
    yield f"attnspec check {a.name} shows the laws that refute it."
