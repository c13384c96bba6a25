"""The positions of labml.ai's annotated implementations.

Documentation: https://nn.labml.ai/transformers/rope/index.html and https://nn.labml.ai/transformers/alibi/index.html
Rotary embeddings take [length, batch, heads, channels] at the positions from zero on, pair channels by halves, and keep
their tables in float32, to which narrower inputs are promoted.
The bias multiplies the slope by the number of keys up to and including the key, as counted by a causal mask.
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter


@adapter("rotary", dtypes=("float32", "float64"), grade={"float64": "fp32"}, package="labml_nn", extra="labml")
def labml_rotary(x: Any, positions: Any, *, base: float = 10000.0, rotary_dim: int | None = None) -> Any:
    """RotaryPositionalEmbeddings of labml_nn.transformers.rope."""
    import torch
    from labml_nn.transformers.rope import RotaryPositionalEmbeddings

    if not torch.equal(positions, torch.arange(len(positions), device=positions.device)):
        raise Unsupported("the positions are those from zero on")
    theta: Any = base  # annotated as an integer there
    module = RotaryPositionalEmbeddings(rotary_dim or x.shape[-1], theta)
    return module(x.permute(2, 0, 1, 3)).permute(1, 2, 0, 3)


@adapter("alibi_slopes", conventions={"slopes": "interleaved"}, package="labml_nn", extra="labml")
def labml_slopes(*, heads: int) -> Any:
    """get_slopes of labml_nn.transformers.alibi."""
    from labml_nn.transformers.alibi import get_slopes

    return get_slopes(heads)


@adapter("alibi_bias", conventions={"slopes": "interleaved"}, package="labml_nn", extra="labml")
def labml_alibi(*, heads: int, q_len: int, k_len: int) -> Any:
    """get_alibi_biases of labml_nn.transformers.alibi, for a mask whose last query stands at the last key."""
    import torch
    from labml_nn.transformers.alibi import get_alibi_biases

    seen = torch.ones(q_len, k_len, dtype=torch.bool).tril(k_len - q_len)
    return get_alibi_biases(heads, seen).permute(2, 0, 1)
