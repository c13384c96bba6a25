"""The RotaryEmbedding operator of ONNX, by the evaluator that serves as its reference.

Documentation: https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html (version 23).
Sines and cosines are inputs; they are made here in double precision and rounded to the dtype of `x`, in which the
evaluator reckons.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter

DTYPES = ("float32", "float16", "bfloat16", "float64")
GRADES = {"float32": "fp32", "float16": "fp16_naive", "bfloat16": "bf16_naive", "float64": "fp64"}


@functools.cache
def evaluator(dtype: str, interleaved: bool, width: int, indexed: bool) -> Any:
    """An evaluator of a model of one RotaryEmbedding node; `indexed`, it looks positions up in its tables."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    elements = {"float32": "FLOAT", "float16": "FLOAT16", "bfloat16": "BFLOAT16", "float64": "DOUBLE"}
    element = getattr(onnx.TensorProto, elements[dtype])
    names = ["X", "cos_cache", "sin_cache"]
    inputs = [onnx.helper.make_tensor_value_info(name, element, None) for name in names]
    if indexed:
        names.append("position_ids")
        inputs.append(onnx.helper.make_tensor_value_info("position_ids", onnx.TensorProto.INT64, None))
    attributes: dict[str, Any] = {"interleaved": int(interleaved), "rotary_embedding_dim": width}
    node = onnx.helper.make_node("RotaryEmbedding", names, ["Y"], **attributes)
    output = onnx.helper.make_tensor_value_info("Y", element, None)
    graph = onnx.helper.make_graph([node], "rotary", inputs, [output])
    return ReferenceEvaluator(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)]))


def turned(x: Any, rows: Any, base: float, interleaved: bool, width: int | None, ids: Any = None) -> Any:
    """One call, with the sines and cosines of the positions `rows`."""
    import numpy as np

    channels = width or x.shape[-1]
    angle = rows[..., None] * float(base) ** (-np.arange(0, channels, 2) / channels)
    feeds = {"X": x, "cos_cache": np.cos(angle).astype(x.dtype), "sin_cache": np.sin(angle).astype(x.dtype)}
    if ids is not None:
        feeds["position_ids"] = ids
    return evaluator(str(x.dtype), interleaved, width or 0, ids is not None).run(None, feeds)[0]


@adapter("rotary", framework="numpy", dtypes=DTYPES, grade=GRADES, package="onnx", extra="onnx")
def onnx_rotary(
    x: Any, positions: Any, *, base: float = 10000.0, interleaved: bool = False, rotary_dim: int | None = None
) -> Any:
    """RotaryEmbedding of opset 23, by onnx.reference, given a row of sines and cosines for every token."""
    import numpy as np

    rows = np.broadcast_to(positions, (x.shape[0], *positions.shape))
    return turned(x, rows, base, interleaved, rotary_dim)


@adapter("rotary", framework="numpy", dtypes=DTYPES, grade=GRADES, package="onnx", extra="onnx")
def onnx_rotary_indexed(
    x: Any, positions: Any, *, base: float = 10000.0, interleaved: bool = False, rotary_dim: int | None = None
) -> Any:
    """RotaryEmbedding of opset 23, by onnx.reference, given tables and the index of every token's row in them."""
    import numpy as np

    low = positions.min(initial=0)
    rows = np.arange(low, positions.max(initial=0) + 1)
    ids = np.broadcast_to(positions - low, (x.shape[0], *positions.shape))
    return turned(x, rows, base, interleaved, rotary_dim, ids)


@adapter("rotary_pair", framework="numpy", dtypes=DTYPES, grade=GRADES, package="onnx", extra="onnx")
def onnx_rotary_pair(
    q: Any,
    k: Any,
    positions: Any,
    *,
    base: float = 10000.0,
    interleaved: bool = False,
    rotary_dim: int | None = None,
) -> Any:
    """RotaryEmbedding of opset 23 for queries and for keys, by onnx.reference, with `position_ids` of each item."""
    import numpy as np

    low = positions.min(initial=0)
    rows = np.arange(low, positions.max(initial=0) + 1)
    found = (turned(x, rows, base, interleaved, rotary_dim, positions - low) for x in (q, k))
    return dict(zip(("q_out", "k_out"), found, strict=True))
