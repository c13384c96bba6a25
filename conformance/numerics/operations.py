"""The operators of the language: arithmetic, comparison and logic, entry by entry.

Each takes plain arrays, error-carrying numbers or booleans, and refuses what has no meaning with a `SpecError`.
Shapes are measured before anything is computed.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import SpecError
from .budget import CARRIED, charge, charge_product, joined_shape, spend
from .formats import holds
from .grades import Grade
from .numbers import Number, number, settled, value
from .primitives import where
from .products import by_torch, product, room
from .truths import Truth, some, truth

WHOLE = (bool, np.bool_, np.integer)
"""The types of single values that are computed with as integers."""


def _shape(x: Any) -> tuple[int, ...]:
    return x.value.shape if type(x) is Number else getattr(x, "shape", ())


def _kind(x: Any) -> str:
    """The kind of what an array holds, as NumPy abbreviates it; none of what is not an array."""
    return x.dtype.kind if isinstance(x, (np.ndarray, np.generic)) else ""


_COMPUTED_WITH = frozenset((Number, int, float))
"""Types of what is computed with as it is."""


_NUMBERS = frozenset((int, float))


def numeric(x: Any) -> Any:
    """`x` as something to compute with: booleans count as 0 and 1."""
    if type(x) in _COMPUTED_WITH:
        return x
    if isinstance(x, np.ndarray):
        return x.astype(np.int64) if x.dtype.kind == "b" else x
    if x is None or isinstance(x, str):
        raise SpecError(f"{'none' if x is None else repr(x)} is not a number")
    if isinstance(x, Truth):
        return where(x, 1.0, 0.0)
    return int(x) if isinstance(x, WHOLE) else x


def _graded(result: Any, grade: Grade | None) -> Any:
    """A plain result of fractions, with the rounding that the claimed precision would have made."""
    if grade is None or isinstance(result, int) or _kind(result) in ("b", "i", "u"):
        return result
    return settled(np.asarray(result, float), grade, 0.0, 0.0, 0.0)


def _arithmetic(
    plain: Callable[[Any, Any], Any], carried: Callable[[Any, Any], Any] | None = None
) -> Callable[[Any, Any, Grade | None], Any]:
    """An operation; on numbers that carry errors another function may do it."""
    on_numbers = carried or plain

    def apply(x: Any, y: Any, grade: Grade | None) -> Any:
        if grade is None and type(x) in _NUMBERS and type(y) in _NUMBERS:
            charge(1)
            return plain(x, y)
        x, y = numeric(x), numeric(y)
        a, b = _shape(x), _shape(y)
        shape = joined_shape(a, b)
        if grade is not None:
            x, y = _represented(x, grade), _represented(y, grade)
        if type(x) is Number or type(y) is Number:
            charge(math.prod(shape), carried=True)
            spend((math.prod(a) + math.prod(b)) * CARRIED)
            return on_numbers(x, y)
        return plain(x, y) if grade is None else _graded(plain(x, y), grade)

    return apply


def _represented(x: Any, grade: Grade) -> Any:
    """A single fraction as an implementation holds it: with its own rounding, where the format has it not."""
    return number(x, grade) if isinstance(x, float) and not holds(x, grade.arithmetic) else x


def _bounded(operate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Integers would grow without limit, or in arrays wrap around; here they become fractions."""

    def apply(x: Any, y: Any) -> Any:
        result = operate(x, y)
        if type(result) is float:
            return result
        if isinstance(result, int):
            return float(result) if abs(result) > 2**53 else result
        if _kind(result) == "i":
            fractions = operate(np.asarray(x, float), np.asarray(y, float))
            return fractions if some(np.abs(fractions) > 2**53) else result
        return result

    return apply


def _times(x: Any, y: Any) -> Any:
    return np.multiply(x, np.float32(y), out=room(x.shape)) if by_torch(x) and type(y) is float else x * y


def _power(x: Any, y: Any) -> Any:
    result = np.power(np.asarray(x, float), np.asarray(y, float))
    whole = all(isinstance(t, int) or np.asarray(t).dtype.kind in "iu" for t in (x, y))
    if whole and bool(np.all(np.abs(result) <= 2**53)) and bool(np.all(result == np.rint(result))):
        return int(result) if result.ndim == 0 else result.astype(np.int64)
    return result if result.ndim else float(result)


