"""Interfaces of serving kernels: each with a small kernel behind it that is right, and once with a fault."""

import itertools

import numpy as np
import pytest

import attnspec
from attnspec import reference


def activated(x, activation):
    return x / (1 + np.exp(-x)) if activation == "silu" else x


def convolved(x, weight, bias, state, activation):
    """A short convolution of [channels, length], and the inputs that are left."""
    bias = 0.0 if bias is None else bias
    found = reference.short_convolution(x[None], weight, bias, state[None], silu=activation == "silu")
    return found["out"][0], found["final_state"][0]


def update(*, keeps=False):
    def causal_conv1d_update(x, conv_state, weight, bias=None, activation=None, cache_seqlens=None):
        out = np.zeros(x.shape)
        for item in range(len(x)):
            out[item], left = convolved(x[item], weight, bias, conv_state[item], activation)
            conv_state[item] = conv_state[item] if keeps else left
        return out.astype(x.dtype)

    return causal_conv1d_update


def convolution(*, keeps=False):
    def causal_conv1d_fn(
        x, weight, bias=None, seq_idx=None, initial_states=None, return_final_states=False, activation=None
    ):
        state = np.zeros((*x.shape[:2], weight.shape[1] - 1), x.dtype) if initial_states is None else initial_states
        state = state.copy()
        return update(keeps=keeps)(x, state, weight, bias, activation), state

    return causal_conv1d_fn


def packed_convolution(*, first=False):
    def causal_conv1d_fn(
        x, weight, bias, conv_states, query_start_loc, cache_indices=None, has_initial_state=None, activation="silu"
    ):
        out = np.zeros(x.shape)
        for item, (a, b) in enumerate(itertools.pairwise(query_start_loc)):
            slot = cache_indices[0 if first else item]
            state = conv_states[slot] * has_initial_state[item]
            out[:, a:b], left = convolved(x[:, a:b], weight, bias, state, activation)
            conv_states[cache_indices[item]] = left
        return out.astype(x.dtype)

    return causal_conv1d_fn


