"""MLX kernels."""

import mlx.core as mx


def rope(x, dims, traditional=False, base=10000.0, scale=1.0, offset=0):
    positions = mx.arange(x.shape[-2], dtype=mx.float32) * scale + offset
    freqs = mx.exp(-mx.arange(0, dims // 2, dtype=mx.float32) * (2 * mx.log(mx.array(base)) / dims))
    theta = positions[:, None] * freqs
    cos, sin = mx.cos(theta), mx.sin(theta)
    r = x[..., :dims]
    if traditional:
        a, b = r[..., ::2], r[..., 1::2]
        y = mx.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(r.shape)
    else:
        a, b = r[..., : dims // 2], r[..., dims // 2 :]
        y = mx.concatenate([a * cos - b * sin, a * sin + b * cos], -1)
    return mx.concatenate([y.astype(x.dtype), x[..., dims:]], -1)
