"""Torch tensors, on any device that torch has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

from numpy.typing import NDArray

from .framework import NotDifferentiableError, kind_of, refusing
from .layouts import laid_out, stored_once

DTYPES = (
    *("float64", "float32", "bfloat16", "float16", "int64", "bool"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "int8", "uint8"),
)
UNDIFFERENTIABLE = re.compile(
    "derivative for|not implemented|must implement|autograd kernel|modified by an inplace operation", re.IGNORECASE
)
"""What torch says of an operation without a backward pass."""
REENTRANT = "use_reentrant=True"
"""What torch says where a graph has a checkpoint of which `torch.autograd.grad` takes no gradients."""
KINDS = ("cuda", "mps", "xpu", "hpu", "npu", "mtia", "xla")
"""The kinds of devices that torch or a package beside it has, where `torch.KIND` says whether one is there."""


def _seed(torch: Any) -> Any:
    """A function of an output and a cotangent, whose result is a scalar that has the cotangent as its gradient.

    `torch.autograd.grad` that is passed a cotangent imports SymPy to compare shapes: 0.3 s of CPU in each process.
    """

    class Seed(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, out: Any, cotangent: Any) -> Any:
            context.cotangent = cotangent
            return torch.zeros((), dtype=out.dtype, device=out.device)

        @staticmethod
        def backward(context: Any, _: Any) -> Any:
            return context.cotangent, None

    return Seed


class TorchFramework:
    """Torch tensors, on any device."""

    name = "torch"

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.dtypes = {name: getattr(torch, name) for name in DTYPES if hasattr(torch, name)}
        self.names = {dtype: name for name, dtype in self.dtypes.items()}
        self.seed = _seed(torch)

    def make(self, array: NDArray[Any], dtype: str, device: str, layout: str, index: int) -> Any:
        if not array.flags.writeable or any(stride < 0 for stride in array.strides):
            array = array.copy()
        tensor = self.torch.from_numpy(array)
        if array.dtype.kind == "f" and layout == "expanded" and (once := stored_once(array)) is not None:
            first = self.torch.from_numpy(once).to(device=device, dtype=self.dtypes[dtype], copy=True)
            return first.expand(tensor.shape)
        target = self.dtypes[dtype] if array.dtype.kind == "f" else tensor.dtype
        made = tensor.to(device=device, dtype=target, copy=True)
        return laid_out(made, layout, index, lambda shape: self.torch.empty(shape, dtype=target, device=device))

    def is_array(self, x: Any) -> bool:
        return isinstance(x, self.torch.Tensor)

    def strange(self, x: Any) -> str:
        kind, plain = type(x), self.torch.Tensor
        if kind in (plain, self.torch.nn.Parameter):
            return ""
        own = {name for base in kind.__mro__[: kind.__mro__.index(plain)] for name in vars(base)}
        if not own & set(dir(plain)) - {"__doc__", "__module__", "__dict__", "__weakref__"}:
            return ""
        return f"{kind.__module__}.{kind.__name__} is a subclass of a tensor; return a plain torch.Tensor"

    def read(self, x: Any) -> NDArray[Any]:
        x = x.detach()
        if not x.dtype.is_floating_point and not x.dtype.is_complex:
            return x.cpu().numpy().copy()
        return x.to(device="cpu", dtype=self.torch.float64, copy=True).numpy()

    def dtype(self, x: Any) -> str:
        return self.names.get(x.dtype) or str(x.dtype).removeprefix("torch.")

    def device(self, x: Any) -> str:
        return str(x.device)

    def is_on(self, x: Any, device: str) -> bool:
        return x.device.type == kind_of(device)

    def devices(self) -> list[str]:
        found = ["cpu"]
        for kind in KINDS:
            module = getattr(self.torch, kind, None) or getattr(self.torch.backends, kind, None)
            if module is not None and getattr(module, "is_available", bool)():
                found += [f"{kind}:{index}" for index in range(getattr(module, "device_count", lambda: 1)())]
        return found

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

    def computing(self, dtype: str) -> AbstractContextManager[None]:
        return nullcontext()

    def finish(self, result: Any, device: str) -> None:
        kind = kind_of(device)
        if kind != "cpu" and (wait := getattr(getattr(self.torch, kind, None), "synchronize", None)):
            wait()

    def pulled_back(
        self, function: Callable[..., Any], leaves: list[Any], cotangents: list[Any], *, again: bool = False
    ) -> list[Any]:
        torch = self.torch
        with torch.enable_grad():
            own = [x.detach().requires_grad_() for x in leaves]
            outs = refusing("its inputs cannot be differentiated", lambda: function(*own))
            for number, out in enumerate(outs, 1):
                if not self.is_array(out) or not out.requires_grad:
                    which = "output" if number == 1 else f"output number {number}"
                    raise NotDifferentiableError(f"its {which} does not depend on its inputs by autograd")
            try:
                seeds = [self.seed.apply(*both) for both in zip(outs, cotangents, strict=True)]
                if again:
                    return self._second(seeds, own)
                found = torch.autograd.grad(seeds, own, allow_unused=True, materialize_grads=True)
            except (NotImplementedError, RuntimeError) as error:
                if REENTRANT in str(error):
                    return self._by_backward(function, leaves, cotangents)
                if isinstance(error, NotImplementedError) or UNDIFFERENTIABLE.search(str(error)):
                    raise NotDifferentiableError(str(error).partition("\n")[0]) from error
                raise
        given = {x.data_ptr() for x in cotangents}
        return [x.clone() if x.data_ptr() in given else x for x in found]

    def _by_backward(self, function: Callable[..., Any], leaves: list[Any], cotangents: list[Any]) -> list[Any]:
        """The gradients as they are added to `grad` of the leaves: a checkpoint in the graph may know nothing else."""
        own = [x.detach().requires_grad_() for x in leaves]
        self.torch.autograd.backward(list(function(*own)), cotangents)
        return [self.torch.zeros_like(x) if x.grad is None else x.grad for x in own]

    def _second(self, seeds: list[Any], leaves: list[Any]) -> list[Any]:
        """What a second backward pass adds to `grad` of the leaves; a graph may refuse it."""
        torch = self.torch
        try:
            torch.autograd.grad(seeds, leaves, retain_graph=True, allow_unused=True)
            for x in leaves:
                x.grad = torch.zeros_like(x)
            torch.autograd.backward(seeds)
        except Exception as error:
            raise NotDifferentiableError(f"a second time: {str(error).partition(chr(10))[0]}") from error
        return [x.grad for x in leaves]

    def forget(self) -> None:
        pass
