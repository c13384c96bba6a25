"""The lists of `attnspec list`, made from what is tested and from nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from attnspec.adapters import Adapter

from ..cases.applicability import undeclared
from ..judging.contracts import CONTRACTS, ONCE
from ..language.draws import DRAWS
from ..language.functions import FUNCTIONS
from ..mechanisms.library import Library
from ..mechanisms.loader import library
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.signatures import signatures
from ..reporting.typesetting import expression, prose
from ..subjects.claims import claims_of
from ..subjects.registered import faults, install_command, installed, shipped
from ..subjects.targets import operators


def listed(what: str, known: Library | None = None) -> Iterator[str]:
    """The lines of a list, of the mechanisms that are known or of the shipped ones."""
    lists: dict[str, Callable[[Library], Iterator[str]]] = {
        "mechanisms": _mechanisms,
        "laws": _laws,
        "operators": _operators,
        "adapters": _adapters,
        "mistakes": _mistakes,
        "conventions": _conventions,
        "functions": _functions,
        "signatures": _signatures,
    }
    yield from lists[what](known or library())


def _mechanisms(known: Library) -> Iterator[str]:
    """From the texts of the files: no expression is read for what a list says."""
    width = _width(known)
    yield f"{'mechanism':<{width}}{'operator':<{width}}{'laws':>5}{'mistakes':>10}{'scenarios':>11}   title"
    for file in filter(None, map(known.file_of, known)):
        counts = f"{file.count('laws') + 1:>5}{file.count('mistakes'):>10}{file.count('scenarios'):>11}"
        yield f"{file.name:<{width}}{file.operator:<{width}}{counts}   {file.title}"


def _width(texts: Iterable[str]) -> int:
    """The width of a column that holds the texts and what parts it from the next."""
    return max(map(len, texts), default=0) + 2


def _laws(known: Library) -> Iterator[str]:
    for m in known.values():
        yield f"{m.name}.definition   Every output agrees with the definition."
        for law in m.laws.values():
            yield _item(m.address(law.name), law.says, law.level)
        for reject in m.rejects.values():
            yield _item(m.address(reject.name), f"Refused: {reject.says}", reject.level)
    for name, says in {**CONTRACTS, **ONCE}.items():
        yield _item(f"contract.{name}", says, "must")


def _item(address: str, says: str, level: str) -> str:
    return f"{address}   {says}" + (f"   ({level.replace('_', ' ')})" if level != "must" else "")


def _operators(known: Library) -> Iterator[str]:
    for m in operators(known).values():
        yield from signature(m)
        yield ""


def _adapters(_: Library) -> Iterator[str]:
    found = shipped()
    name, operator = _width(a.name for a in found), _width(a.operator for a in found)
    dtypes = _width(" ".join(a.dtypes) for a in found)
    for a in found:
        where = "" if installed(a) else f"   not installed: {install_command(a)}"
        yield f"{a.name:<{name}}{a.operator:<{operator}}{' '.join(a.dtypes):<{dtypes}}{a.summary}{where}"


def _mistakes(known: Library) -> Iterator[str]:
    for m in known.values():
        for mistake in m.mistakes.values():
            yield _mistaken(m.address(mistake.name), mistake.says, mistake.seen)
    for fault in faults().values():
        yield _mistaken(fault.name, fault.summary, fault.seen)


def _mistaken(address: str, says: str, seen: str) -> str:
    return f"{address}   {says}" + (f"   seen: {seen}" if seen else "")


def _conventions(known: Library) -> Iterator[str]:
    for m in operators(known).values():
        for convention, words in m.conventions.items():
            yield f"{m.name}: {convention}"
            for word, says in words.items():
                yield f"    {word:<16}{says}"


def _functions(_: Library) -> Iterator[str]:
    for title, functions in (("functions", FUNCTIONS), ("draws", DRAWS)):
        yield f"{title}:"
        for function in functions.values():
            yield f"    {function.usage:<34}{function.says}"


def _signatures(_: Library) -> Iterator[str]:
    for one in signatures().values():
        layout = f" in {one.layout}" if one.layout else ""
        yield f"{one.name}: {one.operator}{layout}" + (f" (also {', '.join(one.also)})" if one.also else "")
        yield from prose(", ".join(one.mapped), "    ")
        left = [name for name in one.parameters if name not in one.mapped]
        yield from prose(f"left at their default: {', '.join(left)}", "    ") if left else ()


def subjects(m: Mechanism, offered: Iterable[Adapter] | None = None) -> list[Adapter]:
    """The adapters that claim what the mechanism is about, of those offered or of all that are shipped."""
    own = (a for a in (shipped(m.operator) if offered is None else offered) if a.operator == m.operator)
    return [a for a in own if undeclared(m, claims_of(a, m, True)) is None]


def signature(m: Mechanism) -> Iterator[str]:
    """An operator as an adapter has to write it: positional inputs, then what may be claimed by keyword."""
    inputs = [f"{name} {_shape(m, name)}".strip() for name in m.required]
    keywords = [f"{n} {_shape(m, n)}".strip() for n in m.optional] + [f"{n}={_default(m, n)}" for n in m.options]
    call = ", ".join([*inputs, *(["*"] if keywords else []), *keywords])
    yield from expression(f"{m.name}({call})", rest=" " * 8)
    if len(m.outputs) == 1:
        yield f"    returns {m.outputs[0]}"
    else:
        outputs = ", ".join(m.outputs)
        yield from prose(
            f"returns {outputs}; the first one always, as one array, a tuple in this order, or a dict", "    "
        )
    if m.layouts:
        yield from prose(f"layouts: {', '.join(m.layouts)}", "    ")
    for convention, words in m.conventions.items():
        yield f"    convention {convention}: {', '.join(words)}"


def _shape(m: Mechanism, name: str) -> str:
    axes = m.shapes.get(name)
    return f"[{', '.join(axis or '_' for axis in axes)}]" if axes else "[...]"


def _default(m: Mechanism, name: str) -> str:
    return _shown(m.defaults[name]) if name in m.defaults else "required"


def _shown(x: object) -> str:
    return {True: "true", False: "false", None: "none"}.get(x, str(x)) if isinstance(x, bool | None) else str(x)
