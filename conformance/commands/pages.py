"""The pages of `attnspec explain`, made from what is tested and from nothing else."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator

from attnspec.adapters import Adapter

from ..data.texts import safe
from ..errors import UsageError, did_you_mean
from ..judging.contracts import CONTRACTS, ONCE
from ..language.draws import DRAWS
from ..language.functions import FUNCTIONS
from ..mechanisms.library import Library
from ..mechanisms.loader import library as shipped_library
from ..mechanisms.mechanism import Mechanism
from ..numerics.grades import GRADES, LADDER, STANDARD
from ..reporting.findings import Finding, findings, named, standing
from ..reporting.glossary import known_words, meanings
from ..reporting.typesetting import prose
from ..subjects.registered import adapter_named, adapter_names, faults, find, install_command, installed
from .contract_pages import contract_page
from .mechanism_pages import convention_page, definition_page, law_page, mechanism_page, mistake_page, reject_page

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
        pages = _pages_of(library, library.naming(name.rpartition(".")[2]))
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
    """The page of what no specification names, which is found without those of all others."""
    if name.startswith("fault:"):
        one = faults().get(name)
        return None if one is None else _fault_page(one)
    standing = _standing()
    if name in FUNCTIONS or name in DRAWS:  # of which no specification has the name
        return standing[name]()
    if any(name in m.conventions for m in library.naming(name)):
        return None
    if name in standing:
        return standing[name]()
    return None if (adapter := adapter_named(name)) is None else _adapter_page(adapter)


def _standing() -> Pages:
    """The pages of functions, grades and contracts, for which nothing is read."""
    pages: Pages = {}
    for function in (*FUNCTIONS.values(), *DRAWS.values()):
        pages[function.name] = lambda f=function: iter([f.usage, *prose(f.says, "    ")])
    for grade in GRADES.values():
        pages[grade.name] = lambda g=grade: _grade_page(g.name)
    for contract in (*CONTRACTS, *ONCE):
        pages[f"contract.{contract}"] = lambda c=contract: contract_page(c)
    return pages


def _pages(library: Library, mechanisms: Iterable[Mechanism]) -> Pages:
    """The page of every name."""
    pages = _standing()
    for adapter in adapter_names():
        pages[adapter] = lambda a=adapter: _adapter_page(find(a))
    for fault in faults().values():
        pages[fault.name] = lambda a=fault: _fault_page(a)
    return pages | _pages_of(library, mechanisms)


def _pages_of(library: Library, mechanisms: Iterable[Mechanism]) -> Pages:
    """The pages of mechanisms and of what their specifications name, for which no adapter is imported."""
    pages: Pages = {}
    for m in mechanisms:
        for convention in m.conventions:
            pages[convention] = pages[f"convention.{convention}"] = lambda c=convention: convention_page(c, library)
        pages[m.address("definition")] = lambda m=m: definition_page(m)
        for law in m.laws.values():
            pages[m.address(law.name)] = lambda m=m, x=law: law_page(m, x)
        for mistake in m.mistakes.values():
            pages.setdefault(m.address(mistake.name), lambda m=m, x=mistake: mistake_page(m, x))
        for reject in m.rejects.values():
            pages[m.address(reject.name)] = lambda m=m, x=reject: reject_page(m, x)
        pages[m.name] = lambda m=m: mechanism_page(m)
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
    yield from (f"    on {kind}: {parts}" for kind, parts in a.on.items())
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
