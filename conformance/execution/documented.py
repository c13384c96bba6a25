"""Functions in C with the parameters that their documentation begins with, as `f(query, key, scale=None) -> Tensor`."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from typing import Any


def documented(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with a signature that can be read; itself where it has one, or its documentation says none."""
    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        found = stated(str(getattr(function, "__doc__", None) or ""))
        return function if found is None else Documented(function, found)
    return function


class Documented:
    """A function that is called as its documentation says."""

    def __init__(self, function: Callable[..., Any], signature: inspect.Signature) -> None:
        self.function, self.__signature__ = function, signature
        self.__name__, self.__doc__ = getattr(function, "__name__", ""), function.__doc__
        self.__module__ = str(getattr(function, "__module__", None) or "")

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self.function(*given, **named)


def stated(text: str) -> inspect.Signature | None:
    """The signature that a text begins with; None where it begins with none."""
    said = re.match(r"[\w.]+(?=\()", text.strip())
    try:
        tree = ast.parse(f"def f{_head(text.strip()[said.end() :])}: ..." if said else "").body[0]
    except (SyntaxError, ValueError, IndexError, RecursionError, MemoryError):
        return None
    if not isinstance(tree, ast.FunctionDef):
        return None
    own, kinds = tree.args, inspect.Parameter
    by_position = [*own.posonlyargs, *own.args]
    defaults: list[ast.expr | None] = [*[None] * (len(by_position) - len(own.defaults)), *own.defaults]
    found = [
        _parameter(arg, kinds.POSITIONAL_ONLY if arg in own.posonlyargs else kinds.POSITIONAL_OR_KEYWORD, default)
        for arg, default in zip(by_position, defaults, strict=True)
    ]
    found += [
        _parameter(arg, kinds.KEYWORD_ONLY, default)
        for arg, default in zip(own.kwonlyargs, own.kw_defaults, strict=True)
    ]
    return inspect.Signature(found)


def _head(text: str) -> str:
    """A text as far as its first brackets go, without what is returned."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if character in ")]" and depth == 0:
            return text[: at + 1]
    return text


def _parameter(arg: ast.arg, kind: Any, default: ast.expr | None) -> inspect.Parameter:
    annotation = ast.unparse(arg.annotation) if arg.annotation else inspect.Parameter.empty
    return inspect.Parameter(arg.arg, kind, default=_value(default), annotation=annotation)


def _value(default: ast.expr | None) -> Any:
    """A default in plain values; None for any other."""
    if default is None:
        return inspect.Parameter.empty
    try:
        return ast.literal_eval(default)
    except (ValueError, TypeError, SyntaxError):
        return None
