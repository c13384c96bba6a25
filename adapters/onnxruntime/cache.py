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

KINDS = ("query", "past_key", "past_value")
"""The inputs that have the types of the output and of the present."""


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


INTEGERS: dict[str, Any] = {
    "framework": "numpy",
    "conventions": {"grouping": "block", "own_chunk": "as_kept", "least_code": "one_more"},
    "limits": {"head_dim": range(8, 1025, 8)},
    "package": "onnxruntime",
    "extra": "onnxruntime",
}
GIVEN = (
    "value_dim == head_dim",
    "batch == 1 or all(chunks[1:] <= 1)",
    "cache_dtype == i8",
    "not single(k_scale) and not single(v_scale)",
    "size(k_scale, 1) == size(v_scale, 1)",
)


def coded_past(q: Any, k: Any, v: Any, chunks: Any, scales: Any, window: int | None, scale: Any, bits: int) -> Any:
    """com.microsoft.GroupQueryAttention with a past in integers, of which two of four bits share a byte."""
    import numpy as np

    batch, heads, _, dim = q.shape
    groups = k.shape[1]
    kind = "PER_TENSOR" if scales[0].shape[1] == 1 else "PER_CHANNEL"
    options = {"num_heads": heads, "kv_num_heads": groups, "scale": scale, "kv_cache_bit_width": bits}
    options |= {"local_window_size": -1 if window is None else window + 1}
    options |= {"k_quant_type": kind, "v_quant_type": kind}
    steps = [
        x.reshape(-1) if kind == "PER_TENSOR" else np.ascontiguousarray(np.broadcast_to(x, (1, groups, 1, dim)))
        for x in scales
    ]
    keys = values = np.zeros((batch, groups, 0, dim * bits // 8), np.int8 if bits == 8 else np.uint8)
    outs, start = [], 0
    for n in chunks:
        part = slice(start, start + n)
        feeds = {"query": joined(q[:, :, part]), "key": joined(k[:, :, part]), "value": joined(v[:, :, part])}
        feeds |= {"past_key": keys, "past_value": values}
        feeds |= {"seqlens_k": np.full(batch, start + n - 1, np.int32)}
        feeds |= {"total_sequence_length": np.array(start + n, np.int32)}
        feeds |= dict.fromkeys(("cos_cache", "sin_cache", "position_ids", "attention_bias", "head_sink"))
        feeds |= {"k_scale": steps[0], "v_scale": steps[1]}
        out, keys, values = run("GroupQueryAttention", "com.microsoft", 21, feeds, KINDS, **options)
        outs.append(parted(out, heads))
        start += n
    return np.concatenate(outs, 2)


@adapter("cached_attention", requires=GIVEN, **INTEGERS)
def onnxruntime_int8_past(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    cache_dtype: str,
    k_scale: Any,
    v_scale: Any,
    window_left: int | None = None,
    scale: float | None = None,
) -> Any:
    """com.microsoft.GroupQueryAttention with a past in int8, by scales for the tensor or for channels."""
    return coded_past(q, k, v, chunks, (k_scale, v_scale), window_left, scale, 8)


@adapter("cached_attention", requires=(*GIVEN, "cache_bits == 4"), **INTEGERS)
def onnxruntime_int4_past(
    q: Any,
    k: Any,
    v: Any,
    *,
    chunks: tuple[int, ...],
    cache_dtype: str,
    cache_bits: int,
    k_scale: Any,
    v_scale: Any,
    window_left: int | None = None,
    scale: float | None = None,
) -> Any:
    """com.microsoft.GroupQueryAttention with a past in four bits, by scales for the tensor or for channels."""
    return coded_past(q, k, v, chunks, (k_scale, v_scale), window_left, scale, cache_bits)
