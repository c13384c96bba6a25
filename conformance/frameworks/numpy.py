"""NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .framework import NotDifferentiableError, kind_of, numpy_dtype, same_entries
from .layouts import laid_out, stored_once


class NumpyFramework:
    """NumPy arrays; bfloat16 and float8 by ml_dtypes, which carries them but does not round for us."""

    name = "numpy"

    def make(self, array: NDArray[Any], dtype: str, device: str, layout: str, index: int) -> Any:
        target = numpy_dtype(dtype) if array.dtype.kind == "f" else array.dtype
        if layout == "expanded" and (once := stored_once(array)) is not None:
            return np.broadcast_to(once.astype(target), array.shape)
        made = array.astype(target)
        return laid_out(made, layout, index, lambda shape: np.empty(shape, target))

    def is_array(self, x: Any) -> bool:
        return isinstance(x, np.ndarray | np.generic)

    def strange(self, x: Any) -> str:
        if isinstance(x, np.ma.MaskedArray):
            count = int(np.ma.getmaskarray(x).sum())
            return f"{count} of its {x.size} entries are masked" if count else ""
        if not isinstance(x, np.ndarray) or type(x) in (np.ndarray, np.matrix, np.memmap):
            return ""
        return (
            f"{type(x).__module__}.{type(x).__name__} is a subclass or another array type; return a plain numpy.ndarray"
        )

    def read(self, x: Any) -> NDArray[Any]:
        x = np.asarray(x)
        return x.copy() if x.dtype.kind in "biu" else x.astype(np.float64)

    def dtype(self, x: Any) -> str:
        return str(x.dtype)

    def device(self, x: Any) -> str:
        return "cpu"

    def is_on(self, x: Any, device: str) -> bool:
        return kind_of(device) == "cpu"

    def devices(self) -> list[str]:
        return ["cpu"]

    def same(self, x: Any, y: Any) -> bool:
        return same_entries(x, y)

    def memory(self, x: Any) -> tuple[int, int]:
        return np.lib.array_utils.byte_bounds(x) if isinstance(x, np.ndarray) and x.size else (0, 0)

    @contextmanager
    def poisoned(self) -> Iterator[None]:
        plain = np.empty, np.empty_like

        def filled(make: Any) -> Any:
            def empty(*args: Any, **keywords: Any) -> Any:
                room = make(*args, **keywords)
                if room.dtype.kind in "fcV":
                    room.fill(np.nan)
                return room

            return empty

        np.empty, np.empty_like = filled(np.empty), filled(np.empty_like)
        try:
            yield
        finally:
            np.empty, np.empty_like = plain

    def session(self) -> AbstractContextManager[None]:
        return nullcontext()

    def computing(self, dtype: str) -> AbstractContextManager[None]:
        return nullcontext()

    def finish(self, result: Any, device: str) -> None:
        pass

    def pulled_back(
        self, function: Callable[..., Any], leaves: list[Any], cotangents: list[Any], *, again: bool = False
    ) -> list[Any]:
        raise NotDifferentiableError("NumPy has no automatic differentiation")

    def forget(self) -> None:
        pass
