"""The ALiBi biases of MLX.

Documentation: https://ml-explore.github.io/mlx/build/html/python/nn/_autosummary/mlx.nn.ALiBi.html
They are added to scores, and so are found by adding them to zeros.
"""

from __future__ import annotations

from typing import Any

from .. import adapter


@adapter("alibi_bias", framework="mlx", conventions={"slopes": "interleaved"}, package="mlx.nn", extra="mlx")
def mlx_alibi(*, heads: int, q_len: int, k_len: int) -> Any:
    """mlx.nn.ALiBi on scores of zero, its queries the last of the keys."""
    import mlx.core as mx
    import mlx.nn

    scores = mx.zeros((1, heads, q_len, k_len))
    return mlx.nn.ALiBi()(scores, offset=k_len - q_len)[0]
