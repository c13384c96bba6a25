"""Functions that are made for a part of what their operator allows, and say so in words, by their errors or results."""

import torch

from .test_plain_functions import conforming, refuted


def chunk_linear_attn(q, k, v, chunk_size=64):
    return in_chunks(q, k, v, chunk_size, before=1)


def chunk_linear_attn_of_its_own_chunk(q, k, v, chunk_size=64):
    return in_chunks(q, k, v, chunk_size, before=0)


def in_chunks(q, k, v, chunk_size, before):
    """Scores are made by parts of a chunk, of 16 tokens each."""
    parts, *lead = chunk_size // 16, *q.shape[:2], q.shape[2] // chunk_size
    q, k, v = (x.reshape(*lead, chunk_size, x.shape[-1]) for x in (q * q.shape[-1] ** -0.5, k, v))
    states = (k.mT @ v).cumsum(2)
    states = torch.cat((0 * states[:, :, :before], states), 2)[:, :, : states.shape[2]]
    own, other = (x.reshape(*lead, parts, 16, x.shape[-1]) for x in (q, k))
    scores = torch.einsum("bhcmid,bhcnjd->bhcminj", own, other).reshape(*lead, chunk_size, chunk_size)
    return (q @ states + scores.tril() @ v).flatten(2, 3)


def sliding_window_attention(q, k, v, window):
    """Softmax attention of each token to itself and the tokens before it, `window` in all.

    q, k, v: [B, H, T, D]
    """
    return in_a_window(q, k, v, window - 1)


def sliding_window_attention_of_one_more(q, k, v, window):
    """Softmax attention of each token to itself and the tokens before it, `window` in all.

    q, k, v: [B, H, T, D]
    """
    return in_a_window(q, k, v, window)


def windowed_attention_of_cached_keys(q, k, v, window):
    """Softmax attention of each token to itself and the tokens before it, `window` in all; of one query to a cache.

    q: [B, H, T, D], k, v: [B, H, S, D]
    """
    return in_a_window(q, k, v, window - 1)


def in_a_window(q, k, v, before):
    place = torch.arange(q.shape[2])
    apart = place[:, None] - place
    scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill((apart < 0) | (apart > before), -torch.inf)
    return scores.softmax(-1) @ v


def indexer_topk(q_idx, k_idx, w_idx, topk, activation=None):
    return chosen(q_idx, k_idx, w_idx, topk, torch.relu if activation == "relu" else torch.nn.Identity(), -torch.inf)


def indexer_topk_of_all_products(q_idx, k_idx, w_idx, topk):
    return chosen(q_idx, k_idx, w_idx, topk, torch.nn.Identity(), -torch.inf)


def indexer_topk_of_later_keys(q_idx, k_idx, w_idx, topk):
    return chosen(q_idx, k_idx, w_idx, topk, torch.relu, 0.0)


def indexer_mask(q_idx, k_idx, w_idx, topk):
    numbers = indexer_topk(q_idx, k_idx, w_idx, topk, "relu")
    return (numbers[..., None] == torch.arange(k_idx.shape[1])).any(-2)


def chosen(q, k, w, topk, act, hidden):
    scores = torch.einsum("bqhk,bqh->bqk", act(torch.einsum("bqhd,bkd->bqhk", q, k)), w)
    later = torch.ones(q.shape[1], q.shape[1]).triu(1).bool()
    largest = scores.masked_fill(later, hidden).topk(min(topk, k.shape[1]), -1)
    return largest.indices.masked_fill(largest.values == -torch.inf, -1)


RIGHT = {
    chunk_linear_attn: "fails for length other than multiples of 16",
    sliding_window_attention: "fails unless k_len == q_len, ",
    indexer_topk: "of which the numbers of the chosen ones are returned",
    indexer_mask: "fails unless k_len == q_len, ",
}
WRONG = (
    chunk_linear_attn_of_its_own_chunk, sliding_window_attention_of_one_more, windowed_attention_of_cached_keys,
    indexer_topk_of_all_products, indexer_topk_of_later_keys,
)  # fmt: skip


def is_told(function, report):
    assert RIGHT[function] in str(report)


test_a_right_function_conforms = conforming(RIGHT, is_told)
test_a_wrong_function_does_not = refuted(WRONG)
