"""Outputs of an operator that are assembled from what a function returns: expressions of a known interface.

A router that returns the weights of the chosen experts and their numbers has the weights of all experts by the line
`sum(where(ids[..., none] == range(experts), weights[..., none], 0), 1)`. Such an expression only selects and arranges,
so that what it gives is as exact as what it is given, and a program without attnspec can have it in NumPy.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError, did_you_mean
from ..language.expressions import Expression
from ..language.scopes import RESERVED, Scope, Values
from ..numerics import budget
from ..numerics.numbers import value
from .mechanism import Mechanism


def parts(mechanism: Mechanism, returns: Sequence[str]) -> list[str]:
    """What a function returns under a name of its own, which is none of the operator's outputs."""
    return [name for name in returns if name != "_" and name not in mechanism.outputs]


def expression(text: str, mechanism: Mechanism, returns: Sequence[str]) -> Expression:
    """The expression of an output, which may speak of sizes, of options and of what is returned."""
    return Expression(text, Scope(frozenset({*mechanism.sizes, *mechanism.options, *parts(mechanism, returns)})))


def assembled(
    made: Mapping[str, Expression], returned: Mapping[str, NDArray[Any]], known: Mapping[str, Any], dtype: str
) -> dict[str, NDArray[Any]]:
    """The outputs of which all parts are returned; `known` are the sizes and options of the call.

    Parts of shapes that an expression does not take are a `SpecError`.
    """
    found, values = dict[str, NDArray[Any]](), Values({**known, **returned}, dtype)
    for output, each in made.items():
        if not each.uses <= {*known, *returned}:
            continue
        try:
            with np.errstate(all="ignore"), budget.metered():
                found[output] = np.asarray(value(each(values)))
        except (SpecError, ValueError, IndexError):
            shapes = ", ".join(f"{name} of {[*x.shape]}" for name, x in returned.items() if name in each.uses)
            raise SpecError(f"{output} cannot be assembled from {shapes}") from None
    return found


def faults_in(
    texts: Mapping[str, str], mechanism: Mechanism, returns: Sequence[str], written: Collection[str]
) -> Iterator[tuple[str, str]]:
    """What is wrong with the expressions of an interface, each with the key of the file that says it.

    `written` are the outputs that a call writes to arrays.
    """
    own, used = parts(mechanism, returns), set[str]()
    for output, text in texts.items():
        if output not in mechanism.outputs:
            hint = did_you_mean(output, mechanism.outputs)
            yield "outputs", f"outputs: {mechanism.name} has no output {output!r}{hint}"
        elif output in returns or output in written:
            yield "outputs", f"outputs.{output}: it is returned or written as it is"
        try:
            uses = expression(text, mechanism, returns).uses & {*own}
            in_numpy(text)
        except SpecError as error:
            yield "outputs", f"outputs.{output}: {error.message}"
            continue
        used |= uses
        if not uses:
            yield "outputs", f"outputs.{output}: it uses nothing that is returned"
    for name in own:
        if name in RESERVED or name in mechanism.sizes or name in mechanism.options:
            yield "returns", f"returns: {name!r} has another meaning"
        elif name not in used:
            hint = did_you_mean(name, mechanism.outputs)
            yield "returns", f"returns: {mechanism.name} has no output {name!r}{hint}, and none is assembled from it"


def in_numpy(text: str) -> str:
    """An expression in terms of NumPy; a `SpecError` for one that does more than select and arrange."""
    return ast.unparse(_Numpy().visit(ast.parse(text, mode="eval")))


class _Numpy(ast.NodeTransformer):
    """Rewrites an expression of the language as one of Python."""

    def visit(self, node: ast.AST) -> Any:
        many = isinstance(node, ast.Compare) and len(node.ops) > 1
        if many or isinstance(node, ast.BoolOp | ast.Not | ast.IfExp):
            raise SpecError("outputs are assembled without 'and', 'or', 'not', 'if' and chained comparisons")
        return super().visit(node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return _parsed(CONSTANTS.get(node.id, node.id))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = ast.unparse(node.func)
        if name not in FUNCTIONS or node.keywords:
            says = "with arguments by position" if name in FUNCTIONS else f"without {name}(...)"
            raise SpecError(f"outputs are assembled {says}, by {', '.join(FUNCTIONS)}")
        return _parsed(FUNCTIONS[name](*(ast.unparse(self.visit(each)) for each in node.args)))


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


CONSTANTS = {"none": "None", "true": "True", "false": "False", "infinity": "np.inf", "nan": "np.nan", "pi": "np.pi"}
FUNCTIONS: dict[str, Callable[..., str]] = {
    "where": lambda *given: f"np.where({', '.join(given)})",
    "sum": lambda x, axis="-1": f"np.sum({x}, {axis})",
    "range": lambda *ends: f"np.arange({', '.join(ends)})",
    "reshape": lambda x, *shape: f"np.reshape({x}, ({', '.join(shape)},))",
    "permute": lambda x, *axes: f"np.transpose({x}, ({', '.join(axes)},))",
    "concat": lambda x, y, axis="-1": f"np.concatenate([{x}, {y}], {axis})",
}
"""The functions that such an expression may call, each with its call in NumPy."""
