"""Tensors of tinygrad, which start contiguous and are lazy.

On the CPU calls are made by its interpreter in Python, unless the variable `DEV` names another of its devices.
"""

from __future__ import annotations

import os
from typing import Any

from numpy.typing import NDArray

from ..errors import UsageError
from .framework import Copied, kind_of, numpy_dtype, parts_of, renamed

BITS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
"""Dtypes that are carried as integers of their width."""
OWN = {"float8_e4m3fn": "fp8e4m3", "float8_e5m2": "fp8e5m2"}
NAMES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "long": "int64",
    "int": "int32",
    "__bf16": "bfloat16",
}


class TinygradFramework(Copied):
    """Tensors of tinygrad."""

    name = "tinygrad"

    def __init__(self) -> None:
        os.environ.setdefault("DEV", "PYTHON")
        import tinygrad
        from tinygrad.helpers import DEV

        if not str(DEV):  # it was imported before the variable was set
            DEV.value = os.environ["DEV"]
        self.tinygrad: Any = tinygrad
        self.names = {getattr(tinygrad.dtypes, own): name for name, own in OWN.items() if hasattr(tinygrad.dtypes, own)}

    def put(self, entries: NDArray[Any], device: str) -> Any:
        dtype, tensor = entries.dtype.name, self.tinygrad.Tensor
        place = None if device == "cpu" else device.upper()
        if dtype not in BITS:
            made = tensor(entries.reshape(entries.shape or 1), device=place).realize()
            return made if entries.shape else made.reshape(())  # a number alone would be a constant, and not a buffer
        own = getattr(self.tinygrad.dtypes, OWN.get(dtype, dtype), None)
        if own is None:
            raise UsageError(f"tinygrad has no {dtype}")
        return tensor(entries.view(BITS[dtype]), device=place).bitcast(own).realize()

    def entries(self, x: Any) -> NDArray[Any]:
        bits = BITS.get(self.dtype(x))
        if not bits:
            return x.numpy() if x.shape else x.reshape(1).numpy().reshape(())
        return x.contiguous().bitcast(getattr(self.tinygrad.dtypes, bits)).numpy().view(numpy_dtype(self.dtype(x)))

    def is_array(self, x: Any) -> bool:
        return isinstance(x, self.tinygrad.Tensor)

    def dtype(self, x: Any) -> str:
        return self.names.get(x.dtype) or renamed(x.dtype.name, NAMES)

    def device(self, x: Any) -> str:
        own = x.device if isinstance(x.device, str) else x.device[0]
        return "cpu" if own == self.tinygrad.Device.DEFAULT else own.lower()

    def is_on(self, x: Any, device: str) -> bool:
        default = self.tinygrad.Device.DEFAULT.lower()
        return kind_of(self.device(x)) in (kind_of(device), *(["cpu"] if kind_of(device) == default else []))

    def devices(self) -> list[str]:
        return ["cpu", *(name.lower() for name in self.tinygrad.Device.get_available_devices() if name != "CPU")]

    def finish(self, result: Any, device: str) -> None:
        for part in parts_of(result):
            if self.is_array(part):
                part.realize()
