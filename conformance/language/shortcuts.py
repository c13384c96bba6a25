"""Conditions that only save work: with nothing to select, both branches are the same."""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Mapping

from .syntax import parse

MOVING = ("any", "all", "permute", "reshape", "transpose", "repeat", "tile", "gather")
"""Functions of booleans that are false where all of them are."""


def is_shortcut(node: ast.IfExp, lines: Mapping[str, str]) -> bool:
    """Whether `x if any(name) else y` is `x` where that line has a true entry, and the same as `y` where it has none.

    `lines` has the texts of the lines that names represent.
    """
    test = node.test
    if not isinstance(test, ast.Call) or not isinstance(test.func, ast.Name) or test.func.id != "any":
        return False
    if len(test.args) != 1 or test.keywords or not isinstance(test.args[0], ast.Name):
        return False
    return _is_one_where_false(test.args[0].id, ast.unparse(node.body), ast.unparse(node.orelse), tuple(lines.items()))


@functools.lru_cache(1024)
def _is_one_where_false(name: str, body: str, orelse: str, lines: tuple[tuple[str, str], ...]) -> bool:
    """Whether two expressions are one and the same where a line is false everywhere."""
    assumed = _Assumed(name, dict(lines))
    parts = (ast.parse(text, mode="eval").body for text in (body, orelse))
    return len({ast.dump(assumed.visit(part)) for part in parts}) == 1


FALSE = ast.Name("false", ast.Load())


class _Assumed(ast.NodeTransformer):
    """Expressions as they are where a line is false everywhere."""

    def __init__(self, name: str, lines: Mapping[str, str]) -> None:
        self.name, self.lines = name, lines
        self.known: dict[str, bool] = {}
        """Which lines are false everywhere as well."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == self.name:
            return FALSE
        if node.id in self.lines:
            if node.id not in self.known:
                self.known[node.id] = _is_false(self.visit(copy.deepcopy(parse(self.lines[node.id]))))
            return FALSE if self.known[node.id] else node
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        values = [self.visit(value) for value in node.values]
        if isinstance(node.op, ast.And):
            return FALSE if any(map(_is_false, values)) else ast.BoolOp(node.op, values)
        values = [value for value in values if not _is_false(value)]
        return FALSE if not values else values[0] if len(values) == 1 else ast.BoolOp(node.op, values)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        test, body, orelse = (self.visit(part) for part in (node.test, node.body, node.orelse))
        if _is_false(test) or ast.dump(body) == ast.dump(orelse):
            return orelse
        return ast.IfExp(test, body, orelse)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        value = self.visit(node.value)
        return FALSE if _is_false(value) else ast.Subscript(value, node.slice, node.ctx)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name, args = getattr(node.func, "id", ""), [self.visit(part) for part in node.args]
        if name in MOVING and args and _is_false(args[0]):
            return FALSE
        if name == "where" and len(args) == 3 and _is_false(args[0]):
            return args[2]
        return ast.Call(node.func, args, [ast.keyword(k.arg, self.visit(k.value)) for k in node.keywords])


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "false"
