"""The products of a sliding window, as the Longformer and LED models of Hugging Face transformers compute them.

Source: transformers/models/longformer/modeling_longformer.py and transformers/models/led/modeling_led.py
(_sliding_chunks_query_key_matmul).
Sequences are cut into overlapping chunks of twice the window, and their length is a multiple of that; the models pad
them beforehand.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from .. import Unsupported, adapter

DTYPES = ("float32", "bfloat16", "float16", "float64")


def products(kind: Any, q: Any, k: Any, window: int) -> Any:
    """One call of a method that reads nothing of its layer but static methods and this."""
    if q.shape[1] == 0 or q.shape[1] % (2 * window):
        raise Unsupported("the length is a multiple of twice the window")
    layer = SimpleNamespace(
        config=SimpleNamespace(onnx_export=False),
        _chunk=kind._chunk,
        _pad_and_transpose_last_two_dims=kind._pad_and_transpose_last_two_dims,
        _mask_invalid_locations=kind._mask_invalid_locations,
    )
    return kind._sliding_chunks_query_key_matmul(layer, q, k, window)


@adapter(
    "band_scores",
    requires="length % (2 * window) == 0",
    dtypes=DTYPES,
    conventions={"beyond_ends": "minus_infinity"},
    package="transformers",
    extra="transformers",
)
def transformers_longformer(q: Any, k: Any, *, window: int) -> Any:
    """LongformerSelfAttention._sliding_chunks_query_key_matmul."""
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    return products(LongformerSelfAttention, q, k, window)


@adapter(
    "band_scores",
    requires="length % (2 * window) == 0",
    dtypes=DTYPES,
    conventions={"beyond_ends": "minus_infinity"},
    package="transformers",
    extra="transformers",
)
def transformers_led(q: Any, k: Any, *, window: int) -> Any:
    """LEDEncoderSelfAttention._sliding_chunks_query_key_matmul."""
    from transformers.models.led.modeling_led import LEDEncoderSelfAttention

    return products(LEDEncoderSelfAttention, q, k, window)
