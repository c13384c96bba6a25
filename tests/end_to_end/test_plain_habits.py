"""Functions with habits of their own, which are none of their faults, and with faults that such functions have."""

import pytest
import torch

import attnspec

from .test_plain_functions import conforming, refuted


def heads_of(x, heads, tiled=False):
    return x.repeat(1, 1, heads // x.shape[2], 1) if tiled else x.repeat_interleave(heads // x.shape[2], 2)


def seen_from(q, k, v, scale, seen, tiled=False):
    """Attention of [batch, length, heads, dim]; zeros where nothing is seen."""
    k, v = (heads_of(x, q.shape[2], tiled) for x in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * scale
    p = torch.softmax(scores.masked_fill(~seen, -1e30), -1) * seen
    return torch.einsum("bhqk,bkhd->bqhd", p, v)


def flash_attention_forward(query_states, key_states, value_states, is_causal=True, sliding_window=None):
    """A window of so many tokens, which is on both sides unless the function is causal."""
    return windowed(query_states, key_states, value_states, is_causal, sliding_window, 1)


def flash_attention_forward_of_one_more(query_states, key_states, value_states, is_causal=True, sliding_window=None):
    return windowed(query_states, key_states, value_states, is_causal, sliding_window, 0 if is_causal else 1)


def windowed(q, k, v, causal, window, less):
    i = torch.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1]
    j = torch.arange(k.shape[1])
    seen = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool)
    if window is not None:
        seen = seen & ((i - j).abs() <= window - less)
    return seen_from(q, k, v, q.shape[-1] ** -0.5, seen & (j <= i) if causal else seen)


def dot_product_attention(query, key, value, *, scale=None):
    return grouped(query, key, value, scale)


def grouped(q, k, v, scale, tiled=False):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return seen_from(q, k, v, scale, torch.ones(q.shape[1], k.shape[1], dtype=torch.bool), tiled)


def attention_by_roots(q, k, v, scale=None):
    """Both factors are multiplied by the root of the scale, so that none is below zero. [batch, length, heads, dim]"""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    root = scale**0.5
    return grouped(q * root, k * root, v, 1.0)


def cross_entropy_of_chunks(logits, labels, ignore_index=-100, reduction="mean"):
    """The mean or the sum over the tokens."""
    loss = torch.nn.functional.cross_entropy(logits, labels, ignore_index=ignore_index, reduction="sum")
    return loss / (labels != ignore_index).sum() if reduction == "mean" else loss


def cross_entropy_of_all_chunks(logits, labels, ignore_index=-100, reduction="mean"):
    """The mean or the sum over the tokens."""
    loss = torch.nn.functional.cross_entropy(logits, labels, ignore_index=ignore_index, reduction="sum")
    return loss / labels.numel() if reduction == "mean" else loss


def swiglu(x, alpha=1.702, beta=1.0, limit=None):
    """The gates and what they let through take turns."""
    gate, up = x[..., ::2], x[..., 1::2]
    if limit is not None:
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (up + beta)


def swiglu_of_clamped_gates(x, alpha=1.702, beta=1.0, limit=None):
    gate, up = x[..., ::2], x[..., 1::2]
    if limit is not None:
        gate, up = gate.clamp(-limit, limit), up.clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (up + beta)


def rms_norm(x, weight=None, eps=None):
    """Epsilon is that of the dtype unless it is said."""
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    out = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return out if weight is None else out * weight


def rms_norm_of_that_epsilon_always(x, weight=None, eps=None):
    return rms_norm(x, weight)


def top_p_renorm_probs(probs, top_p):
    """One share for all rows, a number."""
    return renormalised(probs, float(top_p))


def top_p_renorm_probs_without_the_crossing(probs, top_p):
    return renormalised(probs, float(top_p), least=0)


def renormalised(probs, p, least=1):
    ordered, order = probs.sort(-1, descending=True)
    keep = ordered.cumsum(-1) - least * ordered < p
    keep[:, 0] = True
    kept = torch.zeros_like(probs).scatter(-1, order, ordered * keep)
    return kept / kept.sum(-1, keepdim=True)


def fused_rotary_embedding(q, k, cos, sin):
    """[length, heads, dim], by tables [length, dim // 2]."""
    return turned(q, q, cos, sin), turned(k, k, cos, sin)


def fused_rotary_embedding_of_half_a_query(q, k, cos, sin):
    other = k if q.shape == k.shape else q
    return turned(q, other, cos, sin), turned(k, k, cos, sin)


def fused_rotary_embedding_of_keys_turned_back(q, k, cos, sin):
    return turned(q, q, cos, sin), turned(k, k, cos, -sin)


