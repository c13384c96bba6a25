"""A cache that grows by concatenation, before the fused attention of MLX.

Documentation: https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.fast.scaled_dot_product_attention.html
Its causal mask is aligned at the last key, as a chunk with a history needs it.
"""

from __future__ import annotations

from typing import Any

from .. import adapter
from .attention import GRADES


@adapter(
    "cached_attention",
    framework="mlx",
    dtypes=("float32", "bfloat16", "float16"),
    conventions={"grouping": "block"},
    grade=GRADES,
    package="mlx.core",
    extra="mlx",
)
def mlx_causal(
    q: Any, k: Any, v: Any, *, chunks: tuple[int, ...], beams: Any = None, scale: float | None = None
) -> Any:
    """mlx.core.fast.scaled_dot_product_attention with the mask causal."""
    import mlx.core as mx

    keys, values, outs, start = k[:, :, :0], v[:, :, :0], [], 0
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    for n in chunks:
        part = slice(start, start + n)
        keys = mx.concatenate([keys, k[:, :, part]], 2)
        values = mx.concatenate([values, v[:, :, part]], 2)
        attend = mx.fast.scaled_dot_product_attention
        outs.append(attend(q[:, :, part], keys, values, scale=factor, mask="causal"))
        if start == 0 and beams is not None:
            rows = mx.array(list(beams))
            keys, values = keys[rows], values[rows]
        start += n
    return mx.concatenate(outs, 2)
