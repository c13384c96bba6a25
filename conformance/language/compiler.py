"""The expression language: a safe part of Python's expression grammar, compiled to closures.

`ast` parses, a whitelist of node types decides, and each node becomes a closure over its children; nothing of Python is
executed that is not written here. The same closures run on plain arrays, on error-carrying numbers and on booleans.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import SpecError, did_you_mean
from ..numerics.budget import (
    WHOLE_NUMBER,
    computed,
    computed_both,
)
from ..numerics.operations import BINARY, COMPARE, both, either, is_single, negated, numeric, single_truth
from ..numerics.primitives import unspecified
from .building import FAULTS, Builder
from .calls import called
from .charging import charged
from .functions import FUNCTIONS
from .indexing import charge_picked, end_of, index_of
from .scopes import CONSTANTS


class Compiler(Builder):
    """The closures of the nodes that are part of the language."""

    # Leaves

    def do_Constant(self, node: ast.Constant, depth: int) -> Callable[[Any], Any]:
        x = node.value
        if x is Ellipsis:
            return lambda env: x
        if isinstance(x, bool) or not isinstance(x, int | float):
            raise self.error(node, f"the constant {str(x)[:20]!r} is not part of the language")
        if (type(x) is int and abs(x) > WHOLE_NUMBER) or not math.isfinite(x):
            raise self.error(node, f"the constant {str(x)[:20]} is over the limit of {WHOLE_NUMBER:,}")
        return lambda env: x

    def do_Name(self, node: ast.Name, depth: int) -> Callable[[Any], Any]:
        name = node.id
        if name in CONSTANTS:
            constant = CONSTANTS[name]
            return lambda env: constant
        if name == "unspecified":
            return lambda env: unspecified(env.grade) if env.grade else math.nan
        if name in self.scope.words:
            return lambda env: name
        if name in self.scope.outputs:
            self.asks = True
            self.uses.add(name)
            return lambda env: env.output(name, None)
        if name not in self.scope.names:
            known = {*self.scope.names, *self.scope.outputs, *self.scope.words, *CONSTANTS}
            hint = did_you_mean(name, known) or ("; it is a function" if name in FUNCTIONS else "")
            raise self.error(node, f"unknown name {name!r}{hint}")
        self.uses.add(name)

        def run(env: Any) -> Any:
            try:
                return env[name]
            except FAULTS as error:
                return self.fail(node, error)

        return run

    def do_List(self, node: ast.List, depth: int) -> Callable[[Any], Any]:
        try:
            numbers = np.asarray(ast.literal_eval(node))
        except (ValueError, TypeError, SyntaxError, OverflowError):
            raise self.error(node, "a list holds numbers, in rows of equal length") from None
        if numbers.dtype.kind not in "if":
            raise self.error(node, "a list holds numbers, in rows of equal length")
        if not np.all(np.isfinite(numbers)) or (
            numbers.dtype.kind == "i" and np.any(np.abs(numbers.astype(float)) > WHOLE_NUMBER)
        ):
            raise self.error(node, f"a number of the list is over the limit of {WHOLE_NUMBER:,}")
        return lambda env: numbers

    # Operators

    def do_BinOp(self, node: ast.BinOp, depth: int) -> Callable[[Any], Any]:
        operate = BINARY.get(type(node.op))
        if operate is None:
            raise self.error(node, f"the operator {type(node.op).__name__} is not part of the language")
        left, right = self.build(node.left, depth), self.build(node.right, depth)

        def run(env: Any) -> Any:
            try:
                x, y = computed_both(left, right, env)
                return operate(x, y, env.grade)
            except FAULTS as error:
                return self.fail(node, error)

        return run

    def do_UnaryOp(self, node: ast.UnaryOp, depth: int) -> Callable[[Any], Any]:
        if isinstance(node.op, ast.Not):
            claim = self.truth(node.operand, depth)
            return self.guarded(node, lambda env: negated(charged(claim(env))))
        operand = self.build(node.operand, depth)
        if isinstance(node.op, ast.USub):
            return self.guarded(node, lambda env: -numeric(charged(operand(env))))
        raise self.error(node, f"the operator {type(node.op).__name__} is not part of the language")

    def do_BoolOp(self, node: ast.BoolOp, depth: int) -> Callable[[Any], Any]:
        first, *others = [self.truth(part, depth) for part in node.values]
        join, decisive = (both, False) if isinstance(node.op, ast.And) else (either, True)

        def run(env: Any) -> Any:
            result = first(env)
            for part in others:
                if (result if type(result) is bool else single_truth(result)) is decisive:
                    return result
                result = join(result, part(env))
            return result

        return self.guarded(node, run)

    def do_Compare(self, node: ast.Compare, depth: int) -> Callable[[Any], Any]:
        terms = [self.build(term, depth) for term in (node.left, *node.comparators)]
        for op in node.ops:
            if type(op) not in COMPARE:
                raise self.error(node, f"{type(op).__name__} is not part of the language; write == or !=")
        compare = [COMPARE[type(op)] for op in node.ops]
        if len(compare) == 1:
            return self.comparison(node, terms[0], terms[1], compare[0])

        def run(env: Any) -> Any:
            values = computed(terms, env)
            results = [c(a, b) for c, a, b in zip(compare, values, values[1:], strict=False)]
            joined = results[0]
            for result in results[1:]:
                joined = both(joined, result)
            return joined

        return self.guarded(node, run)

    def comparison(
        self,
        node: ast.Compare,
        left: Callable[[Any], Any],
        right: Callable[[Any], Any],
        compare: Callable[[Any, Any], Any],
    ) -> Callable[[Any], Any]:
        def run(env: Any) -> Any:
            try:
                x, y = computed_both(left, right, env)
                return compare(x, y)
            except FAULTS as error:
                return self.fail(node, error)

        return run

    def do_IfExp(self, node: ast.IfExp, depth: int) -> Callable[[Any], Any]:
        test = self.truth(node.test, depth)
        body, other = self.build(node.body, depth), self.build(node.orelse, depth)

        def run(env: Any) -> Any:
            found = test(env)
            decided = found if type(found) is bool else single_truth(found)
            if decided is None:
                raise SpecError("'if' takes one decided boolean; choose between arrays with where(...)")
            return body(env) if decided else other(env)

        return self.guarded(node, run)

    # Indexing

    def do_Subscript(self, node: ast.Subscript, depth: int) -> Callable[[Any], Any]:
        subject, index = self.build(node.value, depth), self.index(node.slice, depth)

        def run(env: Any) -> Any:
            x = subject(env)
            if x is None or isinstance(x, str):
                raise SpecError("only arrays can be indexed")
            if is_single(x):
                return x
            chosen = index(env)
            charge_picked(x.shape, chosen)
            return x[chosen]

        return self.guarded(node, run)

    def index(self, node: ast.expr, depth: int) -> Callable[[Any], Any]:
        if isinstance(node, ast.Tuple):
            parts = [self.index(part, depth) for part in node.elts]
            return lambda env: tuple(part(env) for part in parts)
        if isinstance(node, ast.Slice):
            ends = [self.build(end, depth) if end else None for end in (node.lower, node.upper, node.step)]
            return lambda env: slice(*(None if end is None else end_of(end(env)) for end in ends))
        plain = self.build(node, depth)
        return lambda env: index_of(plain(env))

    def do_Call(self, node: ast.Call, depth: int) -> Callable[[Any], Any]:
        return called(self, node, depth)
