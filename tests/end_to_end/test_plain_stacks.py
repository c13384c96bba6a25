"""Functions of several arrays in one, and functions that return other axes than they take, right and wrong ones."""

import itertools
import math

import torch

from .test_plain_functions import conforming, refuted


def attend(q, k, v, causal=False, scale=None):
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    return scores.softmax(-1) @ v


def heads_first(*several):
    return (x.transpose(1, 2) for x in several)


def attention(qkv, softmax_scale=None):
    return attend(*heads_first(*qkv.unbind(2)), scale=softmax_scale).transpose(1, 2)


def attention_of_rows(qkv, is_causal=False):
    return attend(*heads_first(*qkv.unbind(2)), causal=is_causal).transpose(1, 2).flatten(2)


def attention_of_a_stack(qkv):
    return attend(*qkv.unbind(0))


def causal_self_attention(qkv, n_heads):
    q, k, v = (x.unflatten(-1, (n_heads, -1)) for x in qkv.chunk(3, -1))
    return attend(*heads_first(q, k, v), causal=True).transpose(1, 2).flatten(2)


def attention_of_heads_in_turn(mixed_qkv, num_heads):
    return attention_of_rows(mixed_qkv.unflatten(-1, (num_heads, 3, -1)).transpose(2, 3))


def cross_attention(q, kv):
    return attend(*heads_first(q, *kv.unbind(2))).transpose(1, 2)


def attention_of_swapped_keys(qkv):
    q, k, v = qkv.unbind(0)
    return attend(q, v, k)


def attention_scaled_by_the_model(qkv, n_heads):
    q, k, v = (x.unflatten(-1, (n_heads, -1)) for x in qkv.chunk(3, -1))
    return attend(*heads_first(q, k, v), scale=(qkv.shape[-1] // 3) ** -0.5).transpose(1, 2).flatten(2)


def attention_of_mixed_heads(qkv, n_heads):
    q, k, v = qkv.unflatten(-1, (3 * n_heads, -1)).unflatten(2, (n_heads, 3)).unbind(3)
    return attend(*heads_first(k, q, v)).transpose(1, 2).flatten(2)


def decoded(q, keys, values):
    keys, values = (x.repeat_interleave(q.shape[0] // x.shape[1], 1).float() for x in (keys, values))
    weights = (torch.einsum("hd,thd->ht", q.float(), keys) * q.shape[-1] ** -0.5).softmax(-1)
    return torch.einsum("ht,thd->hd", weights, values).to(q.dtype)


def paged_decode(q, kv_cache, kv_indptr, kv_indices, kv_last_page_len):
    out = torch.zeros_like(q)
    for item, (start, end) in enumerate(zip(kv_indptr[:-1].tolist(), kv_indptr[1:].tolist(), strict=True)):
        length = (end - start - 1) * kv_cache.shape[2] + int(kv_last_page_len[item])
        keys, values = kv_cache[kv_indices[start:end].long()].transpose(0, 1).flatten(1, 2)[:, :length]
        out[item] = decoded(q[item], keys, values)
    return out


def paged_decode_of_pools(q, kv_cache, kv_indptr, kv_indices, kv_last_page_len):
    return paged_decode(q, kv_cache.transpose(0, 1), kv_indptr, kv_indices, kv_last_page_len)


def paged_decode_of_whole_pages(q, kv_cache, kv_indptr, kv_indices, kv_last_page_len):
    return paged_decode(q, kv_cache, kv_indptr, kv_indices, 0 * kv_last_page_len + kv_cache.shape[2])


def paged_decode_of_swapped_keys(q, kv_cache, kv_indptr, kv_indices, kv_last_page_len):
    return paged_decode(q, kv_cache.flip(1), kv_indptr, kv_indices, kv_last_page_len)


def decode_attention(q, k_buffer, v_buffer, kv_indptr, kv_indices):
    tokens = [kv_indices[start:end].long() for start, end in itertools.pairwise(kv_indptr)]
    return torch.stack([decoded(row, k_buffer[own], v_buffer[own]) for row, own in zip(q, tokens, strict=True)])


def decode_attention_of_the_next_values(q, k_buffer, v_buffer, kv_indptr, kv_indices):
    return decode_attention(q, k_buffer, v_buffer.roll(1, 0), kv_indptr, kv_indices)


def decode_tokens_of_pages(q, k_cache, v_cache, kv_indptr, kv_indices):
    return decode_attention(q, k_cache.flatten(0, 1), v_cache.flatten(0, 1), kv_indptr, kv_indices)


def decode_tokens_but_the_last(q, k_cache, v_cache, kv_indptr, kv_indices):
    tokens = [kv_indices[start : max(end - 1, start + 1)].long() for start, end in itertools.pairwise(kv_indptr)]
    keys, values = k_cache.flatten(0, 1), v_cache.flatten(0, 1)
    return torch.stack([decoded(row, keys[own], values[own]) for row, own in zip(q, tokens, strict=True)])


def eager_attention(q, k, v, mask=None, scale=None):
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    weights = (scores if mask is None else scores + mask).float().softmax(-1).to(q.dtype)
    return (weights @ v).transpose(1, 2).contiguous()


def eager_attention_of_groups(query, key, value, attention_mask=None, scaling=None):
    key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
    return eager_attention(query, key, value, attention_mask, scaling)


def eager_attention_with_weights(q, k, v):
    weights = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)
    return (weights @ v).transpose(1, 2).contiguous(), weights


def eager_attention_of_rows(q, k, v):
    return eager_attention(q, k, v).flatten(2)


def eager_attention_without_scale(q, k, v):
    return eager_attention(q, k, v, scale=1.0)


def eager_attention_of_the_next_keys(q, k, v):
    return eager_attention(q, k, v.roll(1, 2))


def eager_attention_of_weights_by_keys(q, k, v):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    return (scores.softmax(-2) @ v).transpose(1, 2), scores.softmax(-1)


def eager_attention_viewed(q, k, v):
    return attend(q, k, v).contiguous().view(q.shape[0], q.shape[2], q.shape[1], v.shape[-1])


def attention_that_stays_turned(q, k, v):
    return attend(*heads_first(q, k, v))  # by whose first lines lengths come before heads


def eager_attention_of_turned_rows(q, k, v):
    return attend(q, k, v).transpose(1, 2).transpose(2, 3).flatten(2)


RIGHT = (
    attention, attention_of_rows, attention_of_a_stack, causal_self_attention, attention_of_heads_in_turn,
    cross_attention, paged_decode, paged_decode_of_pools, decode_attention, decode_tokens_of_pages,
    eager_attention, eager_attention_of_groups, eager_attention_with_weights, eager_attention_of_rows,
)  # fmt: skip
WRONG = (
    attention_of_swapped_keys, attention_scaled_by_the_model, attention_of_mixed_heads, paged_decode_of_whole_pages,
    paged_decode_of_swapped_keys, decode_attention_of_the_next_values, decode_tokens_but_the_last,
    eager_attention_without_scale, eager_attention_of_the_next_keys, eager_attention_of_weights_by_keys,
    eager_attention_viewed, attention_that_stays_turned, eager_attention_of_turned_rows,
)  # fmt: skip


test_a_right_function_conforms = conforming(RIGHT)
test_a_wrong_function_does_not = refuted(WRONG)
