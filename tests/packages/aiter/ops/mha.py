"""The parameters of aiter/ops/mha.py of https://github.com/ROCm/aiter."""

import torch
from attending import attend, each


def flash_attn_func(
    q,
    k,
    v,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    alibi_slopes=None,
    deterministic=True,
    return_lse=False,
    return_attn_probs=False,
):
    out, lse = attend(q, k, v, softmax_scale, causal, window_size)
    return (out, lse) if return_lse else (out,)


def flash_attn_varlen_func(
    q,
    k,
    v,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    alibi_slopes=None,
    deterministic=False,
    return_lse=False,
    return_attn_probs=False,
    block_table=None,
):
    assert (max_seqlen_q, max_seqlen_k) == (int(cu_seqlens_q.diff().max()), int(cu_seqlens_k.diff().max()))
    out, lse = each(q, k, v, cu_seqlens_q, cu_seqlens_k, softmax_scale, causal, window_size)
    return (out, lse) if return_lse else (out,)


def mha_batch_prefill_func(
    q,
    k,
    v,
    cu_seqlens_q,
    kv_indptr,
    kv_page_indices,
    max_seqlen_q,
    max_seqlen_k,
    dropout_p=0.0,
    softmax_scale=None,
    logits_soft_cap=0.0,
    causal=False,
    window_size=(-1, -1),
    alibi_slopes=None,
    deterministic=False,
    return_lse=False,
    return_attn_probs=False,
    out=None,
):
    lens = kv_indptr.diff()
    assert (max_seqlen_q, max_seqlen_k) == (int(cu_seqlens_q.diff().max()), int(lens.max()))
    assert kv_page_indices.dtype == kv_indptr.dtype == torch.int32
    assert len(kv_page_indices) == kv_indptr[-1]
    places = kv_page_indices.long()
    given = (softmax_scale, causal, window_size, logits_soft_cap)
    out, lse = each(q, k[places], v[places], cu_seqlens_q, kv_indptr, *given)
    return (out, lse) if return_lse else out
