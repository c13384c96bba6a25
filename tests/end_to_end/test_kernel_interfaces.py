"""Interfaces of serving kernels: each with a small kernel behind it that is right, and once with a fault."""

import itertools

import numpy as np
import pytest

import attnspec


def activated(x, activation):
    return x / (1 + np.exp(-x)) if activation == "silu" else x


def convolved(x, weight, bias, state, activation):
    """A short convolution of [channels, length], and the inputs that are left."""
    whole = np.concatenate([state, x], -1).astype(np.float64)
    out = sum(whole[:, i : i + x.shape[-1]] * weight[:, i, None] for i in range(weight.shape[1]))
    out = activated(out if bias is None else out + bias[:, None], activation)
    return out, whole[:, whole.shape[1] - state.shape[1] :]


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


def rotary(*, interleaved_alone=False):
    def rotary_embedding(positions, query, key, head_size, cos_sin_cache, is_neox):
        cos, sin = (x[:, None] for x in np.split(cos_sin_cache[positions].astype(np.float64), 2, -1))
        width = 2 * cos.shape[-1]
        for x in (query, key):
            heads = x.reshape(len(x), -1, head_size)
            halves = is_neox and not interleaved_alone
            one, other = (
                (slice(width // 2), slice(width // 2, width)) if halves else (slice(0, width, 2), slice(1, width, 2))
            )
            left, right = heads[..., one].astype(np.float64), heads[..., other].astype(np.float64)
            heads[..., one], heads[..., other] = left * cos - right * sin, right * cos + left * sin
            x[:] = heads.reshape(x.shape)

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


KERNELS = {
    "causal_conv1d_update": (update, {"keeps": True}, "short_convolution"),
    "causal_conv1d_fn": (convolution, {"keeps": True}, "short_convolution"),
    "causal_conv1d_fn_varlen": (packed_convolution, {"first": True}, "packed_convolution"),
    "mamba_chunk_scan_combined_varlen": (state_space, {"chunks_forget": True}, "packed_state_space"),
    "apply_rope_with_cos_sin_cache_inplace": (rotary, {"interleaved_alone": True}, "rotary_pair"),
    "fused_experts": (experts, {"exchanged": True}, "routed_experts"),
    "single_prefill_with_kv_cache": (prefill, {"ignored": True}, "attention"),
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
