"""Attention of the package ring-attention-pytorch, over two processes of this machine that gloo connects.

Source: https://github.com/lucidrains/ring-attention-pytorch
Lengths are filled up to a multiple of the number of ranks, and a mask of keys hides what fills them, which the causal
flag makes unnecessary; so the package's own modules do. What the ring adds up on the way is in the dtype of the inputs.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter
from ..torch.gradients import differentiated
from ..torch.ranks import Places, Ranks, cut, filled, in_order, joined, zigzag

RANKS = 2
PER_BLOCK = {"grouping": "tiled", "causal_alignment": "bottom_right"}

declared = functools.partial(
    adapter,
    dtypes=("float32",),
    conventions=PER_BLOCK,
    package="ring_attention_pytorch",
    extra="ring-attention",
)


def ring(q: Any, k: Any, v: Any, mask: Any, *, causal: bool, softcap: float | None) -> Any:
    """One rank's part of ring_flash_attn: [batch, heads, length, head_dim]."""
    from ring_attention_pytorch.ring_flash_attention import ring_flash_attn

    capped = {} if softcap is None else {"softclamp_qk_sim": True, "softclamp_value": softcap}
    states = (x.swapaxes(1, 2) for x in (q, k, v))
    out = ring_flash_attn(*states, mask=mask, causal=causal, bucket_size=1024, ring_reduce_col=True, **capped)
    return out.swapaxes(1, 2)


def zig_zag(q: Any, k: Any, v: Any, rows: Any, columns: Any, *, causal: bool, length: int) -> Any:
    """One rank's part of zig_zag_attn: [batch, heads, length, head_dim]."""
    from ring_attention_pytorch.zig_zag_attention import zig_zag_attn

    seen = (columns < length) & ((rows[:, None] >= columns) | (not causal))
    return zig_zag_attn(q, k, v, attn_mask=seen)


def tree(q: Any, k: Any, v: Any) -> Any:
    """What every rank has of tree_attn_decode, which cuts keys and values itself."""
    from ring_attention_pytorch.tree_attn_decoding import tree_attn_decode

    return tree_attn_decode(q, k, v)


def ring_backward(q: Any, k: Any, v: Any, mask: Any, d_out: Any, **options: Any) -> Any:
    return differentiated(lambda q, k, v: ring(q, k, v, mask, **options), d_out, q=q, k=k, v=v)


def zig_zag_backward(q: Any, k: Any, v: Any, rows: Any, columns: Any, d_out: Any, **options: Any) -> Any:
    return differentiated(lambda q, k, v: zig_zag(q, k, v, rows, columns, **options), d_out, q=q, k=k, v=v)


forward, backward = Ranks(RANKS, ring), Ranks(RANKS, ring_backward)
zig_zag_forward, zig_zag_ranks, tree_ranks = Ranks(RANKS, zig_zag), Ranks(RANKS, zig_zag_backward), Ranks(3, tree)


def fitting(*arrays: Any) -> tuple[Any, ...]:
    """Arrays that are of one length, before they are filled up."""
    if len({x.shape[2] for x in arrays}) > 1:
        raise ValueError("queries, keys, values and the gradient of the output are of one length")
    return arrays


def shards(q: Any, k: Any, v: Any, causal: bool, *more: Any) -> tuple[Places, list[list[Any]]]:
    """Where each rank has its tokens, and what it is handed of queries, keys, values, a mask of keys, and the rest."""
    import torch

    whole = [filled(x, RANKS, 2) for x in fitting(q, k, v, *more)]
    length = whole[0].shape[2]
    places = in_order(length, RANKS)
    kept = (torch.arange(length) < q.shape[2]).expand(len(q), -1)
    masks = [None] * RANKS if causal or kept.all() else cut(kept, places, 1)
    first, last = [cut(x, places, 2) for x in whole[:3]], [cut(x, places, 2) for x in whole[3:]]
    return places, [*first, masks, *last]


def positioned(q: Any, k: Any, v: Any, *more: Any) -> tuple[Places, list[list[Any]]]:
    """The same for the order of zig_zag_shard, with the positions of queries and of all keys as they are gathered."""
    import torch

    whole = [filled(x, 2 * RANKS, 2) for x in fitting(q, k, v, *more)]
    length = whole[0].shape[2]
    places = zigzag(length, RANKS)
    columns = torch.tensor([place for own in places for place in own])
    arrays = [cut(x, places, 2) for x in whole]
    return places, [*arrays[:3], [torch.tensor(own) for own in places], [columns] * RANKS, *arrays[3:]]


@declared("attention", requires=("q_len == k_len", "value_dim == head_dim"))
def ring_attention_pytorch(q: Any, k: Any, v: Any, *, causal: bool = False, softcap: float | None = None) -> Any:
    """ring_attention_pytorch.ring_flash_attn over two processes."""
    places, given = shards(q, k, v, causal)
    found = forward(*given, causal=causal, softcap=softcap)
    return joined(found, places, 2)[:, :, : q.shape[2]]


@declared("attention_gradient", requires=("q_len == k_len", "value_dim == head_dim"))
def ring_attention_pytorch_gradient(
    q: Any, k: Any, v: Any, d_out: Any, *, causal: bool = False, softcap: float | None = None
) -> Any:
    """Gradients of ring_attention_pytorch.ring_flash_attn over two processes."""
    places, given = shards(q, k, v, causal, d_out)
    found = backward(*given, causal=causal, softcap=softcap)
    return {name: joined([one[name] for one in found], places, 2)[:, :, : q.shape[2]] for name in found[0]}


@declared("attention", requires="q_len == k_len")
def ring_attention_zig_zag(q: Any, k: Any, v: Any, *, causal: bool = False) -> Any:
    """ring_attention_pytorch.zig_zag_attention.zig_zag_attn over two processes."""
    places, given = positioned(q, k, v)
    found = zig_zag_forward(*given, causal=causal, length=q.shape[2])
    return joined(found, places, 2)[:, :, : q.shape[2]]


@declared("attention_gradient", requires="q_len == k_len")
def ring_attention_zig_zag_gradient(q: Any, k: Any, v: Any, d_out: Any, *, causal: bool = False) -> Any:
    """Gradients of ring_attention_pytorch.zig_zag_attention.zig_zag_attn over two processes."""
    places, given = positioned(q, k, v, d_out)
    found = zig_zag_ranks(*given, causal=causal, length=q.shape[2])
    return {name: joined([one[name] for one in found], places, 2)[:, :, : q.shape[2]] for name in found[0]}


@declared("attention", requires=("q_len == 1", "k_len > 0", "heads == kv_heads"))
def ring_attention_tree_decode(q: Any, k: Any, v: Any) -> Any:
    """ring_attention_pytorch.tree_attn_decode over three processes."""
    return tree_ranks([q] * 3, [k] * 3, [v] * 3)[0]
