"""The arrays of each framework: made in a given dtype, memory layout and device, and read back as float64.

Everything that depends on torch or NumPy as a *subject's* framework is here, behind one small protocol.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError, did_you_mean


class Framework(Protocol):
    """What a runner needs of a framework. Arrays are of its own type except where NumPy is named."""

    name: str

    def make(self, array: NDArray[Any], dtype: str, device: str, layout: str, index: int) -> Any:
        """An array of the framework with these entries; `index` is the position among the inputs."""
        ...

    def is_array(self, x: Any) -> bool: ...

    def strange(self, x: Any) -> str:
        """Why the entries of an array may not be those of its memory; nothing where they are."""
        ...

    def read(self, x: Any) -> NDArray[Any]:
        """The entries, fractions as float64, without aliasing `x`."""
        ...

    def dtype(self, x: Any) -> str: ...

    def device(self, x: Any) -> str: ...

    def same(self, x: Any, y: Any) -> bool:
        """Bit for bit the same entries (NaN is NaN)."""
        ...

    def memory(self, x: Any) -> tuple[int, int]:
        """The addresses of the first byte and behind the last byte of the storage."""
        ...

    def poisoned(self) -> AbstractContextManager[None]:
        """A stretch in which new memory is filled with NaN, so that an output that is not written shows."""
        ...

    def session(self) -> AbstractContextManager[None]:
        """A stretch of calls: one thread, no gradients; the settings of before come back."""
        ...


def _laid_out(array: Any, layout: str, index: int, empty: Any) -> Any:
    """`array` copied into another memory layout; `empty(shape)` makes an array of the framework.

    Entries, shape and dtype stay; only strides and offset change.
    """
    shape = tuple(array.shape)
    if layout == "mixed":
        layout = ("contiguous", "transposed", "strided", "transposed")[index % 4]
    elif layout == "lone":
        layout = ("contiguous", "contiguous", "transposed")[index % 3]
    if layout == "contiguous" or len(shape) == 0:
        return array
    if layout == "strided":
        room = empty((*shape[:-1], 2 * shape[-1]))[..., ::2]
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


def _stored_once(array: NDArray[Any]) -> NDArray[Any] | None:
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


class NumpyFramework:
    """NumPy arrays; bfloat16 by ml_dtypes, which carries it but does not round for us."""

    name = "numpy"

    @staticmethod
    @functools.cache
    def _dtype(name: str) -> Any:
        if name == "bfloat16":
            try:
                import ml_dtypes
            except ImportError:
                raise UsageError("NumPy has bfloat16 only with ml_dtypes: pip install ml_dtypes") from None
            return np.dtype(ml_dtypes.bfloat16)
        return np.dtype(name)

    def make(self, array: NDArray[Any], dtype: str, device: str, layout: str, index: int) -> Any:
        target = self._dtype(dtype) if array.dtype.kind == "f" else array.dtype
        if layout == "expanded" and (once := _stored_once(array)) is not None:
            return np.broadcast_to(once.astype(target), array.shape)
        made = array.astype(target)
        return _laid_out(made, layout, index, lambda shape: np.empty(shape, target))

    def is_array(self, x: Any) -> bool:
        return isinstance(x, np.ndarray | np.generic)

    def strange(self, x: Any) -> str:
        if isinstance(x, np.ma.MaskedArray):
            count = int(np.ma.getmaskarray(x).sum())
            return f"{count} of its {x.size} entries are masked" if count else ""
        if not isinstance(x, np.ndarray) or type(x) in (np.ndarray, np.matrix, np.memmap):
            return ""
        return f"{type(x).__module__}.{type(x).__name__} is a kind of array of its own; return a plain numpy.ndarray"

    def read(self, x: Any) -> NDArray[Any]:
        x = np.asarray(x)
        return x.copy() if x.dtype.kind in "biu" else x.astype(np.float64)

    def dtype(self, x: Any) -> str:
        return str(x.dtype)

    def device(self, x: Any) -> str:
        return "cpu"

    def same(self, x: Any, y: Any) -> bool:
        return bool(np.array_equal(x, y) or np.array_equal(x.astype(np.float64), y.astype(np.float64), equal_nan=True))

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


class TorchFramework:
    """Torch tensors, on any device."""

    name = "torch"

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.dtypes = {
            name: getattr(torch, name) for name in ("float64", "float32", "bfloat16", "float16", "int64", "bool")
        }
        self.names = {dtype: name for name, dtype in self.dtypes.items()}

    def make(self, array: NDArray[Any], dtype: str, device: str, layout: str, index: int) -> Any:
        if not array.flags.writeable or any(stride < 0 for stride in array.strides):
            array = array.copy()
        tensor = self.torch.from_numpy(array)
        if array.dtype.kind == "f" and layout == "expanded" and (once := _stored_once(array)) is not None:
            first = self.torch.from_numpy(once).to(device=device, dtype=self.dtypes[dtype], copy=True)
            return first.expand(tensor.shape)
        target = self.dtypes[dtype] if array.dtype.kind == "f" else tensor.dtype
        made = tensor.to(device=device, dtype=target, copy=True)
        return _laid_out(made, layout, index, lambda shape: self.torch.empty(shape, dtype=target, device=device))

    def is_array(self, x: Any) -> bool:
        return isinstance(x, self.torch.Tensor)

    def strange(self, x: Any) -> str:
        kind, plain = type(x), self.torch.Tensor
        if kind in (plain, self.torch.nn.Parameter):
            return ""
        own = {name for base in kind.__mro__[: kind.__mro__.index(plain)] for name in vars(base)}
        if not own & set(dir(plain)) - {"__doc__", "__module__", "__dict__", "__weakref__"}:
            return ""
        return f"{kind.__module__}.{kind.__name__} is a kind of tensor of its own; return a plain torch.Tensor"

    def read(self, x: Any) -> NDArray[Any]:
        x = x.detach()
        if not x.dtype.is_floating_point and not x.dtype.is_complex:
            return x.cpu().numpy().copy()
        return x.to(device="cpu", dtype=self.torch.float64, copy=True).numpy()

    def dtype(self, x: Any) -> str:
        return self.names.get(x.dtype) or str(x.dtype).removeprefix("torch.")

    def device(self, x: Any) -> str:
        return str(x.device)

    def same(self, x: Any, y: Any) -> bool:
        if x.shape != y.shape or x.dtype != y.dtype or not self._has_memory(x, y):
            return False
        return self.torch.equal(x, y) or bool(((x == y) | ((x != x) & (y != y))).all())

    @staticmethod
    def _has_memory(x: Any, y: Any) -> bool:
        """Whether the storage of `x` is as long as its entries need; `y` has the same ones, contiguous."""
        length = x.untyped_storage().nbytes()
        if length >= y.untyped_storage().nbytes():
            return True
        last = sum((n - 1) * stride for n, stride in zip(x.shape, x.stride(), strict=True))
        return length >= (x.storage_offset() + last + 1) * x.element_size()

    def memory(self, x: Any) -> tuple[int, int]:
        storage = x.untyped_storage()
        return storage.data_ptr(), storage.data_ptr() + storage.nbytes()

    @contextmanager
    def poisoned(self) -> Iterator[None]:
        torch, memory = self.torch, cast(Any, self.torch.utils.deterministic)
        mode, filling = torch.get_deterministic_debug_mode(), memory.fill_uninitialized_memory
        torch.set_deterministic_debug_mode("warn")
        memory.fill_uninitialized_memory = True
        try:
            yield
        finally:
            memory.fill_uninitialized_memory = filling
            torch.set_deterministic_debug_mode(mode)

    @contextmanager
    def session(self) -> Iterator[None]:
        threads = self.torch.get_num_threads()
        self.torch.set_num_threads(1)
        try:
            with self.torch.no_grad():
                yield
        finally:
            self.torch.set_num_threads(threads)


FRAMEWORKS: dict[str, type[NumpyFramework] | type[TorchFramework]] = {
    "numpy": NumpyFramework,
    "torch": TorchFramework,
}


@functools.cache
def framework_named(name: str) -> Framework:
    """The framework of that name; an unknown one is a `UsageError`."""
    if name not in FRAMEWORKS:
        known = ", ".join(FRAMEWORKS)
        raise UsageError(f"unknown framework {name!r}{did_you_mean(name, FRAMEWORKS)} (known: {known})")
    return FRAMEWORKS[name]()
