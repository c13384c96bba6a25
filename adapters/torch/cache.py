"""A cache that grows by concatenation, before PyTorch's scaled dot-product attention.

Documentation: https://docs.pytorch.org/docs/stable/generated/torch.nn.attention.bias.causal_lower_right.html
Its causal flag is aligned top-left, so that a chunk with a history needs the bias `causal_lower_right`.
"""

from __future__ import annotations

from typing import Any

from .. import adapter


@adapter(
    "cached_attention",
    dtypes=("float32", "bfloat16", "float16", "float64"),
    conventions={"grouping": "block"},
    package="torch",
)
def torch_causal_lower_right(
    q: Any, k: Any, v: Any, *, chunks: tuple[int, ...], beams: Any = None, scale: float | None = None
) -> Any:
    """scaled_dot_product_attention with torch.nn.attention.bias.causal_lower_right."""
    import torch
    from torch.nn.attention.bias import causal_lower_right

    keys, values, outs, start = k[:, :, :0], v[:, :, :0], [], 0
    for n in chunks:
        part = slice(start, start + n)
        keys, values = torch.cat([keys, k[:, :, part]], 2), torch.cat([values, v[:, :, part]], 2)
        out = torch.nn.functional.scaled_dot_product_attention(
            q[:, :, part],
            keys,
            values,
            attn_mask=causal_lower_right(n, part.stop),
            scale=scale,
            enable_gqa=q.shape[1] != k.shape[1],
        )
        outs.append(out)
        if start == 0 and beams is not None:
            keys, values = keys[list(beams)], values[list(beams)]
        start += n
    return torch.cat(outs, 2)
