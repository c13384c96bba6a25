"""Kernels on torch as people write them, each with an interface that is known: no adapter is needed.

attnspec check examples/kernels/torch_kernels.py:flash_attn_func
"""

import torch
from torch.nn import functional


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1)):
    """[batch, length, heads, dim]; the last query sees every key."""
    keys, values = (x.repeat_interleave(q.shape[2] // k.shape[2], 2) for x in (k, v))
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    scores = torch.einsum("bshd,bthd->bhst", q, keys) * scale
    place = torch.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1] - torch.arange(k.shape[1])
    left, right = window_size
    hidden = ((place < 0) & causal) | ((place > left) & (left >= 0)) | ((-place > right) & (right >= 0))
    weights = torch.nan_to_num(scores.masked_fill(hidden, float("-inf")).softmax(-1))
    return torch.einsum("bhst,bthd->bshd", weights, values)


def flash_attn_qkvpacked_func(qkv, dropout_p=0.0, softmax_scale=None, causal=False):
    """[batch, length, 3, heads, dim]."""
    q, k, v = qkv.unbind(2)
    return flash_attn_func(q, k, v, softmax_scale=softmax_scale, causal=causal)


def sdpa(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """[batch, heads, length, dim]."""
    if is_causal:
        attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
    return functional.scaled_dot_product_attention(query, key, value, attn_mask, scale=scale, enable_gqa=enable_gqa)


def eager_attention_forward(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    """What transformers calls: heads before lengths, and lengths before heads in what is returned."""
    key, value = (x.repeat_interleave(module.num_key_value_groups, 1) for x in (key, value))
    scores = query @ key.mT * scaling
    if attention_mask is not None:
        scores = scores + attention_mask
    weights = scores.softmax(-1)
    return (weights @ value).transpose(1, 2).contiguous(), weights


def unified_attention(
    q,
    k,
    v,
    out,
    cu_seqlens_q,
    max_seqlen_q,
    seqused_k,
    max_seqlen_k,
    softmax_scale,
    causal,
    window_size,
    block_table,
    softcap,
    q_descale=None,
    k_descale=None,
    v_descale=None,
    alibi_slopes=None,
    sinks=None,
):
    """Tokens of all items one after the other, keys and values in pages; the result is written to `out`.

    Codes of eight bits have one scale, and a sink is one more score of each query of its head, without a value.
    """
    scale = (
        softmax_scale * (1 if q_descale is None else q_descale[0, 0]) * (1 if k_descale is None else k_descale[0, 0])
    )
    for item, length in enumerate(seqused_k.tolist()):
        first, last = cu_seqlens_q[item], cu_seqlens_q[item + 1]
        own = q[first:last].to(out.dtype)
        keys, values = (x[block_table[item].clamp(min=0)].flatten(0, 1)[:length].to(out.dtype) for x in (k, v))
        group = q.shape[1] // k.shape[2]
        scores = torch.einsum("shd,thd->hst", own, keys.repeat_interleave(group, 1)) * scale
        if softcap:
            scores = softcap * torch.tanh(scores / softcap)
        place = torch.arange(len(own))[:, None] + length - len(own) - torch.arange(length)
        hidden = (place < 0) | ((place > window_size[0]) & (window_size[0] >= 0))
        if alibi_slopes is not None:
            scores = scores - alibi_slopes[:, None, None] * place
        scores = scores.masked_fill(hidden, float("-inf"))
        if sinks is not None:
            scores = torch.cat([scores, sinks[:, None, None].expand(-1, len(own), 1)], -1)
        weights = torch.nan_to_num(scores.softmax(-1))[..., :length]
        read = torch.einsum("hst,thd->shd", weights, values.repeat_interleave(group, 1))
        out[first:last] = read if v_descale is None else read * v_descale[0, 0]


def flash_mla_with_kvcache(
    q,
    k_cache,
    block_table,
    cache_seqlens,
    head_dim_v,
    tile_scheduler_metadata,
    num_splits=None,
    softmax_scale=None,
    causal=False,
    attn_sink=None,
):
    """Rows of latents in pages, which all heads read: each is the key, and its first channels are the value."""
    outs, lses = [], []
    for own, pages, length in zip(q.transpose(1, 2), block_table, cache_seqlens, strict=True):
        rows = k_cache[pages.clamp(min=0)].flatten(0, 2)[:length]
        scores = own @ rows.T * (q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale)
        if causal:
            place = torch.arange(q.shape[1])[:, None] + length - q.shape[1] - torch.arange(int(length))
            scores = scores.masked_fill(place < 0, float("-inf"))
        lses.append(scores.logsumexp(-1))
        if attn_sink is not None:
            scores = torch.cat([scores, attn_sink[:, None, None].expand(-1, q.shape[1], 1)], -1)
        outs.append(torch.nan_to_num(scores.softmax(-1))[..., : len(rows)] @ rows[:, :head_dim_v])
    return torch.stack(outs).transpose(1, 2), torch.stack(lses)


def apply_rotary_emb(x, cos, sin, interleaved=False):
    """[batch, length, heads, dim], and tables [length, dim / 2]."""
    width = 2 * cos.shape[-1]
    cos, sin = cos[:, None], sin[:, None]
    x, rest = x[..., :width], x[..., width:]
    first, second = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    turned = first * cos - second * sin, second * cos + first * sin
    turned = torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)
    return torch.cat([turned, rest], -1).to(rest.dtype)


def fused_add_rms_norm(input, residual, weight, eps):  # noqa: A002 - what it is called there
    """In place, as serving does it."""
    residual += input
    input.copy_(residual * torch.rsqrt(residual.pow(2).mean(-1, keepdim=True) + eps) * weight)


def fused_topk(hidden_states, gating_output, topk, renormalize, scoring_func="softmax"):
    """The weights of the chosen experts and their numbers, [tokens, topk]."""
    scores = gating_output.float()
    scores = scores.softmax(-1) if scoring_func == "softmax" else scores.sigmoid()
    weights, ids = scores.topk(topk, -1)
    return weights / weights.sum(-1, keepdim=True) if renormalize else weights, ids.int()
