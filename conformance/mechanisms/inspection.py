"""Small readings of expressions, without evaluating them: defaults, shapes, printed digits, cycles."""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ..errors import Place, SpecError
from ..language.expressions import Expression
from ..language.scopes import CONSTANTS
from ..language.syntax import parse, source_of
from ..numerics.budget import REFERENCES
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
        digits = source_of(text, node).replace(" ", "")
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


def find_cycle(
    uses: Mapping[str, Collection[str]], starts: Iterable[str] | None = None, spent: list[int] | None = None
) -> list[str] | None:
    """A chain of names that comes back to its first, or None; from the `starts` alone, if there are any.

    The first item of `spent` counts what is followed; over the limit that is a `SpecError`.
    """
    done: set[str] = set()
    spent = [0] if spent is None else spent
    wanted = uses.keys() if starts is None else set(starts)
    for start in (name for name in uses if name in wanted):
        trail: dict[str, Iterator[str]] = {}  # the names on the way, each with what is still to be followed from it
        name: str | None = start
        while name is not None or trail:
            if name in trail:
                chain = list(trail)
                return [*chain[chain.index(name) :], name]
            if name is not None and name not in done and name in uses:
                spent[0] += len(uses[name])
                if spent[0] > REFERENCES:
                    raise SpecError(f"names use one another more than {REFERENCES:,} times; no cycle can be ruled out")
                trail[name] = iter(sorted(uses[name]))
            last = next(reversed(trail), None)
            name = next(trail[last], None) if last is not None else None
            if last is not None and name is None:
                trail.pop(last)
                done.add(last)
    return None