def _whole_division(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(x: Any, y: Any) -> Any:
        if not all(t.exact for t in (x, y) if isinstance(t, Number)):
            raise SpecError("// and % take exact numbers")
        x, y = value(x), value(y)
        if _shape(x) == () == _shape(y) and y == 0:
            raise SpecError("division by zero")
        return f(x, y)

    return apply


def _matmul(x: Any, y: Any, grade: Grade | None) -> Any:
    x, y = numeric(x), numeric(y)
    a, b = _shape(x), _shape(y)
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        raise SpecError(f"cannot multiply matrices of shapes {a} and {b}")
    carried = grade is not None or isinstance(x, Number) or isinstance(y, Number)
    entries = math.prod(joined_shape(a[:-2], b[:-2])) * a[-2] * b[-1]
    for each in (math.prod(a), math.prod(b), entries):
        charge(each, CARRIED if carried else 1, carried=carried)
    charge_product(entries * a[-1], carried=carried)
    if grade is not None and not isinstance(x, Number):
        x = Number(x, grade=grade)
    return x @ y if carried else _product(x, y)


def _product(x: Any, y: Any) -> Any:
    """The product of plain matrices in fractions, which NumPy multiplies a hundred times as fast as integers.

    Integers stay whole where all that is added up is exact.
    """
    if _kind(x) == "f" or _kind(y) == "f":
        return product(x, y)
    a, b = np.asarray(x, float), np.asarray(y, float)
    largest = np.abs(a).max(initial=0.0) * np.abs(b).max(initial=0.0) * a.shape[-1]
    return product(a, b).astype(np.int64) if largest <= 2**53 else product(a, b)


BINARY: dict[type, Callable[[Any, Any, Grade | None], Any]] = {
    ast.Add: _arithmetic(_bounded(operator.add), operator.add),
    ast.Sub: _arithmetic(_bounded(operator.sub), operator.sub),
    ast.Mult: _arithmetic(_bounded(_times), operator.mul),
    ast.Div: _arithmetic(np.divide, operator.truediv),
    ast.FloorDiv: _arithmetic(_whole_division(np.floor_divide)),
    ast.Mod: _arithmetic(_whole_division(np.mod)),
    ast.Pow: _arithmetic(_power, operator.pow),
    ast.MatMult: _matmul,
}


_WHOLE_KINDS = frozenset("iu")
"""The kinds of arrays that hold no NaN, as NumPy abbreviates them."""


def _equal(x: Any, y: Any) -> Any:
    """Equality, in which NaN equals NaN."""
    if isinstance(x, Number) or isinstance(y, Number):
        return x == y
    if type(x) is int or type(y) is int or _kind(x) in _WHOLE_KINDS or _kind(y) in _WHOLE_KINDS:
        return x == y  # of which one is no NaN
    return (x == y) | ((x != x) & (y != y))


def _unequal(x: Any, y: Any) -> Any:
    return negated(_equal(x, y))


def _comparison(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    equality = compare is _equal or compare is _unequal

    def apply(x: Any, y: Any) -> Any:
        if x is None or y is None or isinstance(x, str) or isinstance(y, str):
            if not equality:
                raise SpecError("words and none can only be compared with == and !=")
            return (type(x) is type(y) and x == y) is (compare is _equal)
        kinds = (type(x), type(y))
        if kinds[0] in _NUMBERS and kinds[1] in _NUMBERS:
            charge(1)
            return compare(x, y)
        joined_shape(_shape(x), _shape(y))
        if Truth in kinds:
            if not equality:
                raise SpecError("booleans can only be compared with == and !=")
            x, y = truth(x), truth(y)
            same = (x & y) | (~x & ~y)
            return same if compare is _equal else ~same
        if Number in kinds:
            return compare(x, y)
        return compare(numeric(x), numeric(y))

    return apply


COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: _comparison(_equal),
    ast.NotEq: _comparison(_unequal),
    ast.Lt: _comparison(operator.lt),
    ast.LtE: _comparison(operator.le),
    ast.Gt: _comparison(operator.gt),
    ast.GtE: _comparison(operator.ge),
}


def is_single(x: Any) -> bool:
    return _shape(x) == ()


def claimed(x: Any) -> Any:
    """`x` as something to be asked for its truth."""
    if x is None or isinstance(x, (str, Number)):
        raise SpecError(f"{'none' if x is None else repr(x) if isinstance(x, str) else 'a number'} is not a boolean")
    return x


def single_truth(x: Any) -> bool | None:
    """A single plain truth, or None for arrays and for what is undecided."""
    if isinstance(x, Truth):
        return bool(x.must) if x.shape == () and bool(x.can) == bool(x.must) else None
    return bool(x) if _shape(x) == () else None


def both(x: Any, y: Any) -> Any:
    joined_shape(_shape(x), _shape(y))
    if isinstance(x, Truth) or isinstance(y, Truth):
        return truth(x) & y
    return _joined(x, y, True, np.logical_and)


def either(x: Any, y: Any) -> Any:
    joined_shape(_shape(x), _shape(y))
    if isinstance(x, Truth) or isinstance(y, Truth):
        return truth(x) | y
    return _joined(x, y, False, np.logical_or)


def _joined(x: Any, y: Any, neutral: bool, join: Callable[[Any, Any], Any]) -> Any:
    """Plain truths joined; NumPy takes thirty times as long for a single one as for an array of them."""
    for single, other in ((x, y), (y, x)):
        if single is neutral or (_shape(single) == () and _shape(other) != () and bool(single) is neutral):
            return _truths(other)
    return join(x, y)


def _truths(x: Any) -> Any:
    """Plain truths of whatever is one."""
    return x if isinstance(x, np.ndarray) and x.dtype == bool else np.asarray(x, bool)[()]


def negated(x: Any) -> Any:
    return ~x if isinstance(x, Truth) else np.logical_not(x)
