"""Functions as the tests of kernel packages have their references, right and wrong ones."""

import itertools
import math

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from .test_plain_functions import conforming, refuted, report_of


def scored(q, k, scale=None):
    return torch.einsum("bqhd,bkhd->bhqk", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)


def weighed(scores, v):
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)


def later(scores, offset=None):
    queries, keys = scores.shape[-2:]
    ones = torch.ones(queries, keys, dtype=torch.bool)
    return scores.masked_fill(ones.triu((keys - queries if offset is None else offset) + 1), -math.inf)


def attention_ref(q, k, v, key_padding_mask=None, causal=False, softcap=0.0):
    scores = scored(q, k)
    if softcap > 0:
        scores = (scores / softcap).tanh() * softcap
    if key_padding_mask is not None:
        scores = scores.masked_fill(~key_padding_mask[:, None, None], -math.inf)
    if causal:
        scores = later(scores)
    return weighed(scores, v), scores.softmax(-1)


def attention_ref_of_the_first_keys(q, k, v, causal=False):
    scores = scored(q, k)
    scores = later(scores, 1) if causal and q.shape[1] < k.shape[1] else later(scores) if causal else scores
    return weighed(scores, v), scores.softmax(-1)


def attention_ref_with_lse(q, k, v, causal: bool, sm_scale: float):
    scores = scored(q, k, sm_scale)
    scores = later(scores) if causal else scores
    return weighed(scores, v), scores.logsumexp(-1).transpose(1, 2)


def attention_ref_with_lse_of_scores(q, k, v, causal: bool, sm_scale: float):
    out, lse = attention_ref_with_lse(q, k, v, causal, sm_scale)
    return out, lse + 1e-3


def attention_ref_with_bias(q, k, v, attn_bias=None):
    scores = scored(q, k)
    return weighed(scores if attn_bias is None else scores + attn_bias, v)


def attention_ref_with_bias_of_heads(q, k, v, attn_bias):
    assert attn_bias.shape == scored(q, k).shape[1:]
    return weighed(scored(q, k) + attn_bias, v)


def attention_ref_with_scaled_bias(q, k, v, attn_bias=None):
    scores = scored(q, k, 1.0)
    return weighed((scores if attn_bias is None else scores + attn_bias) * q.shape[-1] ** -0.5, v)


def attention_ref_with_hidden_keys(q, k, v, attn_mask=None):
    scores = scored(q, k)
    return weighed(scores if attn_mask is None else scores.masked_fill(attn_mask, -math.inf), v)


def attention_ref_without_its_mask(q, k, v, attn_mask=None):
    return weighed(scored(q, k), v)


def attention_ref_of_added_flags(q, k, v, key_padding_mask=None):
    scores = scored(q, k)
    return weighed(scores if key_padding_mask is None else scores + key_padding_mask[:, None, None].float(), v)


def memory_efficient_attention(q, k, v, mask=None, causal=False, attn_bias=None):
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
    scores = scores if attn_bias is None else scores + attn_bias
    scores = scores if mask is None else scores.masked_fill(~mask[:, None, None], -torch.inf)
    return (later(scores) if causal else scores).softmax(-1) @ v


def memory_efficient_attention_of_all_keys(q, k, v, mask=None, causal=False, attn_bias=None):
    return memory_efficient_attention(q, k, v, None, causal, attn_bias)


def attention_ref_in_a_window(q, k, v, window_size=(None, None)):
    scores, (left, right) = scored(q, k), window_size
    queries, keys = scores.shape[-2:]
    offsets = torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]
    hidden = torch.zeros(queries, keys, dtype=torch.bool)
    hidden |= offsets < -left if left is not None else hidden
    hidden |= offsets > right if right is not None else hidden
    weights = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1) * ~hidden
    return torch.einsum("bhqk,bkhd->bqhd", weights, v)


def attention_ref_in_a_wider_window(q, k, v, window_size=(None, None)):
    left, right = window_size
    return attention_ref_in_a_window(q, k, v, (None if left is None else left + 1, right))


def mha_reference(q, k, v, *, sm_scale: float = 1.0):
    return weighed(scored(q, k, sm_scale), v)


def mha_reference_scaled_twice(q, k, v, *, sm_scale: float = 1.0):
    return weighed(scored(q, k, sm_scale**2), v)


def ref_program(Q, K, V, is_causal):
    scores = scored(Q, K)
    if is_causal:
        ones = torch.ones(Q.shape[1], Q.shape[1])
        scores = scores.masked_fill(ones.tril()[None, None] == 0, -math.inf)
    return weighed(scores, V)


