"""Right, but different: multi-head attention as layers and kernels compute it."""

from __future__ import annotations

from typing import Any

from .. import adapter

DTYPES = ("float32", "bfloat16", "float16")
CONVENTIONS = {"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"}


def reached(q_len: int, k_len: int, causal: bool, mask: Any, offset: int) -> Any:
    """Which positions a query may see: broadcasts to [batch, heads, q_len, k_len]."""
    import torch

    seen = torch.ones(q_len, k_len, dtype=torch.bool).tril(offset) if causal else torch.ones(1, 1, dtype=torch.bool)
    return seen if mask is None else seen & mask


def split(y: Any, heads: int) -> Any:
    """[batch, length, heads * d] as [batch, heads, length, d]."""
    return y.unflatten(-1, (heads, -1)).transpose(1, 2)


def added(y: Any, b: Any) -> Any:
    return y if b is None else y + b


@adapter("multi_head", dtypes=DTYPES, conventions=CONVENTIONS)
def control_layer(
    x: Any,
    context: Any,
    wq: Any,
    wk: Any,
    wv: Any,
    wo: Any,
    *,
    heads: int,
    kv_heads: int | None = None,
    causal: bool = False,
    mask: Any = None,
    bq: Any = None,
    bk: Any = None,
    bv: Any = None,
    bo: Any = None,
) -> Any:
    """A layer as models have it: projections and results stored in the dtype of the inputs."""
    import torch
    from torch.nn.functional import linear, scaled_dot_product_attention

    groups = heads if kv_heads is None else kv_heads
    q = split(linear(x, wq.T, bq), heads)
    k, v = split(linear(context, wk.T, bk), groups), split(linear(context, wv.T, bv), groups)
    k, v = (y.repeat_interleave(heads // groups, 1) for y in (k, v))
    seen = reached(x.shape[1], context.shape[1], causal, mask, context.shape[1] - x.shape[1])
    seen = seen.expand(*torch.broadcast_shapes(seen.shape, (1, 1, x.shape[1], context.shape[1])))
    mixed = scaled_dot_product_attention(q, k, v, attn_mask=seen)
    return linear(mixed.transpose(1, 2).flatten(2), wo.T, bo)


@adapter(
    "multi_head",
    dtypes=DTYPES,
    conventions={"causal_alignment": "top_left", "empty_row": "mean_value", "grouping": "tiled"},
)
def control_fused_projection(
    x: Any,
    context: Any,
    wq: Any,
    wk: Any,
    wv: Any,
    wo: Any,
    *,
    heads: int,
    kv_heads: int | None = None,
    causal: bool = False,
    mask: Any = None,
    bq: Any = None,
    bk: Any = None,
    bv: Any = None,
    bo: Any = None,
) -> Any:
    """Keys and values by one projection, a finite fill value, and heads of keys taken in turns."""
    import torch

    groups = heads if kv_heads is None else kv_heads
    k, v = (context.float() @ torch.cat([wk, wv], 1).float()).chunk(2, -1)
    q = split(added(x.float() @ wq.float(), bq), heads) * (heads / wq.shape[1]) ** 0.5
    k, v = (split(added(y, b), groups).repeat(1, heads // groups, 1, 1) for y, b in ((k, bk), (v, bv)))
    s = torch.einsum("bhid,bhjd->bhij", q, k)
    s = s.masked_fill(~reached(*s.shape[2:], causal, mask, 0), -1e30)
    mixed = torch.einsum("bhij,bhjd->bihd", torch.softmax(s, -1), v)
    return added(mixed.flatten(2) @ wo.float(), bo).to(x.dtype)


@adapter("multi_head", dtypes=DTYPES, conventions=CONVENTIONS)
def control_head_by_head(
    x: Any,
    context: Any,
    wq: Any,
    wk: Any,
    wv: Any,
    wo: Any,
    *,
    heads: int,
    kv_heads: int | None = None,
    causal: bool = False,
    mask: Any = None,
    bq: Any = None,
    bv: Any = None,
    bo: Any = None,
) -> Any:
    """One head after the other in double precision, each adding its part of the output; the last head first."""
    import torch

    d = wq.shape[1] // heads
    share = heads // (heads if kv_heads is None else kv_heads)
    wide = [t.double() for t in (x, context, wq, wk, wv, wo)]
    seen = reached(x.shape[1], context.shape[1], causal, mask, context.shape[1] - x.shape[1])
    seen = seen.expand(x.shape[0], heads, x.shape[1], context.shape[1])
    out = torch.zeros(x.shape, dtype=torch.float64)
    for h in reversed(range(heads)):
        own, shared = slice(h * d, (h + 1) * d), slice(h // share * d, (h // share + 1) * d)
        q, k, v = wide[0] @ wide[2][:, own], wide[1] @ wide[3][:, shared], wide[1] @ wide[4][:, shared]
        q, v = added(q, None if bq is None else bq[own]), added(v, None if bv is None else bv[shared])
        s = (q @ k.transpose(1, 2) / d**0.5).masked_fill(~seen[:, h], -torch.inf)
        out += (torch.softmax(s, -1).nan_to_num(0.0) @ v) @ wide[5][own]
    return added(out, bo).to(x.dtype)


@adapter("multi_head", dtypes=DTYPES, conventions={"grouping": "block"})
def control_online(x: Any, context: Any, wq: Any, wk: Any, wv: Any, wo: Any, *, heads: int) -> Any:
    """A running softmax over blocks of 16 positions, projected block by block, by powers of two."""
    import torch

    q = split(x.float() @ wq.float(), heads) * (1.4426950408889634 * (heads / wq.shape[1]) ** 0.5)
    top = torch.full((*q.shape[:3], 1), -torch.inf)
    total, mixed = torch.zeros_like(top), torch.zeros_like(q)
    for block in context.float().split(16, 1):
        k, v = split(block @ wk.float(), heads), split(block @ wv.float(), heads)
        s = q @ k.transpose(2, 3)
        new = torch.maximum(top, s.amax(-1, keepdim=True)) if block.shape[1] else top
        p, old = torch.exp2(s - new), torch.exp2(top - new).nan_to_num(0.0)
        total, mixed, top = total * old + p.sum(-1, keepdim=True), mixed * old + p @ v, new
    mixed = torch.where(total > 0, mixed / total, 0.0)
    return (mixed.transpose(1, 2).flatten(2) @ wo.float()).to(x.dtype)
