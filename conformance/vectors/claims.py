"""Laws between several calls, taken apart: what is compared with what, and where.

A claim is taken apart at `and`, `all`, `implies` and `or`, down to one comparison of outputs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..language.expressions import Expression
from ..language.scopes import Scope
from ..language.syntax import parse, source_of
from ..mechanisms.mechanism import Law
from ..numerics.truths import truth

Kind = Literal["equal", "at_most", "differ"]
"""How the left side stands to the right one: entry by entry, or as a whole where they are to differ."""


class NotPlain(Exception):  # noqa: N818 - an answer
    """A claim is no comparison of sums of entries."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison of a law."""

    kind: Kind
    left: Expression
    right: Expression
    exact: bool
    """Whether nothing is allowed to rounding."""
    given: tuple[Expression, ...]
    """It is claimed where all of these hold,"""
    unless: tuple[Expression, ...]
    """and none of these; neither of them asks for an output."""

    def where(self, environment: Any) -> Any:
        """The entries of which it speaks, as booleans that broadcast with both sides."""
        found: Any = np.True_
        for condition in self.given:
            found = found & np.asarray(truth(condition(environment)).must)
        for condition in self.unless:
            found = found & ~np.asarray(truth(condition(environment)).can)
        return found


def comparisons(law: Law) -> list[Comparison]:
    """The comparisons of a law, in the order of its text; empty where one of them cannot be taken apart."""
    if law.asking or law.when.asks:
        return []
    try:
        return [*_Apart(law.holds.text, law.holds.scope).taken(parse(law.holds.text), (), ())]
    except NotPlain:
        return []


@dataclass(frozen=True, slots=True)
class _Apart:
    text: str
    scope: Scope

    def part(self, node: ast.expr, *, claim: bool = False) -> Expression:
        return Expression(source_of(self.text, node), self.scope, claim=claim)

    def taken(
        self, node: ast.expr, given: tuple[Expression, ...], unless: tuple[Expression, ...]
    ) -> Iterator[Comparison]:
        match node:
            case ast.BoolOp(op=ast.And(), values=values):
                for value in values:
                    yield from self.taken(value, given, unless)
            case ast.BoolOp(values=values):
                yield from self.either(values, given, unless)
            case ast.Call(func=ast.Name(id="all"), args=[one], keywords=[]):
                yield from self.taken(one, given, unless)
            case ast.Call(func=ast.Name(id="implies"), args=[condition, claim]):
                yield from self.taken(claim, (*given, self.plain(condition)), unless)
            case ast.Call(func=ast.Name(id="identical"), args=[left, right]):
                yield Comparison("equal", self.part(left), self.part(right), True, given, unless)
            case ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=ast.Name(id="identical"), args=[left, right])):
                yield Comparison("differ", self.part(left), self.part(right), True, given, unless)
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                yield Comparison("equal", self.part(left), self.part(right), False, given, unless)
            case ast.Compare(left=left, ops=[ast.LtE()], comparators=[right]):
                yield Comparison("at_most", self.part(left), self.part(right), False, given, unless)
            case ast.Compare(left=left, ops=[ast.GtE()], comparators=[right]):
                yield Comparison("at_most", self.part(right), self.part(left), False, given, unless)
            case _ if self.part(node, claim=True).asks:
                raise NotPlain

    def either(
        self, values: list[ast.expr], given: tuple[Expression, ...], unless: tuple[Expression, ...]
    ) -> Iterator[Comparison]:
        """Of several parts the one that asks for outputs, where the others do not hold."""
        asking = [value for value in values if self.part(value, claim=True).asks]
        if len(asking) > 1:
            raise NotPlain
        others = tuple(self.plain(value) for value in values if value not in asking)
        for value in asking:
            yield from self.taken(value, given, unless + others)

    def plain(self, node: ast.expr) -> Expression:
        """A condition; one that asks for outputs is `NotPlain`."""
        condition = self.part(node, claim=True)
        if condition.asks:
            raise NotPlain
        return condition
