"""MLX arrays, which have no choice of strides; they are lazy, and computed on the default device."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from .framework import Copied, kind_of, numpy_dtype, parts_of, refusing, renamed

BITS = {"bfloat16": "uint16", "float64": "uint64"}
"""Dtypes that are carried as integers of their width."""


class MlxFramework(Copied):
    """MLX arrays."""

    name = "mlx"

    def __init__(self) -> None:
        import mlx.core as mx

        self.mx: Any = mx

    def put(self, entries: NDArray[Any], device: str) -> Any:
        dtype, mx = entries.dtype.name, self.mx
        if kind_of(device) not in ("cpu", "gpu") or device not in self.devices():
            raise UsageError(f"MLX has no device {device!r} (it has {', '.join(self.devices())})")
        if dtype != "bool" and not hasattr(mx, dtype):
            raise UsageError(f"MLX has no {dtype}")
        mx.set_default_device(mx.Device(getattr(mx, kind_of(device)), 0))
        if dtype in BITS:
            return mx.array(entries.view(BITS[dtype])).view(getattr(mx, dtype))
        return mx.array(entries)

    def taken(self, x: Any) -> NDArray[Any]:
        bits = BITS.get(self.dtype(x))
        return np.array(x.view(getattr(self.mx, bits))).view(numpy_dtype(self.dtype(x))) if bits else np.array(x)

    def is_array(self, x: Any) -> bool:
        return isinstance(x, self.mx.array)

    def dtype(self, x: Any) -> str:
        return renamed(x.dtype, {"bool_": "bool"})

    def device(self, x: Any) -> str:
        return str(self.mx.default_device().type).rpartition(".")[2]

    def devices(self) -> list[str]:
        found = ["cpu"]
        with suppress(AttributeError):
            found += ["gpu"] * (self.mx.metal.is_available() or self.mx.cuda.is_available())
        return found

    def finish(self, result: Any, device: str) -> None:
        self.mx.eval([part for part in parts_of(result) if self.is_array(part)])

    def pulled_back(
        self, function: Callable[..., Any], leaves: list[Any], cotangents: list[Any], *, again: bool = False
    ) -> list[Any]:
        pull = refusing("its inputs cannot be differentiated", lambda: self.mx.vjp(function, leaves, cotangents))
        return list(pull[1])

    def forget(self) -> None:
        self.mx.clear_cache()
