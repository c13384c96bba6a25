"""Small readings of expressions, without evaluating them: defaults, shapes, printed digits, circles."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .errors import Place, SpecError
from .language import CONSTANTS, Expression, parse
from .mechanism import Printed

NO_DEFAULT = object()


def default_of(expression: Expression, words: Iterable[str]) -> Any:
    """What is drawn at the first choice of every draw, or `NO_DEFAULT` where that is not a plain value."""
    tree = parse(expression.text)
    while isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in ("choice", "maybe"):
        tree = tree.args[tree.func.id == "maybe"]
    if isinstance(tree, ast.Name):
        return tree.id if tree.id in words else CONSTANTS.get(tree.id, NO_DEFAULT)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub) and isinstance(tree.operand, ast.Name):
        constant = CONSTANTS.get(tree.operand.id)
        return -constant if isinstance(constant, float) else NO_DEFAULT
    try:
        return ast.literal_eval(tree)
    except (ValueError, TypeError):
        return NO_DEFAULT


def fallback(expression: Expression) -> ast.expr | None:
    """The second argument of an outermost `maybe`."""
    tree = parse(expression.text)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "maybe":
        return tree.args[1]
    return None


def shape_names(expression: Expression, sizes: Iterable[str]) -> tuple[str | None, ...]:
    """The sizes in the shape of the array that an expression draws; None where an axis is something else.

    An array whose shape is chosen by `if` fixes no size.
    """
    names, tree = set(sizes), parse(expression.text)
    for node in () if isinstance(tree, ast.IfExp) else ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            skipped = {"normal": 0, "flags": 0, "indices": 1, "partition": 1}.get(node.func.id)
            if skipped is not None:
                axes = node.args[skipped:]
                return tuple(a.id if isinstance(a, ast.Name) and a.id in names else None for a in axes)
    return ()


def asking(given: Mapping[str, Expression]) -> frozenset[str]:
    """The givens that read an output, themselves or through others."""
    found = {name for name, expression in given.items() if expression.asks}
    while more := {name for name, expression in given.items() if expression.uses & found} - found:
        found |= more
    return frozenset(found)


def printed(text: str, place: Place | None) -> Printed:
    """Printed digits: numbers, in lists of equal length, each right to half a unit of its last digit."""

    def walk(node: ast.expr) -> Any:
        if isinstance(node, ast.List):
            if not node.elts:
                raise SpecError("an empty list prints no number", place)
            return [walk(item) for item in node.elts]
        digits = (ast.get_source_segment(text, node) or "").replace(" ", "")
        try:
            number = float(digits.replace("infinity", "inf"))
        except ValueError:
            raise SpecError(f"{digits!r} is not a printed number", place) from None
        mantissa, _, exponent = digits.lower().partition("e")
        decimals = len(mantissa.partition(".")[2])
        exact = not math.isfinite(number) or "." not in mantissa
        return number, 0.0 if exact else float(f"0.5e{int(exponent or 0) - decimals}")

    try:
        pairs = np.asarray(walk(parse(text, place)))
    except ValueError:
        raise SpecError("printed numbers stand in rows of equal length", place) from None
    return Printed(pairs[..., 0], pairs[..., 1])


def find_circle(uses: Mapping[str, Iterable[str]]) -> list[str] | None:
    """A chain of names that comes back to its first, or None."""
    state: dict[str, int] = {}

    def visit(name: str, trail: list[str]) -> list[str] | None:
        if name not in uses or state.get(name) == 1:
            return None
        if name in trail:
            return [*trail[trail.index(name) :], name]
        for used in sorted(uses[name]):
            found = visit(used, [*trail, name])
            if found:
                return found
        state[name] = 1
        return None

    return next((found for name in uses if (found := visit(name, []))), None)
