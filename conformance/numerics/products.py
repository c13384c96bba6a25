"""Products of plain matrices, by the fastest way there is, or entry by entry in one order.

A library of linear algebra adds up a row in another order when it is alone, so that one row of a product is not bit
for bit the product of the row. Where both are to be the same, they are computed entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

_BY_ENTRY: ContextVar[bool] = ContextVar("by_entry", default=False)


@contextmanager
def by_entry() -> Iterator[None]:
    """Have every entry of a product in the body be one sum, in the order of its terms, whatever is beside it."""
    outer = _BY_ENTRY.set(True)
    try:
        yield
    finally:
        _BY_ENTRY.reset(outer)


def entrywise() -> bool:
    """Whether entries of products are computed each by itself."""
    return _BY_ENTRY.get()


def product(x: Any, y: Any) -> Any:
    """`x @ y`."""
    if not _BY_ENTRY.get():
        return x @ y
    shape = (*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1])
    result = np.zeros(shape, np.result_type(x, y))
    for at in range(x.shape[-1]):
        result = result + x[..., :, at, None] * y[..., None, at, :]
    return result
