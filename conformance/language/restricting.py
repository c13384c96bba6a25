"""Lines for chosen positions of some axes: the same text, compiled with replaced parts.

The environment has the positions of an axis under `@axis`, beside its size under the name that it has anyway.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import Place, SpecError
from ..numerics.numbers import Number, common
from ..numerics.operations import both, either
from ..numerics.products import quick
from ..numerics.truths import Truth
from .calls import arguments
from .compiler import Compiler
from .expressions import Expression
from .labels import Change, Plan, key_of
from .registry import along, rearranged, shape_of, whole
from .scopes import Scope

UNLIKE = "is restricted to what"
"""What is said of copies whose sources are not there."""


def held(axis: str) -> str:
    """Under which name the positions of an axis are found."""
    return f"@{axis}"


class RestrictedExpression(Expression):
    """An expression as its plan has it."""

    __slots__ = ("plan",)

    def __init__(self, line: Expression, plan: Plan) -> None:
        self.plan = plan
        super().__init__(line.text, line.scope, line.place, claim=line.claim, reads=line.reads)

    def _compiled(self) -> Compiler:
        compiler = _Restricting(self.text, self.scope, self.place, self.claim, self.plan)
        self._run = compiler.run
        return compiler


class _Restricting(Compiler):
    def __init__(self, text: str, scope: Scope, place: Place | None, claim: bool, plan: Plan) -> None:
        self.plan = plan
        super().__init__(text, scope, place, claim)

    def build(self, node: ast.AST, depth: int) -> Callable[[Any], Any]:
        change = self.plan.changes.get(key_of(node)) if isinstance(node, ast.expr) else None
        if change is None:
            return super().build(node, depth)
        return self.guarded(node, getattr(self, f"as_{change.how}")(node, depth, change))

    def truth(self, node: ast.expr, depth: int) -> Callable[[Any], Any]:
        change = self.plan.changes.get(key_of(node))
        return self.build(node, depth) if change is not None and change.how == "fault" else super().truth(node, depth)

    def as_positions(self, node: ast.Call, depth: int, change: Change) -> Callable[[Any], Any]:
        return lambda env: env[held(change.name)]

    def as_count(self, node: ast.expr, depth: int, change: Change) -> Callable[[Any], Any]:
        return lambda env: len(env[held(change.name)])

    def as_size(self, node: ast.Call, depth: int, change: Change) -> Callable[[Any], Any]:
        return lambda env: env[change.name]

    def as_fault(self, node: ast.expr, depth: int, change: Change) -> Callable[[Any], Any]:
        def fault(env: Any) -> Any:
            raise SpecError(change.name)

        return fault

    def as_lazy(self, node: ast.BoolOp, depth: int, change: Change) -> Callable[[Any], Any]:
        """Parts up to the one after which nothing is left open anywhere."""
        parts = [self.truth(part, depth) for part in node.values]
        join, decisive = (both, False) if isinstance(node.op, ast.And) else (either, True)

        def run(env: Any) -> Any:
            result = parts[0](env)
            for part in parts[1:]:
                if not isinstance(result, Truth) and np.all(np.asarray(result) == decisive):
                    return result
                result = join(result, part(env))
            return result

        return run

    def as_copied(self, node: ast.Call, depth: int, change: Change) -> Callable[[Any], Any]:
        """`repeat` or `tile`, of which only the copies at chosen places are made."""
        args, named = arguments(self, node, depth)
        times, axis = args[1], named.get("axis", args[2] if len(args) > 2 else None)

        def run(env: Any) -> Any:
            x, n = args[0](env), whole(times(env))
            at = along(None if axis is None else axis(env))
            there = env[held(change.name)]
            size = int(env[change.source]) if change.source else shape_of(x)[at]
            wanted = there % size if change.tiled else there // max(n, 1)
            try:
                known = env[held(change.source)]
            except SpecError:
                known = np.arange(size)
            places = np.searchsorted(known, wanted)
            if len(known) == 0 or np.any(known[np.minimum(places, len(known) - 1)] != wanted):
                raise SpecError(f"{change.name} {UNLIKE} {change.source} is not")
            x = common(x) if isinstance(x, Number) and n != 1 else x
            return rearranged(x, lambda part: _taken(part, places, at))

        return run


def _taken(x: Any, places: Any, axis: int) -> Any:
    """Entries at places of an axis; where what is computed merely chooses, copies of one place are views of it."""
    if not quick() or not len(places) or np.any(places != places[0]):
        return np.take(x, places, axis)
    one = np.take(x, places[:1], axis) if x.shape[axis] > 1 else x
    shape = list(one.shape)
    shape[axis] = len(places)
    return np.broadcast_to(one, shape)
