"""What a parameter of an interface is passed: its expressions, evaluated on a call."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..execution.calling import Call
from ..language.expressions import Expression
from ..language.scopes import Environment
from ..mechanisms.forward import scope_with_results
from ..mechanisms.layouts import stacks_of
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.signatures import Passed
from ..numerics import budget
from ..numerics.formats import dtype_under
from ..numerics.numbers import value
from ..numerics.truths import Truth


def worth(passed: Passed, known: Environment, mechanism: Mechanism) -> Any:
    """What a parameter is passed, in plain values or as an array."""
    if passed.how == "left":
        return None
    with np.errstate(all="ignore"), budget.metered():
        found = [plain_value(compiled(mechanism, text)(known)) for text in passed.expressions]
    if passed.how == "text":
        return passed.texts[0] if all(found) else passed.otherwise
    if passed.how == "array" and isinstance(found[0], str):
        return mechanism.passed(passed.texts[0], found[0])
    if passed.how == "complex":
        return (found[0] + 1j * found[1]).astype(np.complex64)
    if passed.how == "object":
        return dict(zip(passed.names, found, strict=True))
    return tuple(found) if passed.how == "tuple" else found[0]


def dtype_in(call: Call, output: str, mechanism: Mechanism) -> str:
    """The name of the dtype that an output of a call has."""
    return call.dtypes.get(output) or dtype_under(call.dtype, mechanism.dtypes.get(output))


def said_of(call: Call, passed: Passed, mechanism: Mechanism) -> str | None:
    """The device of a call, or the dtype of one of its outputs, where a parameter is passed that; else None."""
    if passed.how == "device":
        return call.device
    return dtype_in(call, passed.texts[0], mechanism) if passed.how == "dtype" else None


def used_by(passed: Passed, mechanism: Mechanism) -> set[str]:
    """What the expressions of a parameter use, or the arrays that lie in the one that it is passed."""
    stacks = stacks_of(mechanism.layouts)
    return set[str]().union(*(stacks.get(text) or compiled(mechanism, text).uses for text in passed.expressions))


@functools.cache
def _compiled(operator: str, digest: str, text: str) -> dict[str, Expression]:
    return {}


def compiled(mechanism: Mechanism, text: str) -> Expression:
    """An expression of an interface, compiled once."""
    kept = _compiled(mechanism.name, mechanism.digest, text)
    if not kept:
        kept[text] = Expression(text, scope_with_results(mechanism))
    return kept[text]


def plain_value(x: Any) -> Any:
    """What an expression gives, without bounds, and as a number where it is a single one."""
    x = np.asarray(x.must) if isinstance(x, Truth) else x if x is None or isinstance(x, bool | int | str) else value(x)
    single = isinstance(x, np.generic) or (isinstance(x, np.ndarray) and x.ndim == 0)
    return x.item() if single else x
