"""Single operators of ONNX by ONNX Runtime, on its CPU provider.

Documentation: https://onnx.ai/onnx/operators/onnx__Softmax.html and
https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html; the one of its own under
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md (com.microsoft.RotaryEmbedding).
Sines and cosines are inputs, made here in double precision and rounded to the dtype of `x`; those of the operator of
its own have as many rows as the longest sequence.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter
from .attention import run

GRADES = {"float32": "fp32", "float16": "fp16_naive"}
declared = functools.partial(adapter, framework="numpy", package="onnxruntime", extra="onnxruntime")


@declared("softmax", dtypes=("float32", "float16", "float64"), conventions={"empty_row": "nans"})
def onnxruntime_softmax(x: Any) -> Any:
    """Softmax of opset 13, by ONNX Runtime."""
    return run("Softmax", "", 21, {"input": x}, axis=-1)[0]


def tables(x: Any, positions: Any, base: float, width: int | None, least: int = 0) -> tuple[Any, Any, Any]:
    """Tables of cosines and sines of so many rows at least, and the index of every token's row: [batch, length]."""
    import numpy as np

    channels = width or x.shape[-1]
    low = positions.min(initial=0)
    rows = np.arange(low, max(positions.max(initial=0) + 1, low + least))
    angle = rows[:, None] * float(base) ** (-np.arange(0, channels, 2) / channels)
    indices = np.broadcast_to(positions - low, (x.shape[0], *positions.shape))
    return np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype), indices


@declared("rotary", dtypes=("float32", "float16"), grade=GRADES)
def onnxruntime_rotary(
    x: Any, positions: Any, *, base: float = 10000.0, interleaved: bool = False, rotary_dim: int | None = None
) -> Any:
    """RotaryEmbedding of opset 23, by ONNX Runtime."""
    cos, sin, indices = tables(x, positions, base, rotary_dim)
    feeds = {"X": x, "cos_cache": cos, "sin_cache": sin, "position_ids": indices}
    options = {"interleaved": int(interleaved), "rotary_embedding_dim": rotary_dim or 0}
    return run("RotaryEmbedding", "", 23, feeds, **options)[0]


@declared("rotary", dtypes=("float32", "float16"), grade=GRADES)
def onnxruntime_rotary_of_its_own(
    x: Any, positions: Any, *, base: float = 10000.0, interleaved: bool = False, rotary_dim: int | None = None
) -> Any:
    """com.microsoft.RotaryEmbedding, by ONNX Runtime."""
    cos, sin, indices = tables(x, positions, base, rotary_dim, least=x.shape[2])
    feeds = {"input": x, "position_ids": indices, "cos_cache": cos, "sin_cache": sin}
    options = {"interleaved": int(interleaved), "num_heads": x.shape[1] if rotary_dim else 0}
    options |= {"rotary_embedding_dim": rotary_dim or 0}
    return run("RotaryEmbedding", "com.microsoft", 21, feeds, **options)[0]