def turned(x, other, cos, sin):
    cos, sin = cos[:, None], sin[:, None]
    (a, b), (c, d) = x.chunk(2, -1), other.chunk(2, -1)
    return torch.cat((a * cos - b * sin, c * sin + d * cos), -1)


def prefill(q, k, v, causal=True):
    """The queries are the last tokens of the keys. [length, heads, dim]"""
    return of_last_queries(q, k, v, causal, k.shape[0] - q.shape[0])


def prefill_of_first_tokens(q, k, v, causal=True):
    """The queries are the last tokens of the keys. [length, heads, dim]"""
    return of_last_queries(q, k, v, causal, 0)


def of_last_queries(q, k, v, causal, ahead):
    seen = torch.ones(q.shape[0], k.shape[0], dtype=torch.bool)
    seen = seen.tril(ahead) if causal else seen
    return seen_from(q[None], k[None], v[None], q.shape[-1] ** -0.5, seen)[0]


def attention_with_lse(q, k, v, scale=None, return_lse=False, num_splits=1):
    """[batch, heads, length, dim]; keys are taken in parts."""
    return by_parts(q, k, v, scale, num_splits, 1.0) if return_lse else by_parts(q, k, v, scale, num_splits, 1.0)[0]


def attention_with_lse_converted(q, k, v, scale=None, return_lse=False, num_splits=1):
    out = by_parts(q, k, v, scale, num_splits, 0.6931472)
    return out if return_lse else out[0]


