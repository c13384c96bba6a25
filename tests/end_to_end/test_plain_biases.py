"""Functions that add a bias of positions to scores."""

import math

import torch

from .test_plain_functions import conforming, refuted


def slopes_of(heads):
    def powers(n):
        return [2 ** (-8 * (i + 1) / n) for i in range(n)]

    closest = 2 ** math.floor(math.log2(heads))
    return torch.tensor(powers(closest) + powers(2 * closest)[0::2][: heads - closest])


def apply_alibi(attention_scores, offset=0):
    heads, queries, keys = attention_scores.shape[1:]
    distance = (torch.arange(queries)[:, None] + offset - torch.arange(keys)).abs()
    return attention_scores - slopes_of(heads)[:, None, None] * distance


def apply_alibi_at_the_first_key(attention_scores, offset=0):
    return apply_alibi(attention_scores)


def buckets_of(behind, buckets, most):
    exact = buckets // 2
    far = torch.log(behind.clamp(min=1).float() / exact) / math.log(most / exact) * (buckets - exact)
    return torch.where(behind < exact, behind, (exact + far.long()).clamp(max=buckets - 1))


def relative_position_bias(qk_dots, rel_emb, causal=False, num_buckets=32, max_distance=128, first=None):
    queries, keys = qk_dots.shape[-2:]
    first = keys - queries if first is None else first
    behind = torch.arange(queries)[:, None] + first - torch.arange(keys)
    own = num_buckets if causal else num_buckets // 2
    bucket = buckets_of(behind.clamp(min=0) if causal else behind.abs(), own, max_distance)
    bucket = bucket if causal else bucket + (behind < 0) * own
    return qk_dots + rel_emb[bucket].permute(2, 0, 1)[None]


def relative_position_bias_at_the_first_key(qk_dots, rel_emb, causal=False, num_buckets=32, max_distance=128):
    return relative_position_bias(qk_dots, rel_emb, causal, num_buckets, max_distance, 0)


def relative_position_bias_of_the_past(qk_dots, rel_emb, causal=False, num_buckets=32, max_distance=128):
    return relative_position_bias(qk_dots, rel_emb, not causal, num_buckets, max_distance)


test_a_right_function_conforms = conforming((apply_alibi, relative_position_bias))
test_a_wrong_function_does_not = refuted(
    (apply_alibi_at_the_first_key, relative_position_bias_at_the_first_key, relative_position_bias_of_the_past)
)
