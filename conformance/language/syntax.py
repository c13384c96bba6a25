"""Texts as syntax trees, within limits, and positions in them."""

from __future__ import annotations

import ast
import functools
import re
import warnings

from ..errors import Place, SpecError
from ..numerics.budget import TEXT_LENGTH

_STRANGE = re.compile(r"[^ -~]")
_DOUBTED = re.compile(r"[0-9.][A-Za-z_]|[\"'\\]")
"""What may be met by a warning of Python's: letters right after a number, and escapes."""


@functools.lru_cache(1 << 12)
def _tree(text: str) -> ast.expr:
    """The syntax tree of a text, which nobody changes; what Python merely doubts, as in `1if x else 2`, is refused."""
    if not _DOUBTED.search(text):
        return ast.parse(text, mode="eval").body
    with warnings.catch_warnings(action="error"):
        return ast.parse(text, mode="eval").body


def parse(text: str, place: Place | None = None, within: str = "{}") -> ast.expr:
    """The syntax tree of an expression, within the limits on its text; `within` is what is put around it first."""
    if len(text) > TEXT_LENGTH:
        raise SpecError(f"an expression of {len(text)} characters is over the limit of {TEXT_LENGTH}", place)
    if bad := _STRANGE.search(text):
        raise SpecError(f"only plain ASCII is allowed in an expression, not {bad.group()!r}", at(place, bad.start()))
    try:
        return _tree(within.format(text))
    except SyntaxError as error:
        column = error.offset - 1 - within.index("{") if error.offset else len(text)
        column = min(max(column, 0), len(text))
        raise SpecError(f"not an expression: {error.msg}{shown(text, column)}", at(place, column)) from None
    except (RecursionError, MemoryError, ValueError):
        raise SpecError("nested too deeply", place) from None


def assignments(text: str, place: Place | None = None) -> dict[str, tuple[str, Place | None]]:
    """`a = 1, b = f(x)` as names with their expressions and places."""
    call = "f({})"
    tree = parse(text, place, call)
    if (
        not isinstance(tree, ast.Call)
        or not isinstance(tree.func, ast.Name)
        or tree.args
        or any(k.arg is None for k in tree.keywords)
    ):
        raise SpecError("write assignments as: name = expression, name = expression", place)
    result: dict[str, tuple[str, Place | None]] = {}
    for keyword in tree.keywords:
        name, source = str(keyword.arg), source_of(call.format(text), keyword.value)
        where_ = at(place, keyword.value.col_offset - call.index("{"))
        if name in result:
            raise SpecError(f"{name!r} is assigned twice", where_)
        result[name] = (source, where_)
    return result


def source_of(text: str, node: ast.expr) -> str:
    """The text of a node of an expression, which is one line of ASCII."""
    return text[node.col_offset : node.end_col_offset]


def at(place: Place | None, column: int) -> Place | None:
    """The place of a column of a text."""
    return place.right(column) if place else None


def shown(text: str, column: int) -> str:
    """A text with a mark below a column."""
    return f"\n    {text}\n    {' ' * column}^"
