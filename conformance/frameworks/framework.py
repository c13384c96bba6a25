"""The interface of a framework, and the code shared by frameworks whose arrays are copied from and to NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from attnspec.adapters import Unsupported

from ..errors import UsageError


class Framework(Protocol):
    """What a runner needs of a framework. Arrays are of its own type except where NumPy is named."""

    name: str

    def make(self, array: NDArray[Any], dtype: str, device: str, layout: str, index: int) -> Any:
        """An array of the framework with these entries; `index` is the position among the inputs.

        A framework without strides makes every layout contiguous.
        """
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

    def is_on(self, x: Any, device: str) -> bool:
        """Whether an array is on a device of that kind."""
        ...

    def devices(self) -> list[str]:
        """The devices that the framework has on this machine."""
        ...

    def same(self, x: Any, y: Any) -> bool:
        """Bit for bit the same entries (NaN is NaN). Of arrays that cannot be changed: whether `x` is still there."""
        ...

    def memory(self, x: Any) -> tuple[int, int]:
        """The addresses of the first byte and behind the last byte of the storage.

        Both are 0 where memory cannot be written to, so that it does not matter who shares it.
        """
        ...

    def poisoned(self) -> AbstractContextManager[None]:
        """A stretch in which new memory is filled with NaN, so that an output that is not written shows."""
        ...

    def computing(self, dtype: str) -> AbstractContextManager[None]:
        """A stretch in which the framework computes in that dtype."""
        ...

    def finish(self, result: Any, device: str) -> None:
        """Wait until what a call has begun on a device is done; what fails there raises."""
        ...

    def session(self) -> AbstractContextManager[None]:
        """A stretch of calls: one thread, no gradients; the settings of before come back."""
        ...

    def pulled_back(
        self, function: Callable[..., Any], leaves: list[Any], cotangents: list[Any], *, again: bool = False
    ) -> list[Any]:
        """What cotangents of a function's results are for each of its arguments, by automatic differentiation.

        The function returns a list of results, and each has a cotangent. With `again`, where a graph can be used twice,
        it is what a second backward pass through the same graph adds to gradients of zero.
        Raises `NotDifferentiableError` where a result has no gradients.
        """
        ...

    def forget(self) -> None:
        """Let go of what the framework keeps between calls, such as compiled functions."""
        ...


class NotDifferentiableError(Exception):
    """A function has no gradients; the text says why."""


@functools.cache
def numpy_dtype(name: str) -> Any:
    """NumPy's dtype of that name; bfloat16 and float8 are those of ml_dtypes."""
    if not name.startswith(("bfloat", "float8")):
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise UsageError(f"NumPy has {name} only with ml_dtypes: pip install ml_dtypes") from None
    if not hasattr(ml_dtypes, name):
        raise UsageError(f"ml_dtypes has no {name}")
    return np.dtype(getattr(ml_dtypes, name))


NAMED = r"[A-Za-z][\w.:=,()-]{0,63}"
"""What devices are called, JAX's own names among them."""


def kind_of(device: str) -> str:
    """The kind of a device, as in `cuda` for `cuda:1`."""
    return device.partition(":")[0].lower()


def index_of(device: str) -> int | None:
    """The number of a device; None where any will do."""
    number = device.partition(":")[2]
    return int(number) if number.isdigit() else None


def parts_of(result: Any) -> Iterator[Any]:
    """What a function returned, one after the other: the parts of a tuple, list or dict, or the result itself."""
    if type(result) in (tuple, list):
        for part in result:
            yield from parts_of(part)
    elif isinstance(result, dict):
        yield from parts_of([*result.values()])
    else:
        yield result


def same_entries(x: NDArray[Any], y: NDArray[Any]) -> bool:
    """Whether two arrays of NumPy have the same entries (NaN is NaN)."""
    return bool(np.array_equal(x, y) or np.array_equal(x.astype(np.float64), y.astype(np.float64), equal_nan=True))


class Copied:
    """A framework whose arrays are made of NumPy's, contiguous, and read by DLPack where NumPy has the dtype.

    What a framework has of its own is in `put`, `taken`, `is_array` and `dtype`.
    """

    name = ""

    def put(self, entries: NDArray[Any], device: str) -> Any:
        """An array of the framework with these entries, in the same dtype."""
        raise NotImplementedError

    def taken(self, x: Any) -> NDArray[Any]:
        """The entries of an array that DLPack cannot hand to NumPy, in their own dtype."""
        return np.asarray(x)

    def make(self, array: NDArray[Any], dtype: str, device: str, layout: str, index: int) -> Any:
        target = numpy_dtype(dtype) if array.dtype.kind == "f" else array.dtype
        return self.put(np.array(array, target, order="C"), device)

    def is_array(self, x: Any) -> bool:
        raise NotImplementedError

    def strange(self, x: Any) -> str:
        return ""

    def entries(self, x: Any) -> NDArray[Any]:
        """The entries in their own dtype, by DLPack or else in the framework's own way; they may alias `x`."""
        try:
            return np.from_dlpack(x)
        except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
            return self.taken(x)

    def read(self, x: Any) -> NDArray[Any]:
        found = self.entries(x)
        return found.copy() if found.dtype.kind in "biu" else found.astype(np.float64)

    def dtype(self, x: Any) -> str:
        return str(x.dtype)

    def device(self, x: Any) -> str:
        return "cpu"

    def is_on(self, x: Any, device: str) -> bool:
        return kind_of(self.device(x)) == kind_of(device)

    def devices(self) -> list[str]:
        return ["cpu"]

    def same(self, x: Any, y: Any) -> bool:
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
        return same_entries(self.entries(x), self.entries(y))

    def memory(self, x: Any) -> tuple[int, int]:
        return 0, 0

    def poisoned(self) -> AbstractContextManager[None]:
        return nullcontext()

    def computing(self, dtype: str) -> AbstractContextManager[None]:
        return nullcontext()

    def finish(self, result: Any, device: str) -> None:
        pass

    def pulled_back(
        self, function: Callable[..., Any], leaves: list[Any], cotangents: list[Any], *, again: bool = False
    ) -> list[Any]:
        raise NotDifferentiableError(f"arrays of {self.name} have no automatic differentiation here")

    def session(self) -> AbstractContextManager[None]:
        return self._session()

    @contextmanager
    def _session(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.forget()

    def forget(self) -> None:
        pass


def refusing(says: str, call: Callable[[], Any]) -> Any:
    """What a call returns; an error of it, but for one that refuses, is a `NotDifferentiableError`."""
    try:
        return call()
    except (Unsupported, NotDifferentiableError):
        raise
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raise NotDifferentiableError(f"{says}: {type(error).__name__}: {first}") from error


def renamed(x: Any, names: Mapping[str, str]) -> str:
    """The name of a dtype as it is called here."""
    last = str(x).rpartition(".")[2]
    return names.get(last, last)
