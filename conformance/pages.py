"""The pages of `attnspec list` and `attnspec explain`, made from what is tested and from nothing else."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping

from attnspec.adapters import Adapter

from .cells import CONTRACTS
from .conventions import LARGE
from .definition import Frame
from .draws import DRAWS
from .errors import UsageError, did_you_mean
from .grades import GRADES, LADDER, STANDARD
from .language import Expression
from .library import FUNCTIONS
from .loader import library
from .mechanism import Law, Mechanism, Mistake, Reject
from .plans import PROFILES, plan
from .stand_ins import DefinitionSubject
from .targets import install_command, installed, operators, shipped

WIDTH = 100

CONTRACT_ADVICE = {
    "shape": "Return the shape that `attnspec list operators` shows; an adapter transposes where its library differs.",
    "dtype": "Cast the result to the dtype of the first input; a logsumexp stays in float32.",
    "device": "Leave the result on the device of the inputs.",
    "fresh_output": "Return new memory: a result that shares it changes when its owner is written to.",
    "inputs_unchanged": "Copy before computing in place; the caller may use its arrays again.",
    "written": "An output that is allocated empty is written everywhere, rows without keys and tails included.",
    "repeatable": "Look for a race, for dropout, or for state of an earlier call. It is a `should` unless the adapter "
    "declares deterministic=True.",
    "precision": "Declare grade=... if the wider errors are intended; if not, look for an intermediate that is stored "
    "in a narrow type.",
}


# Lists


def listed(what: str) -> Iterator[str]:
    """The lines of a list."""
    yield from {
        "mechanisms": _mechanisms,
        "laws": _laws,
        "operators": _operators,
        "adapters": _adapters,
        "mistakes": _mistakes,
        "conventions": _conventions,
        "functions": _functions,
    }[what]()


def _mechanisms() -> Iterator[str]:
    subjects, width = [a for a in shipped() if installed(a)], _width(library())
    columns = f"{'laws':>5}{'mistakes':>10}{'scenarios':>11}{'subjects':>10}"
    yield f"{'mechanism':<{width}}{'operator':<{width}}{columns}   title"
    for m in library().values():
        count = sum(a.operator == m.operator for a in subjects)
        counts = f"{len(m.laws) + 1:>5}{len(m.mistakes):>10}{len(m.scenarios):>11}{count:>10}"
        yield f"{m.name:<{width}}{m.operator:<{width}}{counts}   {m.title}"


def _width(texts: Iterable[str]) -> int:
    """The width of a column that holds the texts and what parts it from the next."""
    return max(map(len, texts), default=0) + 2


def _laws() -> Iterator[str]:
    for m in library().values():
        yield f"{m.name}.definition   Every output is what the definition says."
        for law in m.laws.values():
            yield _item(m.address(law.name), law.says, law.level)
        for reject in m.rejects.values():
            yield _item(m.address(reject.name), f"Refused: {reject.says}", reject.level)
    for name, says in CONTRACTS.items():
        yield _item(f"contract.{name}", says, "must")


def _item(address: str, says: str, level: str) -> str:
    return f"{address}   {says}" + ("   (should)" if level == "should" else "")


def _operators() -> Iterator[str]:
    for m in operators().values():
        yield from signature(m)
        yield ""


def _adapters() -> Iterator[str]:
    known = shipped()
    name, operator = _width(a.name for a in known), _width(a.operator for a in known)
    dtypes = _width(" ".join(a.dtypes) for a in known)
    for a in known:
        where = "" if installed(a) else f"   not installed: {install_command(a)}"
        yield f"{a.name:<{name}}{a.operator:<{operator}}{' '.join(a.dtypes):<{dtypes}}{a.summary}{where}"


def _mistakes() -> Iterator[str]:
    for m in library().values():
        for mistake in m.mistakes.values():
            yield f"{m.address(mistake.name)}   {mistake.says}" + (f"   seen: {mistake.seen}" if mistake.seen else "")


def _conventions() -> Iterator[str]:
    for m in operators().values():
        for convention, words in m.conventions.items():
            yield f"{m.name}: {convention}"
            for word, says in words.items():
                yield f"    {word:<16}{says}"


def _functions() -> Iterator[str]:
    for title, functions in (("functions", FUNCTIONS), ("draws", DRAWS)):
        yield f"{title}:"
        for function in functions.values():
            yield f"    {function.usage:<34}{function.says}"


def signature(m: Mechanism) -> Iterator[str]:
    """An operator as an adapter has to write it: positional inputs, then what may be claimed by keyword."""
    inputs = [f"{name} {_shape(m, name)}".strip() for name in m.required]
    keywords = [f"{n} {_shape(m, n)}".strip() for n in m.optional] + [f"{n}={_default(m, n)}" for n in m.options]
    yield from textwrap.wrap(f"{m.name}({', '.join([*inputs, '*', *keywords])})", WIDTH, subsequent_indent=" " * 8)
    outputs = ", ".join(m.outputs)
    yield from _wrapped(
        f"returns {outputs}; the first one always, as one array, a tuple in this order, or a dict", "    "
    )
    for convention, words in m.conventions.items():
        yield f"    convention {convention}: {', '.join(words)}"


def _shape(m: Mechanism, name: str) -> str:
    axes = m.shapes.get(name)
    return f"[{', '.join(axis or '_' for axis in axes)}]" if axes else "[...]"


def _default(m: Mechanism, name: str) -> str:
    return _shown(m.defaults[name]) if name in m.defaults else "required"


def _shown(x: object) -> str:
    return {True: "true", False: "false", None: "none"}.get(x, str(x)) if isinstance(x, bool | None) else str(x)


# Explanations


def explained(name: str) -> Iterator[str]:
    """The page of whatever has that name; an unknown one is a `UsageError`."""
    pages: Mapping[str, Callable[[], Iterator[str]]] = _pages()
    mechanism, _, law = name.partition(".")
    if mechanism in library() and law.startswith(("contract.", "convention.")):  # as a report writes it
        name = law
    if name not in pages:
        short = [known for known in pages if known.partition(".")[2] == name]
        if len(short) == 1:
            return pages[short[0]]()
        hint = (
            f"; one of {', '.join(sorted(short))}"
            if short
            else did_you_mean(name, {*pages, *(known.partition(".")[2] for known in pages)})
        )
        raise UsageError(f"nothing is called {name!r}{hint}")
    return pages[name]()


def _pages() -> dict[str, Callable[[], Iterator[str]]]:
    pages: dict[str, Callable[[], Iterator[str]]] = {}
    for function in (*FUNCTIONS.values(), *DRAWS.values()):
        pages[function.name] = lambda f=function: iter([f.usage, *_wrapped(f.says, "    ")])
    for grade in GRADES.values():
        pages[grade.name] = lambda g=grade: _grade_page(g.name)
    for adapter in shipped():
        pages[adapter.name] = lambda a=adapter: _adapter_page(a)
    for contract in CONTRACTS:
        pages[f"contract.{contract}"] = lambda c=contract: _contract_page(c)
    for m in library().values():
        for convention in m.conventions:
            pages[convention] = pages[f"convention.{convention}"] = lambda c=convention: _convention_page(c)
        pages[m.address("definition")] = lambda m=m: _definition_page(m)
        for law in m.laws.values():
            pages[m.address(law.name)] = lambda m=m, x=law: _law_page(m, x)
        for mistake in m.mistakes.values():
            pages.setdefault(m.address(mistake.name), lambda m=m, x=mistake: _mistake_page(m, x))
        for reject in m.rejects.values():
            pages[m.address(reject.name)] = lambda m=m, x=reject: _reject_page(m, x)
        pages[m.name] = lambda m=m: _mechanism_page(m)
    return pages


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False) or [""]


def _mechanism_page(m: Mechanism) -> Iterator[str]:
    yield m.title
    yield "=" * len(m.title)
    yield ""
    yield from _wrapped(m.summary)
    yield ""
    if m.formula:
        yield f"    {m.formula}"
        yield ""
    yield from signature(operators()[m.operator])
    yield ""
    yield from _lines(m)
    for example in m.examples.values():
        yield ""
        yield f"Example {example.name}"
        yield from _assignments(example.given, "    ")
        for output, printed in example.gives.items():
            yield from _wrapped(f"gives {output} = {printed.value.tolist()}", "    ")
    yield ""
    yield "Laws"
    for law in m.laws.values():
        yield from _told(law.name, law.says + (" (should)" if law.level == "should" else ""))
    for reject in m.rejects.values():
        yield from _told(reject.name, f"Refused otherwise: {reject.says}")
    yield ""
    yield "Known mistakes"
    for mistake in m.mistakes.values():
        yield from _told(mistake.name, mistake.says)
    if m.name == m.operator and m.conventions:
        yield ""
        yield "Conventions"
        for convention, words in m.conventions.items():
            yield f"    {convention}"
            for word, says in words.items():
                yield from _wrapped(f"{word}: {says}", " " * 8)
    yield ""
    yield "Sources"
    for source in m.sources:
        yield from _wrapped(source, "    ")
    yield f"    {m.path}"
    if not any(a.operator == m.operator for a in shipped()):
        yield ""
        yield "No installable implementation of it is known; the float64 reference is the second witness."


def _told(name: str, says: str) -> list[str]:
    return textwrap.wrap(says, WIDTH, initial_indent=f"    {name:<20} ", subsequent_indent=" " * 25) or [f"    {name}"]


def _lines(m: Mechanism) -> Iterator[str]:
    yield "Definition"
    if m.by_reference:
        yield f"    the float64 reference, attnspec.reference.{m.operator}"
        return
    width = max(map(len, m.definition), default=0) + 1
    for name, line in m.definition.items():
        yield from textwrap.wrap(
            line.text, WIDTH, initial_indent=f"    {name + ':':<{width}} ", subsequent_indent=" " * (width + 5)
        )


def _assignments(assigned: Mapping[str, Expression], indent: str) -> Iterator[str]:
    for name, expression in assigned.items():
        yield from _wrapped(f"{name} = {expression.text}", indent)


def _law_page(m: Mechanism, law: Law) -> Iterator[str]:
    yield m.address(law.name) + (" (should)" if law.level == "should" else "")
    yield from _wrapped(law.says, "    ")
    yield ""
    if law.given:
        yield "given"
        yield from _assignments(law.given, "    ")
    if law.when.text != "true":
        yield "when"
        yield from _wrapped(law.when.text, "    ")
    yield "holds"
    yield from _wrapped(law.holds.text, "    ")
    yield ""
    used = law.when.uses | law.holds.uses | {n for g in law.given.values() for n in g.uses}
    named = [name for name in m.definition if name in used and name not in m.outputs]
    if named:
        yield "where"
        for name in named:
            yield from _wrapped(f"{name} = {m.definition[name].text}", "    ")
        yield ""
    yield from _innocent(m)
    if law.contract:
        yield from _wrapped(f"It need not refute a known mistake: {law.contract}")
    yield str(law.place or m.path)


def _definition_page(m: Mechanism) -> Iterator[str]:
    yield m.address("definition")
    yield from _wrapped(
        "Every output is what the definition says, within the error that the claimed precision allows: a bound that is "
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
        yield "Innocent reasons: a convention that is followed otherwise than it is declared. If that is meant:"
        for convention in turned:
            words = " or ".join(f"{word!r}" for word in m.conventions[convention])
            yield f"    conventions={{{convention!r}: {words}}}"
        yield ""


def _turned_on(m: Mechanism) -> list[str]:
    subject = DefinitionSubject(m, "definition")
    found: set[str] = set()
    for sample in plan(m, subject.claims, PROFILES["quick"], 0, "float64").scenarios:
        if sample.entries <= LARGE:
            frame = Frame(m, sample.values)
            frame.outputs(m.outputs[0])
            found |= frame.turned_on
    return [convention for convention in m.conventions if convention in found]


def _mistake_page(m: Mechanism, mistake: Mistake) -> Iterator[str]:
    yield f"{m.address(mistake.name)} (a known mistake)"
    yield from _wrapped(mistake.says, "    ")
    yield ""
    yield "changes"
    for name, expression in mistake.change.items():
        yield from _wrapped(f"{name} = {expression.text}", "    ")
        if name in m.definition:
            yield from _wrapped(f"instead of {m.definition[name].text}", "        ")
    if mistake.seen:
        yield f"seen in {mistake.seen}"
    yield ""
    yield f"attnspec check mistake:{m.address(mistake.name)} shows the laws that refute it."


def _reject_page(m: Mechanism, reject: Reject) -> Iterator[str]:
    yield f"{m.address(reject.name)} ({reject.level})"
    yield from _wrapped(f"A call is refused otherwise: {reject.says}", "    ")
    yield ""
    yield "the call"
    yield from _assignments(reject.call, "    ")
    if reject.when.text != "true":
        yield "when"
        yield from _wrapped(reject.when.text, "    ")


def _convention_page(convention: str) -> Iterator[str]:
    yield f"{convention} (a convention)"
    yield "Correct implementations differ in it; declare the word that yours follows, and it is tested."
    for m in operators().values():
        words = m.conventions.get(convention, {})
        if words:
            yield ""
            yield m.name
        for word, says in words.items():
            yield from _wrapped(f"{word}: {says}", "    ")
        if words:
            yield f"    @adapter({m.name!r}, conventions={{{convention!r}: {next(iter(words))!r}}})"


def _contract_page(name: str) -> Iterator[str]:
    yield f"contract.{name}"
    yield from _wrapped(CONTRACTS[name], "    ")
    yield from _wrapped(CONTRACT_ADVICE[name], "    ")


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
    for label, part in (("conventions", a.conventions), ("limits", a.limits), ("fixed", a.fixed), ("grade", a.grade)):
        if part:
            yield f"    {label}: {part}"
    yield f"    {a.function.__module__}" if installed(a) else f"    not installed: {install_command(a)}"
