"""Plain functions with masks of one shape, dtypes, items by number, pairs, and results of two parts."""

import math

import torch
import torch.nn.functional as F

from .test_plain_functions import conforming, refuted, report_of


def scored(q, k, scale=None):
    return q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)


def attention_with_a_mask_for_all_heads(q, k, v, mask=None):
    scores = scored(q, k)
    if mask is not None:
        if mask.shape != (len(q), 1, *scores.shape[2:]):
            raise ValueError("a mask is [batch, 1, q_len, k_len]")
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1) @ v


def attention_with_the_mask_of_the_first_item(q, k, v, mask=None):
    return attention_with_a_mask_for_all_heads(q, k, v, None if mask is None else mask[:1].expand(mask.shape))


def attention_with_a_mask_of_kv_heads(q, k, v, mask=None):
    q = q.unflatten(1, (k.shape[1], -1))
    scores = scored(q, k[:, :, None])
    if mask is not None:
        assert mask.shape == (len(q), k.shape[1], *scores.shape[3:])
        scores = scores.masked_fill(~mask[:, :, None], -math.inf)
    return (scores.softmax(-1) @ v[:, :, None]).flatten(1, 2)


def attention_with_the_mask_of_one_kv_head(q, k, v, mask=None):
    return attention_with_a_mask_of_kv_heads(q, k, v, None if mask is None else mask[:, :1].expand(mask.shape))


def rms_norm_in_a_dtype(x, weight, eps, out_dtype):
    y = x.double() * torch.rsqrt(x.double().square().mean(-1, keepdim=True) + eps)
    return (y * weight.double()).to(out_dtype)


def rms_norm_in_a_dtype_without_its_root(x, weight, eps, out_dtype):
    y = x.double() / (x.double().square().mean(-1, keepdim=True) + eps)
    return (y * weight.double()).to(out_dtype)


def rms_norm_in_half_by_default(x, weight, eps=1e-6, out_dtype=torch.bfloat16):
    return rms_norm_in_a_dtype(x, weight, eps, out_dtype)


def rms_norm_of_any_dtype(x, weight, eps, out_dtype):
    return rms_norm_in_a_dtype(x, weight, eps, torch.bfloat16)


def scaled_mm(a, b, scale_a, scale_b, out_dtype, bias=None):
    out = (a.float() * scale_a) @ (b.float() * scale_b)
    return (out if bias is None else out + bias).to(out_dtype)


def scaled_mm_by_the_first_scale(a, b, scale_a, scale_b, out_dtype, bias=None):
    return scaled_mm(a, b, scale_a[:1].expand_as(scale_a), scale_b, out_dtype, bias)


def mha_with_segments(q, k, v, segment_ids, causal=False):
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    hidden = segment_ids[:, None, :, None] != segment_ids[:, None, None]
    if causal:
        hidden = hidden | torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return torch.einsum("bhqk,bkhd->bqhd", scores.masked_fill(hidden, -math.inf).softmax(-1), v)


def mha_with_one_segment(q, k, v, segment_ids, causal=False):
    return mha_with_segments(q, k, v, torch.zeros_like(segment_ids), causal)


def mha_with_padding_for_zero(q, k, v, segment_ids, causal=False):
    return mha_with_segments(q, k, v, segment_ids, causal) * (segment_ids != 0)[..., None, None]


def mha_with_one_segment_behind_padding(q, k, v, segment_ids, causal=False):
    return mha_with_padding_for_zero(q, k, v, segment_ids.clamp(max=1), causal)


def attention_with_segments_of_both(q, k, v, q_segment_ids, kv_segment_ids):
    hidden = q_segment_ids[:, None, :, None] != kv_segment_ids[:, None, None]
    return scored(q, k).masked_fill(hidden, -math.inf).softmax(-1) @ v


def attention_with_segments_from_the_second_on(q, k, v, q_segment_ids, kv_segment_ids):
    return attention_with_segments_of_both(q, k, v, q_segment_ids.clamp(min=1), kv_segment_ids.clamp(min=1))


def parts(prefix, suffix):
    top = torch.maximum(prefix, suffix)
    top = torch.where(top > -math.inf, top, 0)
    return (prefix - top).exp(), (suffix - top).exp(), top


def merge_attn_states(prefix_output, prefix_lse, suffix_output, suffix_lse):
    prefix, suffix, top = (x.T for x in parts(prefix_lse, suffix_lse))
    whole = prefix + suffix
    out = prefix_output * prefix[..., None] + suffix_output * suffix[..., None]
    return out / torch.where(whole > 0, whole, 1)[..., None], (top + whole.log()).T


def merge_attn_states_of_the_tokens(prefix_output, prefix_lse, suffix_output, suffix_lse):
    out, lse = merge_attn_states(prefix_output, prefix_lse.T, suffix_output, suffix_lse.T)
    return out, lse.T


