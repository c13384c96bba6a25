"""Parameters that are passed entries of one input in another order: which those are, and its gradient by theirs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..language.syntax import parse
from ..mechanisms.signatures import Passed

ARRANGING = frozenset({"concat", "reshape", "permute", "transpose"})
"""Functions of the language that arrange the entries of arrays, and compute with none."""


def selected_from(passed: Passed, inputs: Collection[str]) -> str:
    """The one of some inputs whose entries a parameter is passed, beside constant ones; nothing where it computes."""
    if passed.how != "array" or passed.texts[0].isidentifier():
        return ""
    tree = parse(passed.texts[0])
    used = _names(tree) & {*inputs}
    return next((array for array in used if len(used) == 1 and _selects(tree, array)), "")


def _selects(node: ast.expr, array: str) -> bool:
    """Whether an expression has entries of an array, all of them unchanged."""
    if isinstance(node, ast.Subscript):
        return _selects(node.value, array)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ARRANGING:
        arrays = node.args[: 2 if node.func.id == "concat" else 1]
        return any(_selects(x, array) for x in arrays) and all(
            _selects(x, array) or array not in _names(x) for x in arrays
        )
    return isinstance(node, ast.Name) and node.id == array


def _names(node: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def gathered(
    gradient: NDArray[Any], shape: tuple[int, ...], passed: Callable[[NDArray[Any]], NDArray[Any]]
) -> NDArray[Any]:
    """The gradient of an input of some shape by that of a parameter, given what is `passed` for each such input.

    What is passed twice has the sum of both gradients, and what is not passed has none. Raises `ValueError` for a
    gradient of another shape than what is passed.
    """
    count = int(np.prod(shape))
    places = passed(np.arange(1.0, count + 1).reshape(shape)) - passed(np.zeros(shape))
    if gradient.shape != places.shape:
        raise ValueError(f"has the shape {[*gradient.shape]}, not {[*places.shape]}")
    found = np.zeros(count + 1)
    np.add.at(found, places.astype(int).ravel(), gradient.ravel())
    return found[1:].reshape(shape)
