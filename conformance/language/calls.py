"""Calls in an expression: of functions, draws, outputs of the subject, and other operators."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

from ..errors import did_you_mean
from ..numerics.budget import (
    CALL,
    OPERATION,
    computed,
    spend,
)
from ..numerics.operations import either, negated, numeric, single_truth
from .building import FAULTS, Builder
from .charging import charge_each_of
from .draws import DRAWS, choices
from .functions import FUNCTIONS, RENAMED
from .registry import Function
from .scopes import CallSite, DrawSite
from .syntax import source_of


def called(builder: Builder, node: ast.Call, depth: int) -> Callable[[Any], Any]:
    """The closure of a call of a function, a draw, an output of the subject or another operator."""
    if not isinstance(node.func, ast.Name):
        raise builder.error(node, "only a plain name can be called")
    if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
        raise builder.error(node, "* and ** arguments are not part of the language")
    name = node.func.id
    if name == "implies":
        return _implication(builder, node, depth)
    if name in builder.scope.outputs:
        return _output(builder, node, name, depth)
    if name in builder.scope.operators:
        return _operator(builder, node, name, depth)
    if name in DRAWS:
        return _draw(builder, node, name, depth)
    if name in FUNCTIONS:
        return _function(builder, node, FUNCTIONS[name], depth)
    known = {*FUNCTIONS, *builder.scope.outputs, *builder.scope.operators, *(DRAWS if builder.scope.draws else ())}
    hint = f"; it is now called {RENAMED[name]!r}" if name in RENAMED else did_you_mean(name, known)
    raise builder.error(node, f"unknown function {name!r}{hint}")


def _built(builder: Builder, node: ast.Call, depth: int) -> dict[ast.expr, Callable[[Any], Any]]:
    """The arguments of a call, those with names first."""
    if len({k.arg for k in node.keywords}) != len(node.keywords):
        raise builder.error(node, "an argument is given twice")
    return {x: builder.build(x, depth) for x in (*(k.value for k in node.keywords), *node.args)}


def arguments(builder: Builder, node: ast.Call, depth: int) -> tuple[list[Any], dict[str, Any]]:
    built = _built(builder, node, depth)
    return [built[x] for x in node.args], {str(k.arg): built[k.value] for k in node.keywords}


def _bind(builder: Builder, node: ast.Call, function: Function) -> inspect.BoundArguments:
    try:
        return function.signature.bind(*node.args, **{str(k.arg): k.value for k in node.keywords})
    except TypeError as error:
        raise builder.error(node, f"{function.usage}: {error}") from None


def _function(builder: Builder, node: ast.Call, function: Function, depth: int) -> Callable[[Any], Any]:
    bound = _bind(builder, node, function)
    built = _built(builder, node, depth)
    args, keywords = [built[x] for x in bound.args], {name: built[x] for name, x in bound.kwargs.items()}
    call = function.call
    graded, required, work = function.graded, 0 if function.graded is None else function.required, function.work
    contextual, only = function.contextual, args[0] if len(args) == 1 else None

    def run(env: Any) -> Any:
        try:
            values = [only(env)] if only is not None else computed(args, env)
            charge_each_of(values, work)
            if graded is not None:
                values[:required] = [graded(numeric(x), env.grade) for x in values[:required]]
            if contextual:
                values.insert(0, env)
            return call(*values, **{k: f(env) for k, f in keywords.items()}) if keywords else call(*values)
        except FAULTS as error:
            return builder.fail(node, error)

    return run


def _draw(builder: Builder, node: ast.Call, name: str, depth: int) -> Callable[[Any], Any]:
    if not builder.scope.draws:
        raise builder.error(node, f"{name} draws, which is allowed only where cases are drawn")
    function, ordinal = DRAWS[name], len(builder.draws)
    _bind(builder, node, function)
    if (name == "choice" and not node.args) or (name == "maybe" and node.keywords):
        raise builder.error(node, f"write {function.usage}")
    builder.draws.append(DrawSite(name, ordinal, choices(name, node)))
    args, keywords = arguments(builder, node, depth)
    call = function.call
    return builder.guarded(
        node,
        lambda env: call(env.source(ordinal), *computed(args, env), **{k: f(env) for k, f in keywords.items()}),
    )


def _output(builder: Builder, node: ast.Call, name: str, depth: int) -> Callable[[Any], Any]:
    if node.args:
        raise builder.error(node, f"write {name}(input = value, ...)")
    for keyword in node.keywords:
        if keyword.arg not in builder.scope.replaceable:
            hint = did_you_mean(str(keyword.arg), builder.scope.replaceable)
            raise builder.error(keyword.value, f"{name} has no input or option {keyword.arg!r}{hint}")
    outer, builder.uses = builder.uses, set()
    _, replaced = arguments(builder, node, depth)
    site = CallSite(source_of(builder.text, node), replaced, frozenset(builder.uses))
    builder.uses = outer | builder.uses | {name}
    builder.asks = True
    return lambda env: env.output(name, site)


def _operator(builder: Builder, node: ast.Call, name: str, depth: int) -> Callable[[Any], Any]:
    takes = builder.scope.operators[name]
    if len(node.args) > len(takes.positional):
        raise builder.error(node, f"{name} takes {len(takes.positional)} inputs by position")
    for keyword in node.keywords:
        if keyword.arg not in takes.named:
            hint = did_you_mean(str(keyword.arg), takes.named)
            raise builder.error(keyword.value, f"{name} has no input or option {keyword.arg!r}{hint}")
    args, given = arguments(builder, node, depth)
    given = {**dict(zip(takes.positional, args, strict=False)), **given}
    builder.calls.add(name)
    work = CALL + OPERATION * len(takes.named)

    def run(env: Any) -> Any:
        spend(work)
        return env.operator(name, dict(zip(given, computed(given.values(), env), strict=True)))

    return builder.guarded(node, run)


def _implication(builder: Builder, node: ast.Call, depth: int) -> Callable[[Any], Any]:
    if len(node.args) != 2 or node.keywords:
        raise builder.error(node, "write implies(condition, claim)")
    condition, claim = builder.truth(node.args[0], depth), builder.truth(node.args[1], depth)

    def run(env: Any) -> Any:
        given = condition(env)
        return True if single_truth(given) is False else either(negated(given), claim(env))

    return builder.guarded(node, run)