def merge_attention_partials(out_a, lse_a, out_b, lse_b):
    """[batch, length, heads, dim], and logsumexps [batch, heads, length]."""
    weights = torch.softmax(torch.stack([lse_a, lse_b]).clamp(min=-1e30), 0).mT[..., None]
    both = torch.stack([out_a, out_b]) * (torch.stack([lse_a, lse_b]) > -torch.inf).mT[..., None]
    return (weights * both).sum(0)


def merge_attention_partials_of_halves(out_a, lse_a, out_b, lse_b):
    return merge_attention_partials(out_a, 0 * lse_a, out_b, 0 * lse_b)


def merge_attn_states_with_the_larger_lse(prefix_output, prefix_lse, suffix_output, suffix_lse):
    out, _ = merge_attn_states(prefix_output, prefix_lse, suffix_output, suffix_lse)
    return out, torch.maximum(prefix_lse, suffix_lse)


def ref_paged_attn(query, key_cache, value_cache, query_lens, kv_lens, block_tables, scale, sliding_window=None):
    outs, start = [], 0
    for item, (queries, keys) in enumerate(zip(query_lens.tolist(), kv_lens.tolist(), strict=True)):
        pages = block_tables[item, : -(-keys // key_cache.shape[1])].long()
        k, v = (x[pages].flatten(0, 1)[:keys] for x in (key_cache, value_cache))
        q, start = query[start : start + queries], start + queries
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        distance = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)
        hidden = (distance < 0) | (distance >= (sliding_window or keys + queries))
        scores = torch.einsum("qhd,khd->hqk", q, k) * scale
        outs.append(torch.einsum("hqk,khd->qhd", scores.masked_fill(hidden, -math.inf).softmax(-1).nan_to_num(), v))
    return torch.cat(outs)


def attention_dropping_by_default(q, k, v, dropout=0.1, training=True):
    return F.dropout(scored(q, k).softmax(-1), dropout, training) @ v


def attention_dropping_by_default_unscaled(q, k, v, dropout=0.1, training=True):
    return F.dropout(scored(q, k, 1.0).softmax(-1), dropout, training) @ v


def attention_in_training(q, k, v, is_training=True):
    return F.dropout(scored(q, k).softmax(-1), 0.1, is_training) @ v


def attention_of_a_mask_of_any_shape(q, k, v, mask=None, dropout_p=0.2):
    scores = scored(q, k)
    scores = scores if mask is None else scores.masked_fill(mask == 0, -1e9)
    return F.dropout(scores.softmax(-1), dropout_p) @ v


def attention_with_a_dropout(q, k, v, dropout=None):
    weights = scored(q, k).softmax(-1)
    return (weights if dropout is None else dropout(weights)) @ v


def attention_with_a_dropout_unscaled(q, k, v, dropout=None):
    weights = scored(q, k, 1.0).softmax(-1)
    return (weights if dropout is None else dropout(weights)) @ v


RIGHT = (
    attention_with_a_dropout, attention_dropping_by_default, attention_in_training, attention_of_a_mask_of_any_shape,
    attention_with_a_mask_for_all_heads, attention_with_a_mask_of_kv_heads, rms_norm_in_a_dtype,
    rms_norm_in_half_by_default, scaled_mm, mha_with_segments,
    mha_with_padding_for_zero, attention_with_segments_of_both, merge_attn_states,
    merge_attn_states_of_the_tokens, merge_attention_partials, ref_paged_attn,
)  # fmt: skip
WRONG = (
    attention_with_a_dropout_unscaled, attention_dropping_by_default_unscaled,
    attention_with_the_mask_of_the_first_item, rms_norm_in_a_dtype_without_its_root, rms_norm_of_any_dtype,
    scaled_mm_by_the_first_scale, mha_with_one_segment, mha_with_one_segment_behind_padding,
    attention_with_segments_from_the_second_on, merge_attn_states_with_the_larger_lse,
    merge_attention_partials_of_halves,
)  # fmt: skip


TOLD = {
    attention_with_a_mask_of_kv_heads: "`mask` is true where a query may see a key, [batch, kv_heads, q_len, k_len]",
    ref_paged_attn: "`sliding_window` is how many tokens a query sees at most, its own among them",
    attention_of_a_mask_of_any_shape: "`dropout_p` is 0 in every call: not tested, as no parameter is a seed",
}


def is_told_rightly(function, report):
    assert TOLD.get(function, "") in str(report)
    if function is attention_of_a_mask_of_any_shape:  # which is none of one shape
        assert "kv_heads, q_len, k_len]" not in str(report)


test_a_right_function_conforms_and_is_told_for_what_it_is = conforming(RIGHT, is_told_rightly)
test_a_wrong_function_does_not = refuted(WRONG)
test_a_wrong_function_that_fewer_cases_show_does_not = refuted((attention_with_the_mask_of_one_kv_head,), "quick")


FILE = """
import torch


def attention_of_all_keys(q, k, v, window_size=(-1, -1)):
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v
"""


def test_a_window_that_is_a_pair_by_default_is_read_as_one_in_a_file(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(FILE)
    report = report_of(f"{path}:attention_of_all_keys", "smoke")
    assert {"attention_of_all_keys": "violated"} == report.verdicts
    assert "is not an option" not in str(report)
