"""The cache of com.microsoft.GroupQueryAttention of ONNX Runtime, on its CPU provider.

Documentation: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
The operator takes the past, [batch, kv_heads, length, head_dim], and returns the present; several queries after a past
come in a batch of one, and its window counts the token itself.
An item that is shorter than others writes over what its past has behind it.
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
    kept: Any = None,
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
    keys, values, outs, start, filled = k[:, :, :0], v[:, :, :0], [], 0, np.zeros(batch, np.int32)
    for c, n in enumerate(chunks):
        part = slice(start, start + n)
        feeds = {"query": joined(q[:, :, part]), "key": joined(k[:, :, part]), "value": joined(v[:, :, part])}
        past = max(filled, default=0)
        feeds |= {"past_key": keys[:, :, :past], "past_value": values[:, :, :past]}
        feeds |= {"seqlens_k": (filled + n - 1).astype(np.int32)}
        feeds |= {"total_sequence_length": np.array(past + n, np.int32)}
        out, keys, values = run("GroupQueryAttention", "com.microsoft", 21, feeds, 3, **options)
        outs.append(parted(out, heads))
        if start == 0 and beams is not None:
            keys, values = keys[list(beams)], values[list(beams)]
        filled, start = filled + (n if kept is None else kept[:, c]), start + n
    return np.concatenate(outs, 2)
