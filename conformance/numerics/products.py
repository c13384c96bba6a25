"""Products of plain matrices: by the fastest method, or entry by entry in a fixed order.

A library of linear algebra adds up a row in another order when it is alone, so that one row of a product is not bit
for bit the product of the row. Where both are to be the same, they are computed entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .workspace import Workspace

MANY = 1 << 16
"""Entries of a product from which on it may be a coarse one."""

_BY_ENTRY: ContextVar[bool] = ContextVar("by_entry", default=False)
_QUICK: ContextVar[str] = ContextVar("quick", default="")
_WORKSPACE: ContextVar[Workspace | None] = ContextVar("workspace", default=None)


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


@contextmanager
def quickly(*, coarse: bool = False, workspace: Workspace | None = None) -> Iterator[None]:
    """Have the body compute in the quickest way there is; with `coarse`, products of single precision are of bfloat16.

    What is coarse may choose where to look, and decides nothing. Else, copies may be views of what they are copies of.
    With a `workspace`, arrays of many entries in single precision are computed in it, by torch where that is faster
    than NumPy.
    """
    outer, beside = _QUICK.set("coarse" if coarse else "fine"), _WORKSPACE.set(workspace)
    try:
        yield
    finally:
        _QUICK.reset(outer)
        _WORKSPACE.reset(beside)


def by_torch(x: Any) -> bool:
    """Whether torch is to compute with an array: a large one of single precision, where there is a workspace."""
    return _WORKSPACE.get() is not None and isinstance(x, np.ndarray) and x.dtype == np.float32 and x.size >= MANY


def room(shape: Sequence[int]) -> Any:
    """An array of single precision for a result, in the workspace if there is one."""
    workspace = _WORKSPACE.get()
    return np.empty(shape, np.float32) if workspace is None else workspace.empty(shape)


def bfloat16_is_quick() -> bool:
    """Whether the processor has instructions for products in bfloat16, which are emulated far more slowly if not."""
    import torch

    able = getattr(torch.cpu, "get_capabilities", dict)()
    return any(able.get(name, False) for name in ("amx_bf16", "avx512_bf16", "sve_bf16", "bf16"))


def quick() -> bool:
    """Whether copies may be views of what they are copies of."""
    return bool(_QUICK.get())


def distinct(y: Any, beside: tuple[int, ...] = ()) -> Any:
    """Matrices without copies that are views of one of them, as far as those `beside` them are as many."""
    if 0 not in y.strides[:-2]:
        return y
    axes = range(-y.ndim, -2)
    once = [-at <= len(beside) and y.strides[at] == 0 and y.shape[at] == beside[at] for at in axes]
    return y[tuple(slice(1) if one else slice(None) for one in once)] if y.size else y


def product(x: Any, y: Any) -> Any:
    """`x @ y`."""
    if _QUICK.get() and x.ndim > 1 and y.ndim > 1:
        return _of_copies(x, y)
    if not _BY_ENTRY.get():
        return x @ y
    shape = (*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1])
    result = np.zeros(shape, np.result_type(x, y))
    for at in range(x.shape[-1]):
        result = result + x[..., :, at, None] * y[..., None, at, :]
    return result


def _of_copies(x: Any, y: Any) -> Any:
    """`x @ y`, in which copies of a matrix `y`, which are views of it, are multiplied once, with all rows of `x`."""
    y = distinct(y, x.shape)
    beside = y.shape[:-2]
    if any(n != 1 for n in beside) or len(beside) > x.ndim - 2:
        return _plain(x, y)
    found = _plain(x.reshape(-1, x.shape[-1]), y[(0,) * len(beside)])
    return found.reshape(*x.shape[:-1], y.shape[-1])


def _plain(x: Any, y: Any) -> Any:
    several = x.size // max(x.shape[-1], 1) * y.shape[-1]
    singles = x.dtype == y.dtype == np.float32
    if _QUICK.get() != "coarse" or not singles or max(several, x.size, y.size) < MANY:
        if _WORKSPACE.get() is not None and singles and several >= MANY:
            shape = (*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1])
            return np.matmul(x, y, out=room(shape))
        return x @ y
    import torch

    first, second = (torch.from_numpy(writable(t)).bfloat16() for t in (x, y))
    made = torch.matmul(first, second)
    torch.from_numpy(found := room(tuple(made.shape))).copy_(made)
    return found


class _Open:
    """The memory of an array, as one that may be written to."""

    def __init__(self, x: NDArray[Any]) -> None:
        self.x = x
        self.__array_interface__ = {**x.__array_interface__, "data": (x.ctypes.data, False)}


def writable(x: NDArray[Any]) -> NDArray[Any]:
    """A view that torch takes without a copy or a warning; nobody writes to it."""
    return x if x.flags.writeable else np.asarray(_Open(x))
