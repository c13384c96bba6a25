"""Functions that take whole chunks, blocks or few widths only, and fail on all else: right and wrong ones."""

import math

import torch
import torch.nn.functional as F

from .test_plain_functions import conforming, refuted


def chunk_linear_attn(q, k, v):
    q, k, v = (x.reshape(*x.shape[:2], x.shape[2] // 64, 64, x.shape[3]) for x in (q, k, v))
    q, states = q * q.shape[-1] ** -0.5, (k.mT @ v).cumsum(2)
    before = torch.cat([torch.zeros_like(states[:, :, :1]), states[:, :, :-1]], 2)
    return (q @ before + (q @ k.mT).tril() @ v).flatten(2, 3)


def chunk_linear_attn_of_two_chunks(q, k, v):
    q, k, v = (x.reshape(*x.shape[:2], x.shape[2] // 64, 64, x.shape[3]) for x in (q, k, v))
    q, states = q * q.shape[-1] ** -0.5, k.mT @ v
    before = torch.cat([torch.zeros_like(states[:, :, :1]), states[:, :, :-1]], 2)
    return (q @ before + (q @ k.mT).tril() @ v).flatten(2, 3)


def chunk_linear_attn_without_a_token(q, k, v):
    q, k, v = (x.unflatten(2, (-1, 64)) for x in (q, k, v))
    q, states = q * q.shape[-1] ** -0.5, (k.mT @ v).cumsum(2)
    before = torch.cat([torch.zeros_like(states[:, :, :1]), states[:, :, :-1]], 2)
    return (q @ before + (q @ k.mT).tril(-1) @ v).flatten(2, 3)


def chunkwise_linear_attention(q, k, v, chunk_size):
    assert q.shape[2] % chunk_size == 0
    state, out = q.new_zeros(*q.shape[:2], q.shape[3], v.shape[3]), []
    for own in zip(*(x.split(chunk_size, 2) for x in (q, k, v)), strict=True):
        queries, keys, values = own
        out.append(queries @ state + (queries @ keys.mT).tril() @ values)
        state = state + keys.mT @ values
    return torch.cat(out, 2)


def chunkwise_linear_attention_of_one_state(q, k, v, chunk_size):
    assert q.shape[2] % chunk_size == 0
    return torch.cat([(a @ b.mT).tril() @ c for a, b, c in zip(*(x.split(chunk_size, 2) for x in (q, k, v)))], 2)  # noqa: B905


def blocked_attention(q, k, v):
    """Shapes are [batch, length, heads, dim]."""
    batch, length, heads, dim = k.shape
    k, v = (x.view(batch, length // 32, 32, heads, x.shape[3]) for x in (k, v))
    top, total = q.new_full((*q.shape[:3], 1), -math.inf), 0
    out = 0
    for at in range(k.shape[1]):
        scores = torch.einsum("bqhd,bkhd->bqhk", q, k[:, at]) * dim**-0.5
        larger = torch.maximum(top, scores.amax(-1, keepdim=True))
        weights, faded = (scores - larger).exp(), (top - larger).exp()
        total, out = (
            total * faded + weights.sum(-1, keepdim=True),
            out * faded + torch.einsum("bqhk,bkhd->bqhd", weights, v[:, at]),
        )
        top = larger
    return out / total


def blocked_attention_that_never_fades(q, k, v):
    batch, length, heads, dim = k.shape
    k, v = (x.view(batch, length // 32, 32, heads, x.shape[3]) for x in (k, v))
    shares = [torch.einsum("bqhd,bkhd->bqhk", q, k[:, at]).mul(dim**-0.5).softmax(-1) for at in range(k.shape[1])]
    return sum(torch.einsum("bqhk,bkhd->bqhd", own, v[:, at]) for at, own in enumerate(shares)) / len(shares)


def tiled_attention(q, k, v):
    assert q.shape[2] % 64 == 0, "pad the queries"
    tiles = [(tile @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v for tile in q.split(64, 2)]
    return torch.cat(tiles, 2)


def tiled_attention_of_the_first_tile(q, k, v):
    assert q.shape[2] % 64 == 0, "pad the queries"
    return tiled_attention(q[:, :, :64].repeat(1, 1, q.shape[2] // 64, 1), k, v)


def attention_of_few_widths(q, k, v):
    assert q.shape[-1] in {16, 32, 64, 128}
    assert v.shape[-1] == q.shape[-1]
    return F.scaled_dot_product_attention(q, k, v)


def attention_of_few_widths_scaled_for_one(q, k, v):
    assert q.shape[-1] in {16, 32, 64, 128}
    assert v.shape[-1] == q.shape[-1]
    return F.scaled_dot_product_attention(q, k, v, scale=16**-0.5)


def softmax_of_powers_of_two(x):
    half = 1 << x.shape[-1].bit_length() - 1
    shifted = (x - x.amax(-1, keepdim=True)).exp()
    total = shifted
    while total.shape[-1] > 1:
        total = total.view(*total.shape[:-1], 2, total.shape[-1] // 2).sum(-2)
    return shifted / total * torch.ones(half)


def softmax_of_powers_of_two_without_the_maximum(x):
    return x.exp() / x.exp().sum(-1, keepdim=True) * torch.ones(1 << x.shape[-1].bit_length() - 1)


def attention_of_short_lengths(q, k, v):
    return F.scaled_dot_product_attention(q, k, v) if k.shape[2] <= 16 else q @ v


def chunk_linear_attn_of_even_chunks(q, k, v):
    out = chunk_linear_attn(q, k, v)
    return out if q.shape[2] != 128 else out @ torch.zeros(0, 1)


def chunk_linear_attn_that_fails_for_single_items(q, k, v):
    return chunk_linear_attn(q, k, v) if len(q) != 1 else q @ v


def padded_linear_attention(q, k, v, chunk_size=64):
    return chunkwise_linear_attention(*(F.pad(x, (0, 0, 0, -x.shape[2] % chunk_size)) for x in (q, k, v)), chunk_size)[
        :, :, : q.shape[2]
    ]


def padded_linear_attention_of_one_state(q, k, v, chunk_size=64):
    padded = (F.pad(x, (0, 0, 0, -x.shape[2] % chunk_size)) for x in (q, k, v))
    return chunkwise_linear_attention_of_one_state(*padded, chunk_size)[:, :, : q.shape[2]]


def delta_rule_parallel(q, k, v, beta, BN=32):
    """Shapes are [batch, heads, length, dim]; scores are returned as well."""
    state, q, out = q.new_zeros(*q.shape[:2], q.shape[3], v.shape[3]), q * q.shape[3] ** -0.5, []
    for at in range(q.shape[2] // BN):
        queries, keys, values, shares = (x.unflatten(2, (-1, BN))[:, :, at] for x in (q, k, v, beta[..., None] * k))
        for t in range(BN):
            new = values[:, :, t] - (keys[:, :, t, :, None] * state).sum(-2)
            state = state + shares[:, :, t, :, None] * new[:, :, None]
            out.append((queries[:, :, t, :, None] * state).sum(-2))
    return torch.stack(out, 2), (q @ k.mT).tril()


def delta_rule_parallel_of_two_tokens(q, k, v, beta, BN=32):
    out, scores = delta_rule_parallel(q, k, v, beta, BN)
    return out + 1e-3 * F.pad(v, (0, 0, 1, -1)), scores


RIGHT = (
    chunk_linear_attn, chunkwise_linear_attention, blocked_attention, tiled_attention, attention_of_few_widths,
    softmax_of_powers_of_two, padded_linear_attention, delta_rule_parallel,
)  # fmt: skip
WRONG = (
    chunk_linear_attn_of_two_chunks, chunk_linear_attn_without_a_token, chunkwise_linear_attention_of_one_state,
    blocked_attention_that_never_fades, tiled_attention_of_the_first_tile, attention_of_few_widths_scaled_for_one,
    softmax_of_powers_of_two_without_the_maximum, attention_of_short_lengths, chunk_linear_attn_of_even_chunks,
    chunk_linear_attn_that_fails_for_single_items, padded_linear_attention_of_one_state,
    delta_rule_parallel_of_two_tokens,
)  # fmt: skip


def what_is_no_state_is_told(function, report):
    if function is delta_rule_parallel:
        assert "in the place of final_state" in str(report)
        assert "fails unless heads == key_heads" in str(report)


test_a_right_function_conforms = conforming(RIGHT, what_is_no_state_is_told)
test_a_wrong_function_does_not = refuted(WRONG)
