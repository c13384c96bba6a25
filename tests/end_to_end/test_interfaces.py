"""Known interfaces, each with a small kernel behind it: a right one is conformant by it, and a faulty one is not."""

from itertools import pairwise

import numpy as np
import pytest

import attnspec

NUMPY = np


class Changed:
    """NumPy with one function exchanged."""

    def __init__(self, **changed):
        self.changed = changed

    def __getattr__(self, name):
        return self.changed[name] if name in self.changed else getattr(NUMPY, name)


def attend(q, k, v, scale, *, hidden=False, softcap=None, bias=0.0):
    """Attention in [..., heads, length, dim]; heads share those of keys, and no key seen gives zeros."""
    k, v = (x.repeat(q.shape[-3] // x.shape[-3], -3).astype(np.float32) for x in (k, v))
    scores = q.astype(np.float32) @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = softcap * np.tanh(scores / softcap) if softcap else scores
    with np.errstate(invalid="ignore"):
        scores = np.where(hidden, -np.inf, scores + bias)
        terms = np.exp(scores - np.maximum(scores.max(-1, keepdims=True, initial=-np.inf), -1e30))
    return (terms / np.maximum(terms.sum(-1, keepdims=True), 1e-30) @ v).astype(q.dtype)


def future(queries, keys, causal=True, left=-1):
    """What causality and a window hide, aligned at the last query and key."""
    ahead = np.arange(keys) - np.arange(queries)[:, None] - (keys - queries)
    return ((ahead > 0) & causal) | ((-ahead > left) & (left >= 0))


def exchanged(*arrays):
    return [np.swapaxes(x, -2, -3) for x in arrays]


def flash_attn_kvpacked_func(q, kv, softmax_scale=None, causal=False):
    q, k, v = exchanged(q, kv[:, :, 0], kv[:, :, 1])
    return exchanged(attend(q, k, v, softmax_scale, hidden=future(q.shape[2], k.shape[2], causal)))[0]


def flash_attn_varlen_kvpacked_func(
    q, kv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, softmax_scale=None, causal=False
):
    out = np.zeros((*q.shape[:2], kv.shape[3]), q.dtype)
    keys, values = kv[:, 0], kv[:, 1]
    for (first, end), (start, stop) in zip(pairwise(cu_seqlens_q), pairwise(cu_seqlens_k), strict=True):
        rows = exchanged(q[first:end], keys[start:stop], values[start:stop])
        hidden = future(end - first, stop - start, causal)
        out[first:end] = exchanged(attend(*rows, softmax_scale, hidden=hidden))[0]
    return out


def flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, softmax_scale=None, causal=False):
    bounds = cu_seqlens, cu_seqlens, max_seqlen, max_seqlen
    return flash_attn_varlen_kvpacked_func(qkv[:, 0], qkv[:, 1:], *bounds, softmax_scale, causal)


def flash_attn_with_kvcache(q, k_cache, v_cache, cache_seqlens, block_table, softmax_scale=None):
    out = np.empty((*q.shape[:3], v_cache.shape[3]), q.dtype)
    for item, length in enumerate(cache_seqlens):
        k, v = (x[np.maximum(block_table[item], 0)].reshape(-1, *x.shape[2:])[:length] for x in (k_cache, v_cache))
        hidden = future(q.shape[1], length)
        out[item] = exchanged(attend(*exchanged(q[item], k, v), softmax_scale, hidden=hidden))[0]
    return out


def trtllm_batch_decode_with_kv_cache(
    query,
    kv_cache,
    workspace_buffer,
    block_tables,
    seq_lens,
    max_seq_len,
    bmm1_scale,
    bmm2_scale,
    window_left=-1,
    out=None,
):
    q, (k, v) = (
        query.reshape(len(seq_lens), -1, *query.shape[1:]),
        (np.swapaxes(kv_cache[:, at], 1, 2) for at in (0, 1)),
    )
    held = workspace_buffer[: seq_lens.nbytes].view(seq_lens.dtype)  # what it has to be told of its room
    held[:] = seq_lens
    for item, length in enumerate(held):
        keys, values = (x[np.maximum(block_tables[item], 0)].reshape(-1, *x.shape[2:])[:length] for x in (k, v))
        hidden = future(q.shape[1], length, left=window_left)
        found = attend(*exchanged(q[item], keys, values), bmm1_scale, hidden=hidden) * bmm2_scale
        out.reshape(*q.shape[:3], -1)[item] = np.swapaxes(found, -2, -3)
    return out


def trtllm_batch_decode_with_kv_cache_mla(
    query,
    kv_cache,
    workspace_buffer,
    qk_nope_head_dim,
    kv_lora_rank,
    qk_rope_head_dim,
    block_tables,
    seq_lens,
    max_seq_len,
    out,
    bmm1_scale,
    bmm2_scale,
):
    assert kv_lora_rank + qk_rope_head_dim == query.shape[3] == kv_cache.shape[2]
    assert out.shape == (*query.shape[:3], kv_lora_rank)
    for item, length in enumerate(seq_lens):
        rows = kv_cache[block_tables[item]].reshape(-1, query.shape[3])[:length]
        hidden = future(query.shape[1], length)
        out[item] = exchanged(
            attend(*exchanged(query[item]), rows[None], rows[None, :, :kv_lora_rank], bmm1_scale, hidden=hidden)
        )[0]
    return out


def context_attention_fwd(
    q, k, v, o, b_start_loc, b_seq_len, max_input_len, is_causal, softmax_scale, sliding_window_q, sliding_window_k
):
    for start, length in zip(b_start_loc, b_seq_len, strict=True):
        own = slice(start, start + length)
        window = -1 if sliding_window_q is None else sliding_window_q
        hidden = future(length, length, is_causal, window)
        ahead = np.arange(length) - np.arange(length)[:, None]
        hidden = hidden if sliding_window_k is None else hidden | (ahead > sliding_window_k)
        o[own] = exchanged(attend(*exchanged(q[own], k[own], v[own]), softmax_scale, hidden=hidden))[0]


def merge_state(v_a, s_a, v_b, s_b):
    with np.errstate(invalid="ignore", divide="ignore"):
        top = np.maximum(s_a, s_b)
        a, b = np.exp([np.where(np.isfinite(s), s - top, -np.inf) for s in (s_a, s_b)])
        out = (v_a * a[..., None] + v_b * b[..., None]) / np.maximum(a + b, 1e-30)[..., None]
        return out.astype(v_a.dtype), top + np.log(a + b)


def memory_efficient_attention(query, key, value, attn_bias=None, p=0.0, scale=None):
    bias = 0.0 if attn_bias is None else attn_bias
    return exchanged(attend(*exchanged(query, key, value), scale, bias=bias))[0]


def mlx_scaled_dot_product_attention(q, k, v, *, scale, mask=None):
    given = {} if mask is None else {"hidden": ~mask} if mask.dtype == bool else {"bias": mask}
    return attend(q, k, v, scale, **given)


def single_decode_with_kv_cache(q, k, v, window_left=-1, logits_soft_cap=None, sm_scale=None):
    hidden = future(1, len(k), left=window_left)
    return attend(q[:, None], *exchanged(k, v), sm_scale, hidden=hidden, softcap=logits_soft_cap)[:, 0]


def batch_prefill_with_ragged_kv_cache(q, k, v, qo_indptr, kv_indptr, causal=False, sm_scale=None):
    out = np.empty((*q.shape[:2], v.shape[2]), q.dtype)
    for item in range(len(qo_indptr) - 1):
        own, seen = (slice(*ends[item : item + 2]) for ends in (qo_indptr, kv_indptr))
        hidden = future(len(q[own]), len(k[seen]), causal)
        out[own] = exchanged(attend(*exchanged(q[own], k[seen], v[seen]), sm_scale, hidden=hidden))[0]
    return out


def onnx_attention(Q, K, V, attn_mask=None, is_causal=0, scale=None, softcap=0.0):
    given = {} if attn_mask is None else {"hidden": ~attn_mask} if attn_mask.dtype == bool else {"bias": attn_mask}
    above = np.triu(np.ones((Q.shape[2], K.shape[2]), bool), 1) & bool(is_causal)
    given["hidden"] = given.get("hidden", False) | above
    return attend(Q, K, V, scale, softcap=softcap, **given)


def torch_rms_norm(input, normalized_shape, weight=None, eps=None):  # noqa: A002 - what it is called there
    x = input / np.sqrt((input**2).mean(-1, keepdims=True) + eps)
    return (x if weight is None else x * weight).astype(input.dtype)


def torch_layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):  # noqa: A002 - likewise
    x = input - input.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)
    return ((x if weight is None else x * weight) + (0 if bias is None else bias)).astype(input.dtype)


