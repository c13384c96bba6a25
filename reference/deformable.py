"""Multi-scale deformable attention, point by point.

Zhu et al. 2021, Deformable DETR: deformable transformers for end-to-end object detection, arXiv:2010.04159, equation 3.
"""

import numpy as np


def deformable_attention(value, spatial_shapes, locations, weights):
    """What queries read of maps: [batch, queries, heads * dim].

    `value [batch, pixels, heads, dim]` has the maps of all levels, whose heights and widths are `spatial_shapes
    [levels, 2]`; `locations [batch, queries, heads, levels, points, 2]` are x and y from 0 to 1, and `weights [batch,
    queries, heads, levels, points]`.
    """
    fitting(value, spatial_shapes, locations, weights)
    batch, queries, heads, _, _ = weights.shape
    out = np.zeros((batch, queries, heads, value.shape[3]))
    for b, q, h, level, p in np.ndindex(weights.shape):
        for s, share, _, _ in corners(spatial_shapes, level, *locations[b, q, h, level, p]):
            out[b, q, h] += weights[b, q, h, level, p] * share * value[b, s, h]
    return out.reshape(batch, queries, -1)


def deformable_attention_gradient(value, spatial_shapes, locations, weights, d_out):
    """The gradients of sum(out * d_out), where `d_out [batch, queries, heads * dim]`."""
    fitting(value, spatial_shapes, locations, weights)
    g = d_out.reshape(*weights.shape[:3], -1)
    d_value, d_locations, d_weights = (np.zeros(x.shape) for x in (value, locations, weights))
    for b, q, h, level, p in np.ndindex(weights.shape):
        a = weights[b, q, h, level, p]
        for s, share, by_x, by_y in corners(spatial_shapes, level, *locations[b, q, h, level, p]):
            seen = g[b, q, h] @ value[b, s, h]
            d_value[b, s, h] += a * share * g[b, q, h]
            d_weights[b, q, h, level, p] += share * seen
            d_locations[b, q, h, level, p] += a * seen * np.array([by_x, by_y])
    return {"d_value": d_value, "d_locations": d_locations, "d_weights": d_weights}


def corners(shapes, level, x, y):
    """Of the pixels around a point their number, their share, and what that gains with x and with y."""
    H, W = shapes[level]
    start = sum(h * w for h, w in shapes[:level])
    u, v = x * W - 0.5, y * H - 0.5
    left, top = int(np.floor(u)), int(np.floor(v))
    for row, in_y, up in ((top, top + 1 - v, -H), (top + 1, v - top, H)):
        for column, in_x, right in ((left, left + 1 - u, -W), (left + 1, u - left, W)):
            if 0 <= row < H and 0 <= column < W:
                yield start + row * W + column, in_x * in_y, right * in_y, in_x * up


def fitting(value, spatial_shapes, locations, weights):
    if sum(h * w for h, w in spatial_shapes) != value.shape[1] or locations.shape != (*weights.shape, 2):
        raise ValueError("as many pixels as the shapes have, and a weight for each point")
    if len(spatial_shapes) != weights.shape[3]:
        raise ValueError("every level has a shape and weights")