def state_space(*, chunks_forget=False):
    def mamba_chunk_scan_combined_varlen(
        x, dt, A, B, C, chunk_size, cu_seqlens, cu_chunk_seqlens, last_chunk_indices, seq_idx, out,
        D=None, dt_bias=None, initial_states=None, dt_softplus=False,
    ):  # fmt: skip
        step = (dt if dt_bias is None else dt + dt_bias).astype(np.float64)
        step = np.logaddexp(step, 0) if dt_softplus else step
        b, c = (np.repeat(part, x.shape[1] // part.shape[1], 1) for part in (B, C))
        states, left = {}, {}
        for chunk, (start, end) in enumerate(itertools.pairwise(cu_chunk_seqlens)):
            item = seq_idx[chunk]
            begun = np.zeros((*x.shape[1:], B.shape[2])) if initial_states is None else initial_states[item]
            state = begun if chunks_forget else states.get(item, begun)
            for t in range(start, end):
                add = (step[t][:, None] * x[t])[..., None] * b[t][:, None]
                state = np.exp(A * step[t])[:, None, None] * state + add
                skipped = 0 if D is None else D[:, None] * x[t]
                out[t] = (state @ c[t][..., None])[..., 0] + skipped
            states[item] = left[chunk] = state
        return np.array([left[chunk] for chunk in last_chunk_indices]).astype(np.float32)

    return mamba_chunk_scan_combined_varlen


def turned(x, cos, sin, interleaved):
    """The first channels of [tokens, heads, dim], turned by tables of [tokens, pairs]."""
    x, width = x.astype(np.float64), 2 * cos.shape[-1]
    one, other = (
        (slice(0, width, 2), slice(1, width, 2)) if interleaved else (slice(width // 2), slice(width // 2, width))
    )
    cos, sin = (table[:, None].astype(np.float64) for table in (cos, sin))
    x[..., one], x[..., other] = x[..., one] * cos - x[..., other] * sin, x[..., other] * cos + x[..., one] * sin
    return x


def rotary(*, interleaved_alone=False):
    def rotary_embedding(positions, query, key, head_size, cos_sin_cache, is_neox):
        tables = np.split(cos_sin_cache[positions], 2, -1)
        for x in (query, key):
            heads = x.reshape(len(x), -1, head_size)
            x[:] = turned(heads, *tables, interleaved_alone or not is_neox).reshape(x.shape)

    return rotary_embedding


def experts(*, exchanged=False):
    def fused_experts(hidden_states, w1, w2, topk_weights, topk_ids, activation="silu", expert_map=None):
        out = np.zeros(hidden_states.shape)
        for token, choice in np.ndindex(topk_ids.shape):
            expert = topk_ids[token, choice] if expert_map is None else expert_map[topk_ids[token, choice]]
            if expert < 0:
                continue
            gate, up = np.split(w1[expert].astype(np.float64) @ hidden_states[token], 2)
            gate, up = (up, gate) if exchanged else (gate, up)
            out[token] += topk_weights[token, choice] * (w2[expert] @ (activated(gate, activation) * up))
        return out.astype(hidden_states.dtype)

    return fused_experts


def attended(q, k, v, scale, hidden):
    """Attention in [heads, length, dim]; no key seen gives zeros."""
    k, v = (np.repeat(x.astype(np.float64), len(q) // len(k), 0) for x in (k, v))
    scores = np.where(hidden, -np.inf, q.astype(np.float64) @ np.swapaxes(k, -1, -2) * scale)
    terms = np.exp(scores - np.maximum(scores.max(-1, keepdims=True, initial=-np.inf), -1e30))
    return terms / np.maximum(terms.sum(-1, keepdims=True), 1e-30) @ v, scores


def prefill(*, ignored=False):
    def single_prefill_with_kv_cache(q, k, v, custom_mask=None, causal=False, sm_scale=None, return_lse=False):
        ahead = np.arange(len(k)) - np.arange(len(q))[:, None] - (len(k) - len(q))
        hidden = (ahead > 0) & causal if custom_mask is None or ignored else ~custom_mask
        scale = q.shape[-1] ** -0.5 if sm_scale is None else sm_scale
        out, scores = attended(*(np.swapaxes(x, 0, 1) for x in (q, k, v)), scale, hidden)
        with np.errstate(divide="ignore"):
            top = np.maximum(scores.max(-1, initial=-np.inf), -1e30)
            lse = (top + np.log(np.exp(scores - top[..., None]).sum(-1))) / np.log(2)
        return np.swapaxes(out, 0, 1).astype(q.dtype), lse.T.astype(np.float32)

    return single_prefill_with_kv_cache


def appended(
    q, k_cache, v_cache, k, v, cos, sin, lengths, rows, table, scale, causal, window, interleaved, *,
    own_row=False, from_zero=False,
):  # fmt: skip
    """Attention of each item to its row, which new tokens are written to, or to its pages, which have them."""
    out, scale, added = np.zeros(q.shape), q.shape[-1] ** -0.5 if scale is None else scale, q.shape[1]
    for item, length in enumerate(lengths):
        start = length - added if k is None else length
        places, own = slice(start, start + added), q[item]
        row = item if rows is None or own_row else rows[item]
        if cos is not None:
            angles = slice(added) if from_zero else places
            own = turned(own, cos[angles], sin[angles], interleaved)
        if k is not None:
            k_cache[row, places] = k[item] if cos is None else turned(k[item], cos[angles], sin[angles], interleaved)
            v_cache[row, places] = v[item]
        held = (
            x[row] if table is None else x[np.maximum(table[item], 0)].reshape(-1, *x.shape[2:])
            for x in (k_cache, v_cache)
        )
        ahead = np.arange(places.stop) - np.arange(start, places.stop)[:, None]
        hidden = (ahead > 0) & causal | (-ahead > window[0]) & (window[0] >= 0)
        read = (np.swapaxes(x, 0, 1) for x in (own, *(x[: places.stop] for x in held)))
        out[item] = np.swapaxes(attended(*read, scale, hidden)[0], 0, 1)
    return out.astype(q.dtype)


def appending(**fault):
    def flash_attn_with_kvcache(
        q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
        cache_batch_idx=None, softmax_scale=None, causal=False, window_size=(-1, -1), rotary_interleaved=True,
    ):  # fmt: skip
        further = None, softmax_scale, causal, window_size, rotary_interleaved
        cache = k_cache, v_cache, k, v, rotary_cos, rotary_sin, cache_seqlens, cache_batch_idx
        return appended(q, *cache, *further, **fault)

    return flash_attn_with_kvcache


def rows_and_pages(**fault):
    def flash_attn_with_kvcache(
        q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
        cache_batch_idx=None, block_table=None, softmax_scale=None, causal=False, window_size=(-1, -1),
        rotary_interleaved=True,
    ):  # fmt: skip
        further = block_table, softmax_scale, causal, window_size, rotary_interleaved
        cache = k_cache, v_cache, k, v, rotary_cos, rotary_sin, cache_seqlens, cache_batch_idx
        return appended(q, *cache, *further, **fault)

    return flash_attn_with_kvcache


KERNELS = {
    "causal_conv1d_update": (update, {"keeps": True}, "short_convolution"),
    "causal_conv1d_fn": (convolution, {"keeps": True}, "short_convolution"),
    "causal_conv1d_fn_varlen": (packed_convolution, {"first": True}, "packed_convolution"),
    "mamba_chunk_scan_combined_varlen": (state_space, {"chunks_forget": True}, "packed_state_space"),
    "apply_rope_with_cos_sin_cache_inplace": (rotary, {"interleaved_alone": True}, "rotary_pair"),
    "fused_experts": (experts, {"exchanged": True}, "routed_experts"),
    "single_prefill_with_kv_cache": (prefill, {"ignored": True}, "attention"),
    "flash_attn_with_kvcache_appended": (appending, {"own_row": True}, "appended_attention"),
}


def checked(function):
    return attnspec.check(function, framework="numpy", profile="smoke", explain_time=0)


@pytest.mark.parametrize("like", KERNELS)
def test_a_kernel_is_taken_for_its_interface_and_conformant(like):
    made, _, operator = KERNELS[like]
    report = checked(made())
    assert report.conformant, report
    ran = [cell["run"] for cell in report.lines if "run" in cell]
    assert {like} == {run["like"] for run in ran}
    assert {operator} == {cell["operator"] for cell in report.lines if cell["kind"] == "cell"}


@pytest.mark.parametrize("like", KERNELS)
def test_a_fault_in_it_is_refuted(like):
    made, fault, _ = KERNELS[like]
    assert not checked(made(**fault)).conformant


def test_a_kernel_of_pages_is_checked_by_the_rows_that_it_writes_too():
    report = checked(rows_and_pages())
    assert report.conformant, report
    assert {"paged_attention", "appended_attention"} == {x["operator"] for x in report.lines if x["kind"] == "cell"}


def test_a_fault_of_rows_is_refuted_in_them_alone():
    failing = [x for x in checked(rows_and_pages(own_row=True)).lines if x.get("verdict") == "fail"]
    assert {"appended_attention"} == {x["operator"] for x in failing if x["level"] == "must"}


def test_a_kernel_that_turns_new_tokens_by_their_numbers_is_refuted():
    assert not checked(appending(from_zero=True)).conformant