def by_parts(q, k, v, scale, parts, factor):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = q @ k.repeat_interleave(q.shape[1] // k.shape[1], 1).mT * scale
    v = v.repeat_interleave(q.shape[1] // v.shape[1], 1)
    places = torch.arange(k.shape[2]).chunk(parts)
    lse = torch.stack([scores[..., own].logsumexp(-1) for own in places])
    outs = torch.stack([scores[..., own].softmax(-1) @ v[..., own, :] for own in places])
    whole = lse.logsumexp(0)
    return ((lse - whole).exp().nan_to_num()[..., None] * outs).sum(0), whole * factor


def mamba_chunk_scan(x, dt, A, B, C, dt_softplus=True):
    """State space of one item. x: (1, length, heads, dim); dt: (1, length, heads); B, C: (1, length, groups, state)"""
    return scanned(x, dt, A, B, C, dt_softplus, 0.0)


def mamba_chunk_scan_of_later_tokens(x, dt, A, B, C, dt_softplus=True):
    """State space of one item. x: (1, length, heads, dim); dt: (1, length, heads); B, C: (1, length, groups, state)"""
    return scanned(x, dt, A, B, C, dt_softplus, 0.01)


def scanned(x, dt, A, B, C, softplus, less):
    x, dt, b, c = x[0], dt[0], B[0], C[0]
    dt = torch.nn.functional.softplus(dt) if softplus else dt
    b, c = (each.repeat_interleave(x.shape[1] // each.shape[1], 1) for each in (b, c))
    state, rows = torch.zeros(*x.shape[1:], b.shape[-1]), []
    for t in range(len(x)):
        state = state * (dt[t] * A)[:, None, None].exp() + (dt[t][:, None] * x[t])[..., None] * b[t][:, None] * (
            1 - less
        )
        rows.append((state * c[t][:, None]).sum(-1))
    return torch.stack(rows)[None]


def fused_topk_deepseek(
    scores, bias, n_group, topk_group, topk, routed_scaling_factor, topk_values, topk_indices, launch_with_pdl=True
):
    """Weights and experts are written to the last two arrays."""
    routed(scores, bias, n_group, topk_group, topk, routed_scaling_factor, topk_values, topk_indices, 0.0)


def fused_topk_deepseek_of_biased_weights(
    scores, bias, n_group, topk_group, topk, routed_scaling_factor, topk_values, topk_indices, launch_with_pdl=True
):
    routed(scores, bias, n_group, topk_group, topk, routed_scaling_factor, topk_values, topk_indices, 1.0)


def routed(scores, bias, groups, kept_groups, k, scaling, values, indices, share):
    own, size = scores.sigmoid(), scores.shape[-1] // groups
    of_groups = (own + bias).unflatten(-1, (groups, size)).topk(min(2, size), -1)[0].sum(-1)
    kept = torch.zeros_like(of_groups).scatter(-1, of_groups.topk(kept_groups, -1).indices, 1.0)
    hidden = (kept == 0).repeat_interleave(size, -1)
    chosen = (own + bias).masked_fill(hidden, -torch.inf).topk(k, -1).indices
    weights = (own + share * bias).gather(-1, chosen)
    values.copy_(weights / weights.sum(-1, keepdim=True) * scaling)
    indices.copy_(chosen)


def group_norm_backward(output_grad, x, mean, rstd, num_groups, gamma):
    """[batch, channels, height, width]; the mean and the rstd: [batch, groups]"""
    return of_groups_again(output_grad, x, mean, rstd, num_groups, gamma, lambda c, size: c // size)


def group_norm_backward_of_tiled_groups(output_grad, x, mean, rstd, num_groups, gamma):
    """[batch, channels, height, width]; the mean and the rstd: [batch, groups]"""
    return of_groups_again(output_grad, x, mean, rstd, num_groups, gamma, lambda c, size: c % num_groups)


def of_groups_again(dy, x, mean, rstd, groups, gamma, group_of):
    own = group_of(torch.arange(x.shape[1]), x.shape[1] // groups)
    d_gamma = (dy * (x - mean[:, own, None, None]) * rstd[:, own, None, None]).sum((0, 2, 3))
    rows, weighted = (each.reshape(len(x), groups, -1) for each in (x, dy * gamma[:, None, None]))
    normed = (rows - mean[..., None]) * rstd[..., None]
    along = (weighted * normed).mean(-1, keepdim=True)
    d_rows = (weighted - weighted.mean(-1, keepdim=True) - normed * along) * rstd[..., None]
    return d_rows.reshape(x.shape), d_gamma, dy.sum((0, 2, 3))


def grpo_loss(new_logprobs, old_logprobs, ref_logprobs, advantages, padding_mask, cliprange=0.2, beta=0.04):
    """The mean over all tokens."""
    return clipped_loss(new_logprobs, old_logprobs, ref_logprobs, advantages, ~padding_mask, cliprange, beta)


def grpo_loss_of_padding(new_logprobs, old_logprobs, ref_logprobs, advantages, padding_mask, cliprange=0.2, beta=0.04):
    return clipped_loss(new_logprobs, old_logprobs, ref_logprobs, advantages, padding_mask | True, cliprange, beta)


def clipped_loss(new, old, ref, advantages, mask, clip, beta):
    ratio, gain = (new - old).exp(), advantages[:, None]
    loss = -torch.minimum(ratio * gain, ratio.clamp(1 - clip, 1 + clip) * gain)
    loss = loss + beta * ((ref - new).exp() - (ref - new) - 1)
    return (loss * mask).sum() / mask.sum().clamp(min=1)


RIGHT = (
    fused_topk_deepseek, group_norm_backward, grpo_loss,
    prefill, attention_with_lse, mamba_chunk_scan, flash_attention_forward, dot_product_attention, attention_by_roots,
    cross_entropy_of_chunks, swiglu, rms_norm, top_p_renorm_probs, fused_rotary_embedding,
)  # fmt: skip
WRONG = (
    fused_topk_deepseek_of_biased_weights, group_norm_backward_of_tiled_groups, grpo_loss_of_padding,
    prefill_of_first_tokens, attention_with_lse_converted, mamba_chunk_scan_of_later_tokens,
    flash_attention_forward_of_one_more, cross_entropy_of_all_chunks, swiglu_of_clamped_gates,
    rms_norm_of_that_epsilon_always, top_p_renorm_probs_without_the_crossing, fused_rotary_embedding_of_half_a_query,
    fused_rotary_embedding_of_keys_turned_back,
)  # fmt: skip
TOLD = {
    "attention_with_lse": "`num_splits` is in how many parts keys are taken",
    "mamba_chunk_scan": "fails unless batch == 1",
    "prefill": "its documentation says causal_alignment = bottom_right",
    "attention_by_roots": "fails unless scale == none or scale >= 0",
    "cross_entropy_of_chunks": "fails unless reduction != each",
    "flash_attention_forward": "is how many keys a query sees on each side, its own among them",
    "top_p_renorm_probs": "top_p_renorm_probs_of_one",
}


def is_told(function, report):
    assert TOLD.get(function.__name__, "") in " ".join(str(report).split()), report


test_a_right_function_conforms = conforming(RIGHT, is_told)
test_a_wrong_function_does_not = refuted(WRONG)


def tiled_attention(query, key, value, *, scale=None):
    return grouped(query, key, value, scale, tiled=True)


@pytest.mark.parametrize(("name", "verdict"), [("dot_product_attention", "violated"), ("mine", "conformant")])
def test_a_function_is_held_to_the_documentation_of_the_interface_by_whose_name_it_goes(name, verdict, monkeypatch):
    """Query heads take turns here, which is a convention of others."""
    monkeypatch.setattr(tiled_attention, "__name__", name)
    report = attnspec.check(tiled_attention, operator="attention", dtypes="float32", profile="smoke", explain_time=0)
    assert {name: verdict} == report.verdicts, report
    assert ("grouped_query" in {cell["mechanism"] for cell in report.failures}) is (verdict == "violated"), report
