"""What a run must have tested (`--require`): laws, mechanisms, options, a precision, a share of scenarios.

`law:attention.key_shift`, `mechanism:alibi`, `option:causal`, `grade:fp32` or `grade:bfloat16=bf16`, `share:0.95`.
Names are looked up before a run; whether it has met them is read from its lines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from ..errors import UsageError, did_you_mean
from ..mechanisms.library import Library
from ..mechanisms.loader import library as shipped
from ..mechanisms.loader import mechanism_named
from ..numerics.formats import FORMATS, unknown_dtype
from ..numerics.grades import coarser, grade_named
from .cells import every_name
from .coverage import share

Line = Mapping[str, Any]
MET = ("pass", "waived")
"""The verdicts of a law that was tried."""
FORMS = "law:MECHANISM.LAW, mechanism:NAME, option:NAME, grade:NAME, grade:DTYPE=NAME, share:0.95"


# Before a run


def check_requirements(
    required: Sequence[str], operators: Collection[str], shard: str = "", library: Library | None = None
) -> None:
    """Raise `UsageError` for a requirement that means nothing, or that nothing of a run can meet."""
    for text in required:
        kind, colon, name = text.partition(":")
        if not colon or kind not in _CHECKS:
            raise UsageError(f"a requirement must be one of {FORMS}, not {text!r}{did_you_mean(kind, _CHECKS)}")
        of = _CHECKS[kind](name, library or shipped())
        if of and not of & set(operators):
            raise UsageError(f"required {text}: no tested subject has the operator {' or '.join(sorted(of))}")
        if shard and kind == "option":
            raise UsageError(
                f"required {text}: whether an option was tested is known only for a whole run; leave out --shard"
            )


def _check_law(name: str, library: Library) -> set[str]:
    mechanism, _, law = name.partition(".")
    known = every_name(mechanism_named(mechanism, library))
    if law not in known:
        raise UsageError(f"required law:{name}: {mechanism} has no law {law!r}{did_you_mean(law, known)}")
    return {library.operator_of(mechanism)}


def _check_mechanism(name: str, library: Library) -> set[str]:
    return {mechanism_named(name, library).operator}


def _check_option(name: str, library: Library) -> set[str]:
    known = {option: set[str]() for m in library.values() for option in (*m.optional, *m.options)}
    for m in library.values():
        for option in (*m.optional, *m.options):
            known[option].add(m.operator)
    if name not in known:
        raise UsageError(f"required option:{name}: no operator has this option{did_you_mean(name, known)}")
    return known[name]


def _check_grade(name: str, _: Library) -> set[str]:
    dtype, equals, grade = name.rpartition("=")
    grade_named(grade)
    if equals and dtype not in FORMATS:
        raise UsageError(f"required grade:{name}: {unknown_dtype(dtype)}")
    return set()


def _check_share(name: str, _: Library) -> set[str]:
    if not 0 <= _number(name) <= 1:
        raise UsageError(f"required share:{name}: a share must be a number from 0 to 1, as in share:0.95")
    return set()


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0


_CHECKS: dict[str, Callable[[str, Library], set[str]]] = {
    "law": _check_law,
    "mechanism": _check_mechanism,
    "option": _check_option,
    "grade": _check_grade,
    "share": _check_share,
}
"""The kinds of requirements, each with what looks its name up, and gives the operators that it speaks of, if any."""


# After a run


def unmet(
    required: Sequence[str], cells: Sequence[Line], shard: str = "", library: Library | None = None
) -> Iterator[str]:
    """The requirements that the cells of one subject do not meet, each in a sentence."""
    known = library or shipped()
    for text in required:
        kind, _, name = text.partition(":")
        for hole in _HOLES[kind](name, cells, shard, known):
            yield f"required {text}: {hole}"


def _law_holes(name: str, cells: Sequence[Line], shard: str, library: Library) -> Iterator[str]:
    mechanism, _, law = name.partition(".")
    yield from _unmet_cells(mechanism, library, cells, shard, lambda own: [c for c in own if c["law"] == law])


def _mechanism_holes(name: str, cells: Sequence[Line], shard: str, library: Library) -> Iterator[str]:
    def laws(own: Sequence[Line]) -> list[Line]:
        tried = [c for c in own if not c["law"].startswith(("contract.", "convention."))]
        return [c for c in tried if c["verdict"] in MET][:1] or tried[:1]

    yield from _unmet_cells(name, library, cells, shard, laws)


def _unmet_cells(
    name: str, library: Library, cells: Sequence[Line], shard: str, chosen: Callable[[Sequence[Line]], list[Line]]
) -> Iterator[str]:
    """Why what was chosen of the cells of a mechanism does not hold, dtype by dtype."""
    if not any(library.operator_of(name) == cell["operator"] for cell in cells):
        return  # it speaks of another subject
    own = [cell for cell in cells if cell["mechanism"] == name]
    found = chosen(own)
    if not found and not shard:
        yield "was not run"
    for dtype in dict.fromkeys(cell["dtype"] for cell in own):
        for cell in chosen([c for c in own if c["dtype"] == dtype]):
            if cell["verdict"] not in MET:
                says = f" ({cell['says']})" if cell["says"] else ""
                yield f"{cell['verdict'].replace('_', ' ')} in {dtype}{says}"


def _option_holes(name: str, cells: Sequence[Line], shard: str, library: Library) -> Iterator[str]:
    operators = {m.operator for m in library.values() if name in (*m.optional, *m.options)}
    own = [cell for cell in cells if cell["operator"] in operators]
    for dtype in dict.fromkeys(cell["dtype"] for cell in own):
        parts = [c.get("run", {}).get("coverage", {}) for c in own if c["dtype"] == dtype]
        if not any(name in part.get("given", ()) for part in parts):
            yield f"no answered case has it in {dtype}"


def _grade_holes(name: str, cells: Sequence[Line], shard: str, library: Library) -> Iterator[str]:
    of, _, grade = name.rpartition("=")
    used = {(c["dtype"], c.get("run", {}).get("grade", "")) for c in cells}
    for dtype, own in sorted(used):
        if own and of in ("", dtype) and coarser(dtype, grade_named(own), grade_named(grade)):
            yield f"is {own} in {dtype}"


def _share_holes(name: str, cells: Sequence[Line], shard: str, library: Library) -> Iterator[str]:
    least = share(cells)
    if least < _number(name):
        yield f"{least:.3g} of the scenarios of a mechanism are answered"


_HOLES: dict[str, Callable[[str, Sequence[Line], str, Library], Iterator[str]]] = {
    "law": _law_holes,
    "mechanism": _mechanism_holes,
    "option": _option_holes,
    "grade": _grade_holes,
    "share": _share_holes,
}
