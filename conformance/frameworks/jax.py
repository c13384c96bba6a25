"""JAX arrays, which cannot be changed and have no strides; double precision is on for calls in float64 alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.store import Store, private_folder
from ..errors import UsageError
from .framework import Copied, NotDifferentiableError, index_of, kind_of, refusing

UNDIFFERENTIABLE = "Reverse-mode differentiation does not work"
"""What JAX says of a loop whose length is not known when it is compiled."""
KEPT = 256 << 20
"""Bytes of compiled programs that are kept on disk."""


class JaxFramework(Copied):
    """JAX arrays, on any device that JAX has, also by the device's own name."""

    name = "jax"

    def __init__(self) -> None:
        import jax

        self.jax: Any = jax
        _keep_compiled(jax.config)

    def put(self, entries: NDArray[Any], device: str) -> Any:
        with self.jax.enable_x64(entries.dtype == np.float64):
            return self.jax.device_put(entries, self._device(device))

    def is_array(self, x: Any) -> bool:
        return isinstance(x, self.jax.Array)

    def strange(self, x: Any) -> str:
        if isinstance(x, self.jax.core.Tracer):
            return "an array of a finished trace has no entries"
        return "it was donated to another call, and has no entries" if x.is_deleted() else ""

    def device(self, x: Any) -> str:
        (first, *_) = x.devices()
        return f"{first.platform}:{first.id}"

    def is_on(self, x: Any, device: str) -> bool:
        return all(one.platform == self._device(device).platform for one in x.devices())

    def devices(self) -> list[str]:
        found = [one for platform in ("cpu", "gpu", "tpu") for one in self._of(platform)]
        found += [one for one in self.jax.devices() if one not in found]
        return list(dict.fromkeys(name for one in found for name in (f"{one.platform}:{one.id}", str(one))))

    def same(self, x: Any, y: Any) -> bool:
        """Whether an input is still there: its entries cannot be changed, but a call may use up its memory."""
        return not x.is_deleted()

    def computing(self, dtype: str) -> AbstractContextManager[None]:
        return self.jax.enable_x64(dtype == "float64")

    def finish(self, result: Any, device: str) -> None:
        self.jax.block_until_ready(result)

    def pulled_back(
        self, function: Callable[..., Any], leaves: list[Any], cotangents: list[Any], *, again: bool = False
    ) -> list[Any]:
        try:
            outs, pull = refusing("its inputs cannot be differentiated", lambda: self.jax.vjp(function, *leaves))
            further = [x.astype(out.dtype) for x, out in zip(cotangents[1:], outs[1:], strict=True)]
            return list(pull([cotangents[0], *further]))
        except ValueError as error:
            if UNDIFFERENTIABLE in str(error):
                raise NotDifferentiableError(str(error).partition("\n")[0]) from error
            raise

    def forget(self) -> None:
        """Let go of compiled functions, of which JAX keeps one for every shape."""
        self.jax.clear_caches()

    def _device(self, name: str) -> Any:
        for one in self.jax.devices():
            if name == str(one):
                return one
        found, index = self._of(kind_of(name)), index_of(name) or 0
        if index >= len(found):
            raise UsageError(f"JAX has no device {name!r} (it has {', '.join(self.devices())})")
        return found[index]

    def _of(self, platform: str) -> list[Any]:
        try:
            return self.jax.devices(platform)
        except RuntimeError:
            return []


def _keep_compiled(config: Any) -> None:
    """Have what JAX compiles be kept between processes, unless somebody has said where.

    Without `jit` every operation is compiled for every shape, which is nearly all that a check of such a function
    takes; what is kept is the very program that was compiled.
    JAX is given no bound, for it would read the whole folder, under a lock, whenever it adds a program to it.
    """
    folder = private_folder("jax")
    if config.jax_compilation_cache_dir is not None or folder is None:
        return
    config.update("jax_compilation_cache_dir", str(folder))
    config.update("jax_persistent_cache_min_compile_time_secs", 0)
    config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    Store("jax", KEPT).bound()