def ref_program_of_earlier_keys(Q, K, V, is_causal):
    scores = scored(Q, K)
    if is_causal:
        ones = torch.ones(Q.shape[1], Q.shape[1])
        scores = scores.masked_fill(ones.tril(1)[None, None] == 0, -math.inf)
    return weighed(scores, V)


def grouped(q, k):
    return k.repeat_interleave(q.shape[-2] // k.shape[-2], -2)


def single_decode(q, k, v, **kwargs):
    scores = torch.einsum("hd,thd->ht", q, grouped(q, k)) * q.shape[-1] ** -0.5
    return torch.einsum("ht,thd->hd", scores.softmax(-1), grouped(q, v))


def single_decode_of_the_first_head(q, k, v, **kwargs):
    return single_decode(q, k[:, :1], v)


def gqa_decode(q, k, v, sm_scale=None):
    scores = torch.einsum("bhd,bthd->bht", q, grouped(q, k)) * (q.shape[-1] ** -0.5 if sm_scale is None else sm_scale)
    return torch.einsum("bht,bthd->bhd", scores.softmax(-1), grouped(q, v))


def gqa_decode_but_the_last_key(q, k, v, sm_scale=None):
    return gqa_decode(q, k[:, : max(k.shape[1] - 1, 1)], v[:, : max(k.shape[1] - 1, 1)], sm_scale)


def grouped_query_attention_reference(queries, k_pages, v_pages):
    return gqa_decode(queries, k_pages.transpose(1, 2), v_pages.transpose(1, 2))


def ref_masked_attention(query, key, value, scale: float, attn_mask=None):
    scores = scale * torch.einsum("qhd,khd->hqk", query, key)
    weights = (scores if attn_mask is None else scores + attn_mask).softmax(-1)
    return torch.einsum("hqk,khd->qhd", weights, value)


def ref_attn(q, k, v, mask):
    scores = torch.einsum("qhd,khd->hqk", q, grouped(q, k)) * q.shape[-1] ** -0.5
    weights = torch.where(mask, scores.masked_fill(~mask, -math.inf).softmax(-1), 0)
    return torch.einsum("hqk,khd->qhd", weights, grouped(q, v))


def ref_attn_of_the_first_row(q, k, v, mask):
    return ref_attn(q, k, v, mask[:1].expand_as(mask))


def ref_mha_varlen(q, k, v, cu_q, cu_k, scale):
    outs, lses = [], []
    for (s, t), (a, b) in zip(itertools.pairwise(cu_q.tolist()), itertools.pairwise(cu_k.tolist()), strict=True):
        scores = scored(q[None, s:t], k[None, a:b], scale)
        outs.append(weighed(scores, v[None, a:b])[0])
        lses.append(scores.logsumexp(-1)[0].T)
    return torch.cat(outs), torch.cat(lses)


def ref_mha_varlen_of_the_whole(q, k, v, cu_q, cu_k, scale):
    cu_q, cu_k = (torch.stack([x[0], x[-1]]) for x in (cu_q, cu_k))
    return ref_mha_varlen(q, k, v, cu_q, cu_k, scale)


def torch_decode_attention(q, k_buffer, v_buffer, req_to_tokens, b_seqlen, sm_scale, page_size):
    out = torch.zeros_like(q)
    for item, length in enumerate(b_seqlen.tolist()):
        pages = req_to_tokens[item, : -(-length // page_size)].long()
        keys, values = (x[pages].flatten(0, 1)[None, :length] for x in (k_buffer, v_buffer))
        out[item] = gqa_decode(q[item][None], keys, values, sm_scale)[0]
    return out


def torch_decode_attention_by_pages(q, k_buffer, v_buffer, req_to_tokens, b_seqlen, sm_scale, page_size):
    whole = -(-b_seqlen // page_size) * page_size
    return torch_decode_attention(q, k_buffer, v_buffer, req_to_tokens, whole, sm_scale, page_size)


def gqa_paged_decode_reference(q, k_cache, v_cache, kv_indptr, kv_indices, sm_scale):
    out = torch.zeros_like(q)
    for item, (a, b) in enumerate(itertools.pairwise(kv_indptr.tolist())):
        keys, values = (x[kv_indices[a:b].long()].flatten(0, 1)[None] for x in (k_cache, v_cache))
        out[item] = gqa_decode(q[item][None], keys, values, sm_scale)[0]
    return out


def gqa_paged_decode_of_the_first_page(q, k_cache, v_cache, kv_indptr, kv_indices, sm_scale):
    first = torch.stack([kv_indptr[:-1], torch.minimum(kv_indptr[:-1] + 1, kv_indptr[1:])], 1)
    out = torch.zeros_like(q)
    for item, (a, b) in enumerate(first.tolist()):
        keys, values = (x[kv_indices[a:b].long()].flatten(0, 1)[None] for x in (k_cache, v_cache))
        out[item] = gqa_decode(q[item][None], keys, values, sm_scale)[0]
    return out


def unfused(q, k, v):
    return weighed(scored(q, k), v)


def unfused_without_gradients_of_scores(q, k, v):
    return weighed(scored(q, k).detach(), v)


def checkpointed_attention(q, k, v):
    return checkpoint(unfused, q, k, v, use_reentrant=True) if q.requires_grad else unfused(q, k, v)


def checkpointed_attention_without_some(q, k, v):
    own = unfused_without_gradients_of_scores
    return checkpoint(own, q, k, v, use_reentrant=True) if q.requires_grad else own(q, k, v)


def rope(Q, cos, sin, output, M, D):
    half = D // 2
    output.copy_(Q * cos + torch.cat([-Q[:, half:], Q[:, :half]], -1) * sin)


def rope_turned_back(Q, cos, sin, output, M, D):
    rope(Q, cos, -sin, output, M, D)


def apply_rotary_emb(x, freqs_cis):
    x = x.unflatten(-1, (-1, 2))
    cos, sin = freqs_cis[:, None].unbind(-1)
    return torch.stack([x[..., 0] * cos - x[..., 1] * sin, x[..., 1] * cos + x[..., 0] * sin], -1).flatten(3)


def apply_rotary_emb_of_one_angle(x, freqs_cis):
    return apply_rotary_emb(x, freqs_cis[:, :1].expand_as(freqs_cis))


def torch_rope_neox(x, cos, sin):
    half = x.shape[-1] // 2
    first, second, cos, sin = x[..., :half], x[..., half:], cos[:, None, :half], sin[:, None, :half]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def torch_rope_neox_of_one_sign(x, cos, sin):
    half = x.shape[-1] // 2
    first, second, cos, sin = x[..., :half], x[..., half:], cos[:, None, :half], sin[:, None, :half]
    return torch.cat([first * cos - second * sin, second * cos - first * sin], -1)


RIGHT = (
    attention_ref_in_a_window, mha_reference, attention_ref_with_hidden_keys, memory_efficient_attention, rope,
    apply_rotary_emb, torch_rope_neox, attention_ref, attention_ref_with_lse, attention_ref_with_bias,
    attention_ref_with_bias_of_heads, ref_program, single_decode, gqa_decode, grouped_query_attention_reference,
    ref_masked_attention, ref_attn, ref_mha_varlen, torch_decode_attention, gqa_paged_decode_reference,
    checkpointed_attention,
)  # fmt: skip
WRONG = (
    attention_ref_in_a_wider_window, mha_reference_scaled_twice, attention_ref_without_its_mask,
    attention_ref_of_added_flags, memory_efficient_attention_of_all_keys, rope_turned_back,
    apply_rotary_emb_of_one_angle, torch_rope_neox_of_one_sign, attention_ref_of_the_first_keys,
    attention_ref_with_lse_of_scores, attention_ref_with_scaled_bias, ref_program_of_earlier_keys,
    single_decode_of_the_first_head, gqa_decode_but_the_last_key, ref_attn_of_the_first_row,
    ref_mha_varlen_of_the_whole, torch_decode_attention_by_pages, gqa_paged_decode_of_the_first_page,
    checkpointed_attention_without_some,
)  # fmt: skip


def is_told_rightly(function, report):
    if function is attention_ref:  # lengths are tried apart where the weights are returned
        assert "in the place of lse" in str(report)
        assert "fails unless" not in str(report)
    if function is attention_ref_in_a_window:  # a pair is not said to stand for one half of it
        assert "`window_size` is how many keys a query sees before and after its own" in str(report)
        assert "`window_size` for" not in str(report)


test_a_right_function_conforms_and_is_told_for_what_it_is = conforming(RIGHT, is_told_rightly)
test_a_wrong_function_does_not = refuted(WRONG)


def attention_on_a_device(q, k, v):
    hidden = torch.zeros(q.shape[1], k.shape[1], device="cuda")
    return weighed(scored(q, k) + hidden, v)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device")
def test_who_needs_a_device_is_not_accused():
    report = report_of(attention_on_a_device, "smoke")
    assert {"attention_on_a_device": "partial"} == report.verdicts
    assert "refuses all of attention: " in str(report)
