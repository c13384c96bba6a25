"""Memory layouts of arrays that have strides: the same entries, shape and dtype in another arrangement of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def named_layout(layout: str, index: int) -> str:
    """The layout of the input of a position, in one that differs from input to input."""
    if layout == "mixed":
        return ("contiguous", "transposed", "strided", "transposed")[index % 4]
    if layout == "lone":
        return ("contiguous", "contiguous", "transposed")[index % 3]
    return layout


def laid_out(array: Any, layout: str, index: int, empty: Any) -> Any:
    """`array` copied into another memory layout; `empty(shape)` makes an array of the framework.

    Entries, shape and dtype stay; only strides and offset change.
    """
    shape = tuple(array.shape)
    layout = named_layout(layout, index)
    if layout == "contiguous" or len(shape) == 0:
        return array
    if layout == "strided":
        room = empty((*shape[:-1], 2 * shape[-1]))[..., ::2]
    elif layout == "sliced":
        room = empty((*shape[:-1], 2 * shape[-1]))[..., shape[-1] :]
    elif layout == "transposed" and len(shape) >= 3:
        room = empty((*shape[:-3], shape[-2], shape[-3], shape[-1])).swapaxes(-2, -3)
    elif layout == "transposed" and len(shape) == 2:
        room = empty(shape[::-1]).swapaxes(0, 1)
    elif layout == "offset":
        room = empty((shape[0] + 1, *shape[1:]))[1:]
    else:
        return array
    room[...] = array
    return room


def stored_once(array: NDArray[Any]) -> NDArray[Any] | None:
    """What an expanded layout stores: the first of equal slices along the first axis of several, of equal entries one.

    The gradient of a sum, for one, is a single number that is expanded along every axis.
    """
    if array.ndim > 1 and array.size > 1 and (array == array.flat[0]).all():
        return array[(slice(0, 1),) * array.ndim]
    for axis in range(max(array.ndim - 2, min(array.ndim, 1))):
        if array.shape[axis] > 1:
            first = array.take([0], axis)
            return first if np.array_equal(np.broadcast_to(first, array.shape), array, equal_nan=True) else None
    return None
