"""Rotary functions with tables as diffusers, Flux and older layers of transformers pass them."""

import torch

from .test_plain_functions import conforming, refuted


def apply_rope(xq, xk, freqs_cis):
    """A matrix turns each pair."""
    return turned(xq, freqs_cis), turned(xk, freqs_cis)


def turned(x, matrices):
    pairs = x.reshape(*x.shape[:-1], -1, 1, 2)
    return (matrices[..., 0] * pairs[..., 0] + matrices[..., 1] * pairs[..., 1]).reshape(x.shape)


def apply_rotary_emb(x, freqs_cis):
    """[batch, length, heads, dim], and a pair of tables [length, dim]."""
    cos, sin = (table[None, :, None] for table in freqs_cis)
    return x * cos + side_by_side(x) * sin


def apply_rotary_emb_batched(x, freqs_cis):
    cos, sin = (table[:, :, None] for table in freqs_cis)
    return x * cos + side_by_side(x) * sin


def apply_rotary_emb_in_halves(x, rotary_emb):
    cos, sin = rotary_emb
    return x * cos + half_apart(x) * sin


def apply_rotary_emb_transposed(hidden_states, freqs_cis):
    """[batch, length, heads, dim], and both tables side by side."""
    cos, sin = freqs_cis[:, :, None].chunk(2, -1)
    return hidden_states * cos + side_by_side(hidden_states) * sin


def apply_rotary_pos_emb(q, cos, sin, position_ids):
    """[batch, heads, length, dim], and tables of all positions."""
    return q * cos[position_ids][:, None] + half_apart(q) * sin[position_ids][:, None]


def side_by_side(x):
    first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([-second, first], -1).flatten(-2)


def half_apart(x):
    first, second = x.chunk(2, -1)
    return torch.cat([-second, first], -1)


def apply_rope_of_transposed_matrices(xq, xk, freqs_cis):
    return apply_rope(xq, xk, freqs_cis.mT)


def apply_rotary_emb_of_sums(x, freqs_cis):
    cos, sin = (table[None, :, None] for table in freqs_cis)
    return x * cos + side_by_side(x).abs() * sin


def apply_rotary_pos_emb_of_the_first_item(q, cos, sin, position_ids):
    return apply_rotary_pos_emb(q, cos, sin, 0 * position_ids + position_ids[:, :1])


SAID = {
    apply_rope: "has a matrix that turns each pair side by side",
    apply_rotary_emb: "is a pair of tables of channels paired side by side, [length, dim]",
    apply_rotary_emb_batched: "is a pair of tables of channels paired side by side, [batch, length, dim]",
    apply_rotary_emb_in_halves: "is a pair of tables of channels paired in halves",
    apply_rotary_emb_transposed: "has the cosines and then the sines of channels paired side by side",
    apply_rotary_pos_emb: "are tables of channels paired in halves, of all positions up to the last",
}
WRONG = [apply_rope_of_transposed_matrices, apply_rotary_emb_of_sums, apply_rotary_pos_emb_of_the_first_item]


def as_it_is_said(function, report):
    assert SAID[function] in str(report)


test_a_right_function_conforms = conforming(SAID, as_it_is_said)
test_a_wrong_function_does_not = refuted(WRONG)
