"""The attention of x-transformers over a cache of keys and values.

Source: x_transformers/attend.py (Attend); its Attention puts what is cached before the keys and values of a chunk, and
so does `session`.
Attend aligns its causal mask at the end of the keys, and query heads take turns over the heads of keys and values.
Scores, or queries times a given scale, are stored in the dtype of the inputs; the softmax is taken in float32.
"""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16", "float64")
GRADES = {"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp32"}


def session(q: Any, k: Any, v: Any, chunks: tuple[int, ...], beams: Any, scale: float | None, flash: bool) -> Any:
    """All chunks through one cache: [batch, heads, length, value_dim]."""
    import torch
    from x_transformers.attend import Attend

    attend = Attend(causal=True, flash=flash, scale=scale, heads=q.shape[1])
    keys, values, outs, start = k[:, :, :0], v[:, :, :0], [], 0
    for n in chunks:
        part = slice(start, start + n)
        keys, values = torch.cat([keys, k[:, :, part]], 2), torch.cat([values, v[:, :, part]], 2)
        outs.append(attend(q[:, :, part], keys, values)[0])
        if start == 0 and beams is not None:
            keys, values = keys[list(beams)], values[list(beams)]
        start += n
    return torch.cat(outs, 2)


@adapter(
    "cached_attention",
    dtypes=DTYPES,
    conventions={"grouping": "tiled"},
    grade=GRADES,
    package="x_transformers",
    extra="x-transformers",
)
def x_transformers_attend(
    q: Any, k: Any, v: Any, *, chunks: tuple[int, ...], beams: Any = None, scale: float | None = None
) -> Any:
    """Attend of x-transformers, composed of elementary operations."""
    return session(q, k, v, chunks, beams, scale, flash=False)


@adapter(
    "cached_attention",
    dtypes=DTYPES,
    conventions={"grouping": "tiled"},
    grade=GRADES,
    package="x_transformers",
    extra="x-transformers",
)
def x_transformers_attend_flash(
    q: Any, k: Any, v: Any, *, chunks: tuple[int, ...], beams: Any = None, scale: float | None = None
) -> Any:
    """Attend of x-transformers by scaled dot-product attention."""
    return session(q, k, v, chunks, beams, scale, flash=True)
