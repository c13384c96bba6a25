"""CuPy arrays, which have the strides of NumPy's and lie on a CUDA device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from .framework import Copied, index_of, kind_of, numpy_dtype
from .layouts import laid_out, stored_once


class CupyFramework(Copied):
    """CuPy arrays."""

    name = "cupy"

    def __init__(self) -> None:
        import cupy  # pyright: ignore[reportMissingImports]

        self.cupy: Any = cupy

    def make(self, array: NDArray[Any], dtype: str, device: str, layout: str, index: int) -> Any:
        if kind_of(device) != "cuda":
            raise UsageError(f"CuPy has only CUDA devices, not {device!r}; add --device cuda")
        target = numpy_dtype(dtype) if array.dtype.kind == "f" else array.dtype
        with self.cupy.cuda.Device(index_of(device) or 0):
            if layout == "expanded" and (once := stored_once(array)) is not None:
                return self.cupy.broadcast_to(self.cupy.asarray(once.astype(target)), array.shape)
            made = self.cupy.asarray(np.array(array, target, order="C"))
            return laid_out(made, layout, index, lambda shape: self.cupy.empty(shape, target))

    def is_array(self, x: Any) -> bool:
        return isinstance(x, self.cupy.ndarray)

    def entries(self, x: Any) -> NDArray[Any]:
        return self.cupy.asnumpy(x)

    def device(self, x: Any) -> str:
        return f"cuda:{x.device.id}"

    def devices(self) -> list[str]:
        try:
            return [f"cuda:{index}" for index in range(self.cupy.cuda.runtime.getDeviceCount())]
        except self.cupy.cuda.runtime.CUDARuntimeError:
            return []

    def memory(self, x: Any) -> tuple[int, int]:
        low, high = self.cupy.lib.array_utils.byte_bounds(x) if x.size else (0, 0)
        return int(low), int(high)

    @contextmanager
    def _poisoned(self) -> Iterator[None]:
        cupy = self.cupy
        plain = cupy.empty, cupy.empty_like

        def filled(make: Any) -> Any:
            def empty(*args: Any, **keywords: Any) -> Any:
                room = make(*args, **keywords)
                if room.dtype.kind in "fcV":
                    room.fill(np.nan)
                return room

            return empty

        cupy.empty, cupy.empty_like = map(filled, plain)
        try:
            yield
        finally:
            cupy.empty, cupy.empty_like = plain

    def poisoned(self) -> AbstractContextManager[None]:
        return self._poisoned()

    def finish(self, result: Any, device: str) -> None:
        self.cupy.cuda.get_current_stream().synchronize()

    def forget(self) -> None:
        self.cupy.get_default_memory_pool().free_all_blocks()
