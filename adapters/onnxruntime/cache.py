"""The cache of com.microsoft.GroupQueryAttention of ONNX Runtime, on its CPU provider.

Documentation: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
The operator takes the past, [batch, kv_heads, length, head_dim], and returns the present; several queries after a past
come in a batch of one, and its window counts the token itself.
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter
from .attention import joined, parted, run


@adapter(
    "cached_attention",
    requires=("value_dim == head_dim", "batch == 1 or all(chunks[1:] <= 1)"),
    framework="numpy",
    dtypes=("float32", "float16"),
    conventions={"grouping": "block"},
    limits={"head_dim": range(8, 1025, 8)},
    grade={"float32": "fp32", "float16": "fp16_naive"},
    package="onnxruntime",
    extra="onnxruntime",
)
def onnxruntime_past(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    window_left: int | None = None,
    beams: Any = None,
    scale: float | None = None,
) -> Any:
    """com.microsoft.GroupQueryAttention with past_key and past_value, by ONNX Runtime."""
    import numpy as np

    batch, heads, _, _ = q.shape
    if v.shape != k.shape:
        raise Unsupported("values have the shape of the keys")
    if batch > 1 and any(n > 1 for n in chunks[1:]):
        raise Unsupported("several queries after a past in a batch of one")
    options = {"num_heads": heads, "kv_num_heads": k.shape[1], "scale": scale}
    options["local_window_size"] = -1 if window_left is None else window_left + 1
    keys, values, outs, start = k[:, :, :0], v[:, :, :0], [], 0
    for n in chunks:
        part = slice(start, start + n)
        feeds = {"query": joined(q[:, :, part]), "key": joined(k[:, :, part]), "value": joined(v[:, :, part])}
        feeds |= {"past_key": keys, "past_value": values}
        feeds |= {"seqlens_k": np.full(batch, part.stop - 1, np.int32)}
        feeds |= {"total_sequence_length": np.array(part.stop, np.int32)}
        out, keys, values = run("GroupQueryAttention", "com.microsoft", 21, feeds, 3, **options)
        outs.append(parted(out, heads))
        if start == 0 and beams is not None:
            keys, values = keys[list(beams)], values[list(beams)]
        start += n
    return np.concatenate(outs, 2)
