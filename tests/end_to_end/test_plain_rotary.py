"""Rotary functions as packages name their parameters: right and wrong ones."""

import torch

from .test_plain_functions import conforming, refuted


def vision_apply_rotary_emb(query, key, freqs_ci):
    return turned(query, freqs_ci), turned(key, freqs_ci)


def vision_rotary_emb_turned_back(query, key, freqs_ci):
    return turned(query, freqs_ci.conj()), turned(key, freqs_ci.conj())


def turned(x, turns):
    """[batch, length, heads, dim], by complex numbers [length, dim // 2]."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turns[:, None]).flatten(-2).type_as(x)


def rope_native(query, key, cos, sin, rope_dim, is_neox_style):
    return tuple(of_some_channels(x, cos, sin, rope_dim, is_neox_style) for x in (query, key))


def rope_of_the_other_style(query, key, cos, sin, rope_dim, is_neox_style):
    return tuple(of_some_channels(x, cos, sin, rope_dim, not is_neox_style) for x in (query, key))


def of_some_channels(x, cos, sin, width, halves):
    """The first channels, by tables [length, width // 2]."""
    turning, rest = x[..., :width], x[..., width:]
    cos, sin = (y[:, None] for y in (cos, sin))
    a, b = turning.chunk(2, -1) if halves else (turning[..., ::2], turning[..., 1::2])
    pairs = (a * cos - b * sin, b * cos + a * sin)
    return torch.cat((torch.cat(pairs, -1) if halves else torch.stack(pairs, -1).flatten(-2), rest), -1)


def rope(inputs, positions, *, base_frequency):
    return by_frequencies(inputs, positions, base_frequency, inputs.shape[-1])


def rope_of_one_channel_less(inputs, positions, *, base_frequency):
    return by_frequencies(inputs, positions, base_frequency, inputs.shape[-1] - 1)


def by_frequencies(x, positions, base, width):
    angles = positions[..., None, None] * base ** (-2 / width * torch.arange(x.shape[-1] // 2))
    a, b = x.chunk(2, -1)
    return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1)


def rope_core(q, k, positions, freqs, interleave):
    """By the frequencies of all pairs."""
    angles = (positions[:, None] * freqs)[:, None]
    cos, sin = angles.cos(), angles.sin()
    return tuple(of_some_channels(x, cos[:, 0], sin[:, 0], x.shape[-1], not interleave) for x in (q, k))


def rope_core_of_doubled_frequencies(q, k, positions, freqs, interleave):
    return rope_core(q, k, positions, 2 * freqs, interleave)


def apply_rope_of_items(x, position, max_timescale=10000):
    """[batch, length, heads, dim], by positions [batch, length]."""
    assert position.ndim == 2
    return by_frequencies(x, position, max_timescale, x.shape[-1])


def apply_rope_of_first_item(x, position, max_timescale=10000):
    return by_frequencies(x, position[:1] + position[:1, :1], max_timescale, x.shape[-1])


def apply_rope_of_tokens(x, position, base=10000.0):
    """[batch, heads, length, dim], by positions [length]."""
    angles = position[:, None] * base ** (-2 / x.shape[-1] * torch.arange(x.shape[-1] // 2))
    a, b = x.chunk(2, -1)
    return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1)


RIGHT = (vision_apply_rotary_emb, rope_native, rope, rope_core, apply_rope_of_items, apply_rope_of_tokens)
WRONG = (
    vision_rotary_emb_turned_back, rope_of_the_other_style, rope_of_one_channel_less,
    rope_core_of_doubled_frequencies, apply_rope_of_first_item,
)  # fmt: skip

test_a_right_function_conforms = conforming(RIGHT)
test_a_wrong_function_does_not = refuted(WRONG)
