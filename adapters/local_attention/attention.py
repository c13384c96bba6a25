"""The package local-attention, its window of the exact size.

Documentation: https://github.com/lucidrains/local-attention
Queries and keys stand in blocks of `window_size`, and a query looks at its own block and those beside it; with
`exact_windowsize`, a causal query sees at most as many keys as the window, by the documentation, and one that is not
sees that many positions on each side.
Its padding mask is one of keys, and hidden keys are filled with the lowest finite number.
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter

DTYPES = ("float32", "bfloat16", "float16", "float64")


@adapter(
    "attention",
    requires=(
        "q_len == k_len",
        "heads == kv_heads",
        "window_left != none",
        "causal or window_left == window_right and window_left > 0",
        "not causal or window_right == none",
        "size(mask == full(true, 1, 1, 1, 1), 1) * size(mask == full(true, 1, 1, 1, 1), 2) == 1",
    ),
    dtypes=DTYPES,
    grade={"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"},
    package="local_attention",
    extra="local-attention",
)
def local_attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    window_left: int | None,
    window_right: int | None = None,
    scale: float | None = None,
) -> Any:
    """LocalAttention with exact_windowsize, without rotary embeddings."""
    from local_attention import LocalAttention

    if q.shape[:3] != k.shape[:3]:
        raise Unsupported("as many queries and heads as keys")
    if window_left is None or (not causal and (window_left == 0 or window_right != window_left)):
        raise Unsupported("a window is causal, or of at least one position and the same on both sides")
    if causal and window_right is not None:
        raise Unsupported("a causal window has no right side")
    if mask is not None:
        if mask.ndim != 4 or mask.shape[1:3] != (1, 1):
            raise Unsupported("a mask hides keys, for all heads and queries alike")
        mask = mask[:, 0, 0].expand(q.shape[0], q.shape[2])
    size = window_left + 1 if causal else window_left
    attend = LocalAttention(size, causal=causal, autopad=True, exact_windowsize=True, scale=scale)
    return attend.eval()(q, k, v, mask=mask)
