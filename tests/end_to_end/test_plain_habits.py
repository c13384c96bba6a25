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


RIGHT = (
    flash_attention_forward, dot_product_attention, attention_by_roots, cross_entropy_of_chunks, swiglu, rms_norm,
    top_p_renorm_probs, fused_rotary_embedding,
)  # fmt: skip
WRONG = (
    flash_attention_forward_of_one_more, cross_entropy_of_all_chunks, swiglu_of_clamped_gates,
    rms_norm_of_that_epsilon_always, top_p_renorm_probs_without_the_crossing, fused_rotary_embedding_of_half_a_query,
    fused_rotary_embedding_of_keys_turned_back,
)  # fmt: skip
TOLD = {
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
