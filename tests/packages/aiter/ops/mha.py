"""The parameters of aiter/ops/mha.py of https://github.com/ROCm/aiter."""

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
