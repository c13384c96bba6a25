"""Neighborhood attention and its gradients, pixel by pixel.

Hassani et al. 2023, Neighborhood attention transformer, arXiv:2204.07143, section 3.1; strides are those of Hassani et
al. 2025, Generalized neighborhood attention, arXiv:2504.16922, section 3.
"""

import numpy as np


def neighborhood_attention(
    q,
    k,
    v,
    *,
    kernel_height,
    kernel_width,
    dilation_height=1,
    dilation_width=1,
    stride_height=1,
    stride_width=1,
    causal_height=False,
    causal_width=False,
    scale=None,
):
    """`out [batch, height, width, heads, value_dim]` and `lse [batch, height, width, heads]`.

    `q [batch, height, width, heads, head_dim]`, `k [batch, height, width, kv_heads, head_dim]` and `v [batch, height,
    width, kv_heads, value_dim]`.
    """
    batch, H, W, heads, d = q.shape
    if k.shape[:4] != v.shape[:4] or k.shape[:3] != q.shape[:3] or k.shape[4] != d or heads % k.shape[3]:
        raise ValueError("queries, keys and values of one map, queries as wide as keys")
    tau = d**-0.5 if scale is None else scale
    out, lse = np.zeros((*q.shape[:4], v.shape[4])), np.zeros(q.shape[:4])
    for y, x in np.ndindex(H, W):
        rows = window(y, H, kernel_height, dilation_height, stride_height, causal_height)
        columns = window(x, W, kernel_width, dilation_width, stride_width, causal_width)
        seen = [(i, j) for i in rows for j in columns]
        for b, h in np.ndindex(batch, heads):
            g = h * k.shape[3] // heads
            s = np.array([tau * (q[b, y, x, h] @ k[b, i, j, g]) for i, j in seen])
            p = np.exp(s - s.max())
            out[b, y, x, h] = sum(w * v[b, i, j, g] for w, (i, j) in zip(p / p.sum(), seen, strict=True))
            lse[b, y, x, h] = s.max() + np.log(p.sum())
    return {"out": out, "lse": lse}


def neighborhood_attention_gradient(
    q,
    k,
    v,
    d_out,
    *,
    kernel_height,
    kernel_width,
    dilation_height=1,
    dilation_width=1,
    stride_height=1,
    stride_width=1,
    causal_height=False,
    causal_width=False,
    scale=None,
):
    """The gradients of sum(out * d_out): d_q, d_k and d_v, in the shapes of what they belong to.

    The arrays are those of `neighborhood_attention`; d_out [batch, height, width, heads, value_dim].
    """
    batch, H, W, heads, d = q.shape
    if k.shape[4] != d or d_out.shape != (*q.shape[:4], v.shape[4]):
        raise ValueError("queries as wide as keys, and a gradient for every output")
    tau = d**-0.5 if scale is None else scale
    d_q, d_k, d_v = (np.zeros(x.shape) for x in (q, k, v))
    for y, x in np.ndindex(H, W):
        rows = window(y, H, kernel_height, dilation_height, stride_height, causal_height)
        columns = window(x, W, kernel_width, dilation_width, stride_width, causal_width)
        seen = np.array([(i, j) for i in rows for j in columns]).T
        for b, h in np.ndindex(batch, heads):
            own = (b, *seen, h * k.shape[3] // heads)
            s = tau * k[own] @ q[b, y, x, h]
            p = np.exp(s - s.max()) / np.exp(s - s.max()).sum()
            gain = v[own] @ d_out[b, y, x, h]
            d_s = p * (gain - p @ gain)
            d_q[b, y, x, h] = tau * d_s @ k[own]
            d_k[own] += tau * np.outer(d_s, q[b, y, x, h])
            d_v[own] += np.outer(p, d_out[b, y, x, h])
    return {"d_q": d_q, "d_k": d_k, "d_v": d_v}


def window(i, length, kernel, dilation, stride, causal):
    """The places along an axis that place i sees, in order."""
    if kernel * dilation > length or stride > kernel:
        raise ValueError("a window is inside of the map, and a stride inside of a window")
    r, n = i % dilation, i // dilation
    members = len(range(r, length, dilation))
    start = n // stride * stride
    if causal:
        leader = min(start + stride - 1, members - 1)
        seen = range(max(leader - kernel + 1, 0), n + 1)
    else:
        leader = min(start + stride // 2, members - 1)
        first = min(max(leader - kernel // 2, 0), members - kernel)
        seen = range(first, first + kernel)
    return [r + dilation * m for m in seen]
