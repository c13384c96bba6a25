"""Mutants of a kernel's source: small edits, one at a time, as people make them by mistake."""

from __future__ import annotations

import ast
import copy
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..data.texts import safe

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mod,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
NAMED = {
    "float64": "float32",
    "float32": "float16",
    "max": "min",
    "maximum": "minimum",
    "amax": "amin",
    "tril": "triu",
    "triu": "tril",
    "zeros": "ones",
    "zeros_like": "ones_like",
    "repeat": "tile",
    "repeat_interleave": "repeat",
}
"""What one name is taken for, those of dtypes in which is accumulated among them."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of a source: its line, what it does in a word, and the whole text after it."""

    line: int
    kind: str
    text: str

    def difference(self, source: str, name: str) -> list[str]:
        """The lines that change, as a unified difference."""
        lines = difflib.unified_diff(source.splitlines(), self.text.splitlines(), name, name, lineterm="", n=0)
        return [safe(line) for line in lines][2:]


def edits(source: str, function: str = "") -> list[Edit]:
    """All changes of the functions of a source, in the order of its lines; a `SyntaxError` for what is no source.

    With a `function` of the source, those of it and of what it uses.

    Decorators, annotations, docstrings, and what is raised or asserted stay as they are. Each is a valid source.
    """
    tree = ast.parse(source)
    whole, found = ast.dump(tree), dict[str, Edit]()
    for node in _used(tree, function):
        for place in _places(node):
            for kind, changed in _changes(place):
                text = _replaced(source, place, changed)
                try:
                    other = ast.parse(text)
                except SyntaxError:
                    continue
                if ast.dump(other) != whole:
                    found.setdefault(text, Edit(place.lineno, kind, text))
    return sorted(found.values(), key=lambda edit: edit.line)


def _used(tree: ast.Module, function: str) -> list[ast.FunctionDef | ast.ClassDef]:
    """The functions and classes of a source, or where one of that name is among them, those that it uses."""
    found = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    if function not in found:
        return [*found.values()]
    used, left = dict[str, None](), [function]
    while left:
        name = left.pop()
        if name in found and name not in used:
            used[name] = None
            left += _names(found[name])
    return [node for name, node in found.items() if name in used]


def _places(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """The parts of a function or class that may be changed, those inside others among them."""
    parts: Sequence[ast.AST]
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        own = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
        given = [*node.args.defaults, *node.args.kw_defaults] if isinstance(node, ast.FunctionDef) else []
        parts = [*filter(None, given), *own]
    elif isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom | ast.JoinedStr):
        parts = []
    elif isinstance(node, ast.AnnAssign):
        parts = [node.value] if node.value else []
    else:
        parts = [*ast.iter_child_nodes(node)]
    for part in parts:
        if isinstance(part, ast.expr | ast.stmt):
            yield part
        yield from _places(part)


def _changes(node: ast.expr | ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    """What a part becomes, each with the kind of the change."""
    yield from _operators(node)
    match node:
        case ast.Constant(value=bool(x)):
            yield "constant", ast.Constant(not x)
        case ast.Constant(value=int(x)):
            yield "constant", ast.Constant(x + 1)
            yield from [("constant", ast.Constant(x - 1))] if x else []
        case ast.Constant(value=float(x)):
            yield "constant", ast.Constant(x * 2 if x else 1.0)
        case ast.Call(func=ast.Attribute(attr="load" | "store")) if any(k.arg == "mask" for k in node.keywords):
            left = [k for k in node.keywords if k.arg not in ("mask", "other")]
            yield "mask", _with(node, keywords=left)
        case ast.Call(args=[first, second, *rest]) if not isinstance(second, ast.Starred | ast.GeneratorExp):
            yield "arguments", _with(node, args=[second, first, *rest])
        case ast.Call(func=ast.Attribute(value=value, attr="float" | "double"), args=[]):
            yield "dtype", value
        case ast.Attribute(attr=name) if name in NAMED:
            yield ("dtype" if "float" in name else "name"), _with(node, attr=NAMED[name])
        case ast.AugAssign() | ast.Expr(value=ast.Call()):
            yield "line", ast.Pass()
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in _names(value):
            yield "line", ast.Pass()


def _operators(node: ast.expr | ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    """What a part becomes by another operator."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARED:
            yield "comparison", _with(node, ops=[COMPARED[type(op)]()])
        case ast.BinOp(op=op) if type(op) in COMPUTED:
            yield "arithmetic", _with(node, op=COMPUTED[type(op)]())
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert(), operand=operand):
            yield "sign", operand
        case ast.BoolOp(op=op):
            yield "condition", _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.IfExp(test=test):
            yield "condition", _with(node, test=ast.UnaryOp(ast.Not(), test))


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _with(node: ast.AST, **parts: object) -> ast.AST:
    made = copy.copy(node)
    for name, x in parts.items():
        setattr(made, name, x)
    return made


def _replaced(source: str, node: ast.expr | ast.stmt, changed: ast.AST) -> str:
    """The source with one part in the place of another; columns count bytes."""
    lines = source.encode().splitlines(keepends=True)
    assert node.end_lineno is not None
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + (node.end_col_offset or 0)
    text = ast.unparse(ast.fix_missing_locations(changed))
    simple = isinstance(changed, ast.stmt | ast.Name | ast.Attribute | ast.Constant | ast.Call)
    whole = b"".join(lines)
    return (whole[:start] + (text if simple else f"({text})").encode() + whole[end:]).decode()