def mlx_rope(a, dims, *, traditional, base, scale, offset):
    turned, rest = a[..., :dims], a[..., dims:]
    angle = (offset + np.arange(a.shape[-2]))[:, None] * scale * base ** (-np.arange(dims // 2) * 2.0 / dims)
    first, second = (turned[..., ::2], turned[..., 1::2]) if traditional else np.split(turned, 2, -1)
    cos, sin = np.cos(angle), np.sin(angle)
    parts = first * cos - second * sin, second * cos + first * sin
    turned = np.stack(parts, -1).reshape(turned.shape) if traditional else np.concatenate(parts, -1)
    return np.concatenate([turned, rest], -1).astype(a.dtype)


def recurrent(q, k, v, gate, scale, state, *, beta=None, normalise=False):
    """States by tokens in [batch, length, heads, dim]; with beta, what is held for a key is replaced."""
    q, k, v, gate = (x.astype(np.float32) for x in (q, k, v, gate))
    if normalise:
        q, k = (x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6) for x in (q, k))
    q, k = (x.repeat(v.shape[2] // x.shape[2], 2) for x in (q, k))
    held = np.zeros((len(q), v.shape[2], k.shape[3], v.shape[3]), np.float32) if state is None else state
    out = np.empty(v.shape, np.float32)
    for t in range(q.shape[1]):
        held, key = np.exp(gate[:, t])[..., None] * held, k[:, t, :, :, None]
        written = v[:, t, :, None]
        if beta is not None:
            written = beta[:, t, :, None, None].astype(np.float32) * (written - (key * held).sum(2, keepdims=True))
        held = held + key * written
        out[:, t] = (q[:, t, :, :, None] * held).sum(2) * (k.shape[3] ** -0.5 if scale is None else scale)
    return out, held


def chunk_gla(q, k, v, g, scale=None, initial_state=None, output_final_state=False):
    out, left = recurrent(q, k, v, g, scale, initial_state)
    return out.astype(q.dtype), left if output_final_state else None


def chunk_simple_gla(q, k, v, g=None, scale=None, initial_state=None, output_final_state=False):
    out, left = recurrent(q, k, v, g[..., None], scale, initial_state)
    return out.astype(q.dtype), left if output_final_state else None


def chunk_delta_rule(q, k, v, beta, scale=None, initial_state=None, use_qk_l2norm_in_kernel=False):
    gate = np.zeros((*v.shape[:3], 1))
    out, left = recurrent(q, k, v, gate, scale, initial_state, beta=beta, normalise=use_qk_l2norm_in_kernel)
    return out.astype(q.dtype), left


def chunk_gated_delta_rule(q, k, v, g, beta, scale=None, initial_state=None, use_qk_l2norm_in_kernel=False):
    normalise = use_qk_l2norm_in_kernel
    out, left = recurrent(q, k, v, g[..., None], scale, initial_state, beta=beta, normalise=normalise)
    return out.astype(q.dtype), left


def chunk_kda(q, k, v, g, beta, scale=None, initial_state=None, use_qk_l2norm_in_kernel=False):
    out, left = recurrent(q, k, v, g, scale, initial_state, beta=beta, normalise=use_qk_l2norm_in_kernel)
    return out.astype(q.dtype), left


def chunk_rwkv6(r, k, v, w, u, scale=None, initial_state=None, output_final_state=False):
    r = r.astype(np.float32) * (k.shape[3] ** -0.5 if scale is None else scale)
    held, out = initial_state, np.empty(v.shape, np.float32)
    for t in range(k.shape[1]):
        added = k[:, t, :, :, None].astype(np.float32) * v[:, t, :, None]
        held = np.zeros_like(added) if held is None else held
        out[:, t] = (r[:, t, :, :, None] * (held + u[..., None] * added)).sum(2)
        held = np.exp(w[:, t].astype(np.float32))[..., None] * held + added
    return out.astype(v.dtype), held if output_final_state else None


def chunk_rwkv7(r, w, k, v, a, b, scale=1.0, initial_state=None, output_final_state=False):
    r, w, k, a, b = (x.astype(np.float32)[..., None] for x in (r, w, k, a, b))
    held, out = initial_state, np.empty(v.shape, np.float32)
    for t in range(k.shape[1]):
        added = k[:, t] * v[:, t, :, None]
        held = np.zeros_like(added) if held is None else held
        held = np.exp(w[:, t]) * held + b[:, t] * (a[:, t] * held).sum(2, keepdims=True) + added
        out[:, t] = (r[:, t] * held).sum(2) * (k.shape[3] ** -0.5 if scale is None else scale)
    return out.astype(v.dtype), held if output_final_state else None


def mamba_chunk_scan_combined(x, dt, A, B, C, chunk_size, D=None, dt_bias=None, initial_states=None, dt_softplus=False):
    step = dt.astype(np.float32) + (0 if dt_bias is None else dt_bias)
    step = np.logaddexp(0, step) if dt_softplus else step
    state = None if initial_states is None else np.swapaxes(initial_states, 2, 3)
    values = step[..., None] * x.astype(np.float32)
    out, left = recurrent(C, B, values, (A * step)[..., None], 1.0, state)
    out = out + (0 if D is None else D[:, None] * x)
    return out.astype(x.dtype), np.swapaxes(left, 2, 3)


KERNELS = [
    (flash_attn_kvpacked_func, "attention"),
    (flash_attn_varlen_kvpacked_func, "packed_attention"),
    (flash_attn_varlen_qkvpacked_func, "packed_attention"),
    (flash_attn_with_kvcache, "paged_attention"),
    (trtllm_batch_decode_with_kv_cache, "paged_attention"),
    (trtllm_batch_decode_with_kv_cache_mla, "latent_pages"),
    (context_attention_fwd, "packed_attention"),
    (merge_state, "merge_states"),
    (memory_efficient_attention, "attention"),
    (mlx_scaled_dot_product_attention, "attention"),
    (single_decode_with_kv_cache, "attention"),
    (batch_prefill_with_ragged_kv_cache, "packed_attention"),
    (onnx_attention, "attention"),
    (torch_rms_norm, "rms_norm"),
    (torch_layer_norm, "layer_norm"),
    (mlx_rope, "rotary"),
    (chunk_gla, "linear_attention"),
    (chunk_simple_gla, "linear_attention"),
    (chunk_delta_rule, "gated_delta_rule"),
    (chunk_gated_delta_rule, "gated_delta_rule"),
    (chunk_kda, "kimi_delta_attention"),
    (chunk_rwkv6, "wkv6"),
    (chunk_rwkv7, "wkv7"),
    (mamba_chunk_scan_combined, "state_space"),
]


def needed(kernel):
    """The function of NumPy without which a kernel is wrong."""
    names = {*kernel.__code__.co_names}
    if kernel is chunk_delta_rule:
        return "sqrt"
    return (
        "exp"
        if names & {"attend", "recurrent", "flash_attn_varlen_kvpacked_func"}
        else next(name for name in ("exp", "sqrt", "sin") if name in names)
    )


def checked(function, like, operator):
    how = {"framework": "numpy", "profile": "smoke", "isolate": False, "explain_time": 0}
    return attnspec.check(function, like=like, laws=(f"{operator}.definition",), **how)


@pytest.mark.parametrize(("kernel", "operator"), KERNELS, ids=[kernel.__name__ for kernel, _ in KERNELS])
def test_a_kernel_of_a_known_interface_is_conformant_and_a_faulty_one_is_not(kernel, operator, monkeypatch):
    like = kernel.__name__
    assert {like: "conformant"} == (report := checked(kernel, like, operator)).verdicts, report
    name = needed(kernel)
    right = getattr(np, name)
    monkeypatch.setitem(globals(), "np", Changed(**{name: lambda x: right(1.5 * np.asarray(x))}))
    assert {like: "violated"} == checked(kernel, like, operator).verdicts
