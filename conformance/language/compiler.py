"""The expression language: a safe part of Python's expression grammar, compiled to closures.

`ast` parses, a whitelist of node types decides, and each node becomes a closure over its children; nothing of Python is
executed that is not written here. The same closures run on plain arrays, on error-carrying numbers and on booleans.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ..errors import Place, SpecError, did_you_mean
from ..numerics.budget import (
    CALL,
    CARRIED,
    NESTING,
    OPERATION,
    SINGLE,
    WHOLE_NUMBER,
    charge,
    charge_each,
    computed,
    computed_both,
    spend,
)
from ..numerics.numbers import Number
from ..numerics.operations import BINARY, COMPARE, both, claimed, either, is_single, negated, numeric, single_truth
from ..numerics.primitives import unspecified
from ..numerics.truths import Truth
from .draws import DRAWS, choices
from .functions import FUNCTIONS, RENAMED
from .indexing import charge_picked, end_of, index_of
from .registry import Function
from .scopes import CONSTANTS, CallSite, DrawSite, Scope
from .syntax import at, parse, shown, source_of

FAULTS = (
    SpecError,
    TypeError,
    ValueError,
    IndexError,
    OverflowError,
    AttributeError,
    KeyError,
    MemoryError,
    ZeroDivisionError,
    RuntimeError,  # a recursion without end, or more axes than a function of NumPy takes
)
"""What is raised when an expression asks for the impossible: by the language, or by Python and NumPy."""

BOOLEANS = frozenset((Truth, bool, np.ndarray, np.bool_))
"""Types of what may be asked for its truth."""


class Compiler:
    """One expression on its way to a closure; what it learns of the text on that way is kept beside it."""

    def __init__(self, text: str, scope: Scope, place: Place | None, claim: bool) -> None:
        self.text, self.scope, self.place = text, scope, place
        self.uses: set[str] = set()
        self.calls: set[str] = set()
        self.draws: list[DrawSite] = []
        self.asks = False
        self.run = self.truth(parse(text, place), 0) if claim else self.build(parse(text, place), 0)

    def error(self, node: ast.AST, message: str) -> SpecError:
        column = getattr(node, "col_offset", 0)
        return SpecError(message + shown(self.text, column), at(self.place, column))

    def build(self, node: ast.AST, depth: int) -> Callable[[Any], Any]:
        if depth > NESTING:
            raise self.error(node, "nested too deeply")
        make = getattr(self, "do_" + type(node).__name__, None)
        if make is None:
            raise self.error(node, f"{type(node).__name__} is not part of the language")
        return make(node, depth + 1)

    def fail(self, node: ast.AST, error: Exception) -> NoReturn:
        """Raise what went wrong in a node, put at its place in the text."""
        if not isinstance(error, SpecError):
            raise self.error(node, f"{type(error).__name__}: {error}"[:200]) from error
        if error.place is None and "\n" not in error.message:
            located = self.error(node, error.message)
            raise type(error)(located.message, located.place) from None
        raise error

    def guarded(self, node: ast.AST, run: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """`run`, with what goes wrong in it put at its place; the nodes met most see to it themselves, a call less."""

        def guarded(env: Any) -> Any:
            try:
                return run(env)
            except FAULTS as error:
                return self.fail(node, error)

        return guarded

    def truth(self, node: ast.expr, depth: int) -> Callable[[Any], Any]:
        """A part that is asked for its truth: there a word alone says that its convention is at that word."""
        if isinstance(node, ast.Name) and node.id in self.scope.words:
            word, convention = node.id, self.scope.words[node.id]
            return lambda env: env.word(convention) == word
        asked = self.build(node, depth)

        def run(env: Any) -> Any:
            try:
                x = asked(env)
                return x if type(x) in BOOLEANS else claimed(x)
            except FAULTS as error:
                return self.fail(node, error)

        return run

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
            return self.guarded(node, lambda env: negated(_charged(claim(env))))
        operand = self.build(node.operand, depth)
        if isinstance(node.op, ast.USub):
            return self.guarded(node, lambda env: -numeric(_charged(operand(env))))
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

    # Calls

    def do_Call(self, node: ast.Call, depth: int) -> Callable[[Any], Any]:
        if not isinstance(node.func, ast.Name):
            raise self.error(node, "only a plain name can be called")
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            raise self.error(node, "* and ** arguments are not part of the language")
        name = node.func.id
        if name == "implies":
            return self.implication(node, depth)
        if name in self.scope.outputs:
            return self.output(node, name, depth)
        if name in self.scope.operators:
            return self.operator(node, name, depth)
        if name in DRAWS:
            return self.draw(node, name, depth)
        if name in FUNCTIONS:
            return self.function(node, FUNCTIONS[name], depth)
        known = {*FUNCTIONS, *self.scope.outputs, *self.scope.operators, *(DRAWS if self.scope.draws else ())}
        hint = f"; it is now called {RENAMED[name]!r}" if name in RENAMED else did_you_mean(name, known)
        raise self.error(node, f"unknown function {name!r}{hint}")

    def built(self, node: ast.Call, depth: int) -> dict[ast.expr, Callable[[Any], Any]]:
        """The arguments of a call, those with names first."""
        if len({k.arg for k in node.keywords}) != len(node.keywords):
            raise self.error(node, "an argument is given twice")
        return {x: self.build(x, depth) for x in (*(k.value for k in node.keywords), *node.args)}

    def arguments(self, node: ast.Call, depth: int) -> tuple[list[Any], dict[str, Any]]:
        built = self.built(node, depth)
        return [built[x] for x in node.args], {str(k.arg): built[k.value] for k in node.keywords}

    def bind(self, node: ast.Call, function: Function) -> inspect.BoundArguments:
        try:
            return function.signature.bind(*node.args, **{str(k.arg): k.value for k in node.keywords})
        except TypeError as error:
            raise self.error(node, f"{function.usage}: {error}") from None

    def function(self, node: ast.Call, function: Function, depth: int) -> Callable[[Any], Any]:
        bound = self.bind(node, function)
        built = self.built(node, depth)
        args, keywords = [built[x] for x in bound.args], {name: built[x] for name, x in bound.kwargs.items()}
        call = function.call
        graded, required, work = function.graded, 0 if function.graded is None else function.required, function.work
        contextual, only = function.contextual, args[0] if len(args) == 1 else None

        def run(env: Any) -> Any:
            try:
                values = [only(env)] if only is not None else computed(args, env)
                _charge_each(values, work)
                if graded is not None:
                    values[:required] = [graded(numeric(x), env.grade) for x in values[:required]]
                if contextual:
                    values.insert(0, env)
                return call(*values, **{k: f(env) for k, f in keywords.items()}) if keywords else call(*values)
            except FAULTS as error:
                return self.fail(node, error)

        return run

    def draw(self, node: ast.Call, name: str, depth: int) -> Callable[[Any], Any]:
        if not self.scope.draws:
            raise self.error(node, f"{name} draws, which is allowed only where cases are drawn")
        function, ordinal = DRAWS[name], len(self.draws)
        self.bind(node, function)
        if (name == "choice" and not node.args) or (name == "maybe" and node.keywords):
            raise self.error(node, f"write {function.usage}")
        self.draws.append(DrawSite(name, ordinal, choices(name, node)))
        args, keywords = self.arguments(node, depth)
        call = function.call
        return self.guarded(
            node,
            lambda env: call(env.source(ordinal), *computed(args, env), **{k: f(env) for k, f in keywords.items()}),
        )

    def output(self, node: ast.Call, name: str, depth: int) -> Callable[[Any], Any]:
        if node.args:
            raise self.error(node, f"write {name}(input = value, ...)")
        for keyword in node.keywords:
            if keyword.arg not in self.scope.replaceable:
                hint = did_you_mean(str(keyword.arg), self.scope.replaceable)
                raise self.error(keyword.value, f"{name} has no input or option {keyword.arg!r}{hint}")
        outer, self.uses = self.uses, set()
        _, replaced = self.arguments(node, depth)
        site = CallSite(source_of(self.text, node), replaced, frozenset(self.uses))
        self.uses = outer | self.uses | {name}
        self.asks = True
        return lambda env: env.output(name, site)

    def operator(self, node: ast.Call, name: str, depth: int) -> Callable[[Any], Any]:
        takes = self.scope.operators[name]
        if len(node.args) > len(takes.positional):
            raise self.error(node, f"{name} takes {len(takes.positional)} inputs by position")
        for keyword in node.keywords:
            if keyword.arg not in takes.named:
                hint = did_you_mean(str(keyword.arg), takes.named)
                raise self.error(keyword.value, f"{name} has no input or option {keyword.arg!r}{hint}")
        args, given = self.arguments(node, depth)
        given = {**dict(zip(takes.positional, args, strict=False)), **given}
        self.calls.add(name)
        work = CALL + OPERATION * len(takes.named)

        def run(env: Any) -> Any:
            spend(work)
            return env.operator(name, dict(zip(given, computed(given.values(), env), strict=True)))

        return self.guarded(node, run)

    def implication(self, node: ast.Call, depth: int) -> Callable[[Any], Any]:
        if len(node.args) != 2 or node.keywords:
            raise self.error(node, "write implies(condition, claim)")
        condition, claim = self.truth(node.args[0], depth), self.truth(node.args[1], depth)

        def run(env: Any) -> Any:
            given = condition(env)
            return True if single_truth(given) is False else either(negated(given), claim(env))

        return self.guarded(node, run)


def _charge(x: Any, work: int = 1) -> None:
    """Account for an argument: what a function makes of it is at most as large, or charged by itself."""
    kind = type(x)
    if kind is np.ndarray:
        charge(x.size, work)
    elif kind is Number:
        charge(x.value.size, work * CARRIED)
    else:
        charge(math.prod(getattr(x, "shape", ())), work)


def _charge_each(values: Sequence[Any], work: int) -> None:
    """Account for all arguments of a function, as by `_charge`."""
    sizes = []
    for x in values:
        kind = type(x)
        if kind is np.ndarray:
            sizes.append((x.size, work))
        elif kind in SINGLE:
            sizes.append((1, work))
        elif kind is Number:
            sizes.append((x.value.size, work * CARRIED))
        else:
            sizes.append((math.prod(getattr(x, "shape", ())), work))
    charge_each(sizes)


def _charged(x: Any) -> Any:
    """The operand of a sign or of `not`, which is accounted for."""
    _charge(x)
    return x
