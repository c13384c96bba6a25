"""How much the entries of a matrix product may err."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from .codings import Coded
from .formats import all_held
from .grades import Grade
from .parts import Array, K, absent, finite
from .products import distinct
from .products import product as plain_product


class Factor(Protocol):
    """What a product reads of a number."""

    value: Any
    worst: Array
    variance: Array
    shared: Array
    grade: Grade
    held: bool

    @property
    def exact(self) -> bool: ...

    def full(self, part: Array) -> Any: ...


def operand_error(x: Factor, entries: Any = None) -> tuple[float, Any]:
    """The unit to which a factor of a product is rounded first, and that of underflow; zero if the format holds it.

    Where every intermediate is stored, the factor may have been scaled before, and is rounded in any case.
    `entries` are all that are in it, if some are there more than once.
    """
    fmt, entries = x.grade.operand, x.value if entries is None else entries
    if fmt is None or x.held or (x.exact and x.grade.stored is None and all_held(np.asarray(entries, float), fmt)):
        return 0.0, 0.0
    return fmt.unit, fmt.tiny


def bias(grade: Grade, unit: Any) -> Any:
    """The shared error, as a share of a sum of sizes, of factors that are cut off: half a unit in the mean."""
    return unit / (2 * K) if grade.cut else 0.0


def product_with_errors(x: Factor, y: Factor) -> tuple[Any, Array, Array, Array]:
    """The matrix product with its three errors, before it is stored.

    In the worst case n roundings of the sum of sizes, in the likely one their square root.
    """
    grade, n = x.grade, x.value.shape[-1]
    u = grade.arithmetic.unit
    left, right = np.asarray(x.value, float), np.asarray(y.value, float)  # integers are multiplied slowly
    right = distinct(right, left.shape)
    size_x, size_y = finite(np.abs(left)), finite(np.abs(right))
    size = plain_product(size_x, size_y)
    worst: Array = (n * u) * size
    variance: Array = (n / 3 * u * u) * size * size
    shared: Array = 0.0
    if grade.operand is not None and grade.factors is None:
        unit = operand_error(x)[0] + operand_error(y, right)[0]
        if unit:
            worst = worst + unit * size
            shared = unit / np.sqrt(3) * np.sqrt(plain_product(size_x**2, size_y**2))
            shared = shared + bias(grade, unit) * size
    if grade.factors is not None:
        coded = Coded.of(finite(left), finite(right), grade.factors)
        worst = (
            worst
            + plain_product(coded.left, coded.size_right)
            + plain_product(coded.size_left + coded.left, coded.right)
        )
        variance = variance + plain_product(coded.size_left**2, coded.alone)
        shared = shared + np.sqrt(
            plain_product(coded.of_left, coded.size_right**2) + plain_product(coded.size_left**2, coded.common)
        )
    for a, b, times in ((x, size_y, _on_the_left), (y, size_x, _on_the_right)):
        if not a.exact:
            worst = worst + times(a.full(a.worst), b)
            variance = variance + (0.0 if absent(a.variance) else times(a.full(a.variance), b * b))
            shared = shared + (0.0 if absent(a.shared) else times(a.full(a.shared), b))
    return plain_product(left, right), worst, variance, shared


def _on_the_left(error: Any, size: Any) -> Any:
    return plain_product(error, size)


def _on_the_right(error: Any, size: Any) -> Any:
    return plain_product(size, error)
