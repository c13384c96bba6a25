"""Functions of models of images and videos, as they are written there, and the faults that such functions have."""

import pytest
import torch

import attnspec
from attnspec.errors import UsageError

from .test_plain_functions import conforming, refuted


def na1d(query, key, value, kernel_size, dilation=1, scale=None):
    """The kernel has one number, and not one for each axis."""
    return neighborhood(query, key, value, kernel_size, dilation, scale)


def na1d_of_short_maps(query, key, value, kernel_size, dilation=1, scale=None):
    """All maps of a dilation have the length of the shortest."""
    return neighborhood(query, key, value, kernel_size, dilation, scale, lambda n, at: n // dilation + 0 * at)


def neighborhood(query, key, value, kernel_size, dilation, scale, length=None):
    numbers = windows(query.shape[1], kernel_size, dilation, length)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = torch.einsum("blhd,blkhd->blhk", query * scale, key[:, numbers])
    return torch.einsum("blhk,blkhd->blhd", scores.softmax(-1), value[:, numbers])


def windows(n, kernel_size, dilation, length=None):
    """The numbers of the keys of each query, [n, kernel_size]."""
    at, place = torch.arange(n) % dilation, torch.arange(n) // dilation
    whole = (n - at + dilation - 1) // dilation if length is None else length(n, at)
    start = torch.minimum((place - kernel_size // 2).clamp(min=0), whole - kernel_size)
    return at[:, None] + dilation * (start[:, None] + torch.arange(kernel_size))


def na2d(query, key, value, kernel_size, dilation=1, scale=None):
    rows, columns = (windows(n, kernel_size, dilation) for n in query.shape[1:3])
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    keys, values = (x[:, rows[:, None, :, None], columns[None, :, None]] for x in (key, value))
    scores = torch.einsum("byxhd,byxijhd->byxhij", query * scale, keys).flatten(-2).softmax(-1)
    return torch.einsum("byxhk,byxkhd->byxhd", scores, values.flatten(3, 4))


def relu_linear_attention(query, key, value, eps=1e-15):
    """Every token sees all others."""
    query, key = query.relu(), key.relu()
    sums = key.mT @ torch.nn.functional.pad(value, (0, 1), value=1.0)
    out = query @ sums
    return out[..., :-1] / (out[..., -1:] + eps)


def relu_linear_attention_of_queries_as_they_are(query, key, value, eps=1e-15):
    key = key.relu()
    out = query @ (key.mT @ torch.nn.functional.pad(value, (0, 1), value=1.0))
    return out[..., :-1] / (out[..., -1:] + eps)


def apply_rotary_emb(x, freqs_cis, use_real=True, use_real_unbind_dim=-1, sequence_dim=2):
    return turned(x, freqs_cis, use_real_unbind_dim, sequence_dim, lambda x: x.unflatten(-1, (2, -1)).unbind(-2))


def of_woven_halves(x, freqs_cis, use_real=True, use_real_unbind_dim=-1, sequence_dim=2):
    """The halves are taken from channels side by side."""
    return turned(x, freqs_cis, use_real_unbind_dim, sequence_dim, lambda x: x.unflatten(-1, (-1, 2)).unbind(-1))


na1d_of_short_maps.__name__, of_woven_halves.__name__ = "na1d", "apply_rotary_emb"  # which says what they are to be


def turned(x, freqs_cis, use_real_unbind_dim, sequence_dim, halves):
    cos, sin = (y[None, None] if sequence_dim == 2 else y[None, :, None] for y in freqs_cis)
    if use_real_unbind_dim == -1:
        first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
        other = torch.stack((-second, first), -1).flatten(3)
    else:
        first, second = halves(x)
        other = torch.cat((-second, first), -1)
    return x * cos + other * sin


test_a_right_function_conforms = conforming((na1d, na2d, relu_linear_attention, apply_rotary_emb))
test_a_wrong_function_does_not = refuted(
    (na1d_of_short_maps, relu_linear_attention_of_queries_as_they_are, of_woven_halves)
)


@pytest.mark.parametrize("name", ["qk_norm_attention", "cosine_window_attention", "talking_heads_attention"])
def test_attention_with_something_more_is_not_taken_for_attention(name):
    def attend(q, k, v):
        return (q @ k.mT).softmax(-1) @ v

    attend.__name__ = name
    with pytest.raises(UsageError, match=f"the name '{name}' says"):
        attnspec.check(attend, isolate=False)
