"""The parameters of flash-attn 2.8.3, https://github.com/Dao-AILab/flash-attention."""

from attending import attend, cached, each, paged


def flash_attn_func(
    q,
    k,
    v,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    out, lse = attend(q, k, v, softmax_scale, causal, window_size, softcap)
    return (out, lse, None) if return_attn_probs else out


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
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
    block_table=None,
):
    assert (max_seqlen_q, max_seqlen_k) == (int(cu_seqlens_q.diff().max()), int(cu_seqlens_k.diff().max()))
    out, lse = each(q, k, v, cu_seqlens_q, cu_seqlens_k, softmax_scale, causal, window_size, softcap)
    return (out, lse, None) if return_attn_probs else out


def flash_attn_with_kvcache(
    q,
    k_cache,
    v_cache,
    k=None,
    v=None,
    rotary_cos=None,
    rotary_sin=None,
    cache_seqlens=None,
    cache_batch_idx=None,
    cache_leftpad=None,
    block_table=None,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    rotary_interleaved=True,
    alibi_slopes=None,
    num_splits=0,
    return_softmax_lse=False,
):
    given = (softmax_scale, causal, window_size, softcap)
    if block_table is not None:
        out, lse = paged(q, k_cache, v_cache, block_table, cache_seqlens, *given)
    else:
        out, lse = cached(q, k_cache, v_cache, k, v, cache_seqlens, *given)
    return (out, lse) if return_softmax_lse else out
