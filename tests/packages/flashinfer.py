"""The parameters of flashinfer-python 0.7.2, https://docs.flashinfer.ai; a logsumexp is to base two."""

import math

import torch
from attending import attend
from planned import (
    BACKENDS,
    BatchDecodeWithPagedKVCacheWrapper,
    BatchPrefillWithPagedKVCacheWrapper,
    BatchPrefillWithRaggedKVCacheWrapper,
    base_two,
)

__all__ = [
    "BatchDecodeWithPagedKVCacheWrapper",
    "BatchPrefillWithPagedKVCacheWrapper",
    "BatchPrefillWithRaggedKVCacheWrapper",
    "merge_state",
    "merge_states",
    "single_prefill_with_kv_cache",
]


def single_prefill_with_kv_cache(
    q,
    k,
    v,
    scale_q=None,
    scale_k=None,
    scale_v=None,
    o_dtype=None,
    custom_mask=None,
    packed_custom_mask=None,
    causal=False,
    kv_layout="NHD",
    pos_encoding_mode="NONE",
    use_fp16_qk_reduction=False,
    sm_scale=None,
    window_left=-1,
    logits_soft_cap=None,
    rope_scale=None,
    rope_theta=None,
    backend="auto",
    return_lse=False,
    kv_cache_sf=None,
    k_scale=None,
    v_scale=None,
):
    assert backend in BACKENDS
    given = (sm_scale, causal, (window_left, -1), logits_soft_cap, None, custom_mask)
    out, lse = attend(*(x[None] for x in (q, k, v)), *given)
    return (out[0], base_two(lse[0].T)) if return_lse else out[0]


def merge_states(v, s):
    assert torch.float32 == s.dtype
    heights = s * math.log(2)
    lse = heights.logsumexp(1)
    weights = (heights - lse.clamp_min(-1e30)[:, None]).exp()
    return (weights[..., None] * v.float()).sum(1).to(v.dtype), base_two(lse)


def merge_state(v_a, s_a, v_b, s_b):
    return merge_states(torch.stack([v_a, v_b], 1), torch.stack([s_a, s_b], 1))
