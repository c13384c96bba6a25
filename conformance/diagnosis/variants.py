"""Related known mistakes: of an operator that the definition calls, of another operator, or with another number.

A mistake of an operator that a definition calls is tried there: a model may have what is known of its blocks.
A mistake of one operator is tried wherever its lines exist, as softmax over another axis or a window that is one too
wide may happen in each of them.
Where a mistake is made of tiles or limits, it is tried with other powers of two.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from ..language.expressions import Expression
from ..language.syntax import parse
from ..mechanisms.definition import called_by
from ..mechanisms.library import uncollected
from ..mechanisms.mechanism import Mechanism, Mistake
from .candidates import Candidate
from .clock import loading

NUMBERS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""What tiles, vectors and limits have."""


class Variants(dict[tuple[str, str], list[Candidate]]):
    """The variants of each mechanism of a library."""


def varied(m: Mechanism) -> list[Candidate]:
    """The mistakes of what it calls, those of other operators that can be made here, and all with other numbers."""
    known = m.kept(Variants)
    if (m.name, m.digest) not in known and m.library is not None:
        with loading(), uncollected():
            for name in m.library:
                _ = m.library[name]
    if (m.name, m.digest) not in known:
        own = [Candidate(one.address(x.name), x.says, x.change) for one in m.kin for x in one.mistakes.values()]
        near = [*_inside(m), *_of_kin(m, {_key(candidate.changes) for candidate in own})]
        known[m.name, m.digest] = [*near, *(other for one in (*own, *near) for other in _renumbered(one))]
    return known[m.name, m.digest]


def from_elsewhere(m: Mechanism, names: Collection[str]) -> list[Candidate]:
    """The mistakes of some names, without a mechanism, that are known of what it calls or of other operators."""
    return [*_inside(m, names), *_of_kin(m, set(), names)]


def is_foreign(m: Mechanism, name: str) -> bool:
    """Whether a mistake of that name is of an operator that is not its own, nor called by it or differentiated."""
    owner = name.partition(".")[0]
    own = {m.operator, m.gradient_of, *called_by(m)}
    return m.library is not None and owner in m.library and m.library[owner].operator not in own


def _inside(m: Mechanism, names: Collection[str] | None = None) -> Iterator[Candidate]:
    """The mistakes of the operators that its definition calls, and of those that these call."""
    for name in sorted(called_by(m)):
        for one in () if m.beside(name).by_reference else m.beside(name).kin:
            for mistake in _called(one, names):
                changes = {f"{name}.{line}": change for line, change in mistake.change.items()}
                yield Candidate(one.address(mistake.name), mistake.says, changes)


def _called(m: Mechanism, names: Collection[str] | None) -> list[Mistake]:
    """The mistakes of a mechanism, or those of some names."""
    return [mistake for name, mistake in m.mistakes.items() if names is None or name in names]


def _of_kin(
    m: Mechanism, seen: set[frozenset[tuple[str, str]]], names: Collection[str] | None = None
) -> Iterator[Candidate]:
    """The mistakes of other operators all of whose lines there are here, each change once."""
    if m.library is None or m.by_reference:
        return
    scope = next(iter(m.definition.values())).scope
    known = {*m.sizes, *m.inputs, *m.options, *m.conventions, *m.definition}
    for other in (m.library[name] for name in m.library) if names is None else m.library.naming(*names):
        if other.operator == m.operator or other.by_reference:
            continue
        for mistake in _called(other, names):
            if not mistake.change.keys() <= m.definition.keys() | set(m.options):
                continue
            if not all(x.uses <= known for x in mistake.change.values()):
                continue
            change = {line: Expression(x.text, scope, reads=x.reads) for line, x in mistake.change.items()}
            if _key(change) not in seen:
                seen.add(_key(change))
                yield Candidate(other.address(mistake.name), mistake.says, change)


def _renumbered(candidate: Candidate) -> Iterator[Candidate]:
    """A mistake that has one number of tiles or limits, with each of the others."""
    found = {n for x in candidate.changes.values() for n in _numbers(x.text)}
    if len(found) != 1:
        return
    (number,) = found
    for other in NUMBERS:
        if other != number:
            changes = {
                line: Expression(_with(x.text, number, other), x.scope, reads=x.reads)
                for line, x in candidate.changes.items()
            }
            yield replace(candidate, name=f"{candidate.name} with {other} for {number}", changes=changes)


def _numbers(text: str) -> set[int]:
    found = (node.value for node in ast.walk(parse(text)) if isinstance(node, ast.Constant))
    return {n for n in found if type(n) is int and n in NUMBERS and n > 4}


def _with(text: str, number: int, other: int) -> str:
    """A text in which one number stands for another."""
    places = [node for node in ast.walk(parse(text)) if isinstance(node, ast.Constant) and node.value == number]
    for node in sorted(places, key=lambda node: -node.col_offset):
        text = text[: node.col_offset] + str(other) + text[node.end_col_offset :]
    return text


def _key(changes: Mapping[str, Expression]) -> frozenset[tuple[str, str]]:
    return frozenset((line, expression.text) for line, expression in changes.items())
