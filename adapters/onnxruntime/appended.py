"""com.microsoft.GroupQueryAttention of ONNX Runtime with caches that it writes to in place, on its CPU provider.

Documentation: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
The past and the present share their memory, [batch, kv_heads, capacity, head_dim], and an item is told its last place.
Several queries after a past come in a batch of one, and the window counts the token itself.
Half as many channels as are turned are a multiple of eight. Sines and cosines are inputs, made in double precision.
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter
from .attention import session

CACHES = ("past_key", "past_value")


def turns(capacity: int, base: float, width: int, dtype: Any) -> dict[str, Any]:
    """Cosines and sines of all places of a cache: each [capacity, width / 2]."""
    import numpy as np

    angle = np.arange(capacity)[:, None] * float(base) ** (-np.arange(0, width, 2) / width)
    return {"cos_cache": np.cos(angle).astype(dtype), "sin_cache": np.sin(angle).astype(dtype)}


@adapter(
    "appended_attention",
    layout="bshd_bhsd",
    requires=(
        "value_dim == head_dim",
        "batch == 1 or length == 1 or all(k_lens == 0)",
        "base == none or (head_dim if rotary_dim == none else rotary_dim) % 16 == 0",
    ),
    framework="numpy",
    dtypes=("float32", "float16"),
    conventions={"masked_nonfinite": "ignored", "grouping": "block"},
    limits={"head_dim": range(8, 1025, 8)},
    grade={"float32": "fp32", "float16": "fp16_naive"},
    package="onnxruntime",
    extra="onnxruntime",
)
def onnxruntime_shared_past(
    q: Any,
    k: Any,
    v: Any,
    key_cache: Any,
    value_cache: Any,
    k_lens: Any,
    *,
    scale: float | None = None,
    window_left: int | None = None,
    softcap: float | None = None,
    base: float | None = None,
    interleaved: bool = False,
    rotary_dim: int | None = None,
) -> Any:
    """com.microsoft.GroupQueryAttention with a past and a present that share their memory, by ONNX Runtime."""
    import numpy as np
    import onnxruntime

    (batch, length, heads, _), capacity = q.shape, key_cache.shape[2]
    if batch > 1 and length > 1 and k_lens.any():
        raise Unsupported("several queries after a past in a batch of one")
    feeds = {name: x.reshape(batch, length, -1) for name, x in (("query", q), ("key", k), ("value", v))}
    feeds |= {name: np.array(x, order="C") for name, x in zip(CACHES, (key_cache, value_cache), strict=True)}
    feeds |= {"seqlens_k": (k_lens + length - 1).astype(np.int32)}
    feeds |= {"total_sequence_length": np.array(k_lens.max() + length, np.int32)}
    options = {"num_heads": heads, "kv_num_heads": k.shape[2], "scale": scale, "softcap": softcap}
    options |= {"local_window_size": -1 if window_left is None else window_left + 1}
    if base is not None:
        feeds |= turns(capacity, base, rotary_dim or q.shape[3], q.dtype)
        options |= {"do_rotary": 1, "rotary_interleaved": int(interleaved)}
    dtypes = tuple((name, str(x.dtype)) for name, x in feeds.items())
    given = {name: x for name, x in options.items() if x is not None}
    found = session("GroupQueryAttention", "com.microsoft", 21, dtypes, ("query", *CACHES), **given)
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(x)) for name, x in feeds.items()}
    bound = found.io_binding()
    for name, value in values.items():
        bound.bind_ortvalue_input(name, value)
    bound.bind_output("output_0")
    for number, name in enumerate(CACHES, 1):
        bound.bind_ortvalue_output(f"output_{number}", values[name])
    found.run_with_iobinding(bound)
    out = bound.get_outputs()[0].numpy().reshape(q.shape)
    return {"out": out, "keys": feeds["past_key"], "values": feeds["past_value"]}
