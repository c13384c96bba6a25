"""Tensors of TensorFlow, which cannot be changed and have no strides."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from .framework import Copied, index_of, kind_of


class TensorflowFramework(Copied):
    """Tensors of TensorFlow, in its eager mode."""

    name = "tensorflow"

    def __init__(self) -> None:
        import tensorflow  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

        self.tensorflow: Any = tensorflow

    def put(self, entries: NDArray[Any], device: str) -> Any:
        with self.tensorflow.device(f"/{self._kind(device)}:{index_of(device) or 0}"):
            return self.tensorflow.constant(entries)

    def entries(self, x: Any) -> NDArray[Any]:
        return x.numpy()

    def is_array(self, x: Any) -> bool:
        return isinstance(x, self.tensorflow.Tensor | self.tensorflow.Variable)

    def dtype(self, x: Any) -> str:
        return str(x.dtype.name)

    def device(self, x: Any) -> str:
        kind, _, index = str(x.device).rpartition("device:")[2].lower().partition(":")
        return kind if kind == "cpu" else f"{kind}:{index}"

    def is_on(self, x: Any, device: str) -> bool:
        return kind_of(self.device(x)).upper() == self._kind(device)

    def devices(self) -> list[str]:
        found = self.tensorflow.config.list_logical_devices()
        return [one.name.removeprefix("/device:").lower() for one in found]

    def same(self, x: Any, y: Any) -> bool:
        """Nothing changes a tensor."""
        return True

    def finish(self, result: Any, device: str) -> None:
        if kind_of(device) != "cpu":
            self.tensorflow.test.experimental.sync_devices()

    @staticmethod
    def _kind(device: str) -> str:
        kind = kind_of(device)
        return "GPU" if kind == "cuda" else kind.upper()
