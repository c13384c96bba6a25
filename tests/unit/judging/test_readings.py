"""First calls show how a plain function reads its parameters, and what no way makes right stays wrong."""

import itertools
import math

import pytest
import torch

import attnspec
from attnspec.judging.readings import find_readings
from attnspec.subjects.targets import subject, undecorated


def attend(q, k, v, hidden=None, added=None):
    scores = q.float() @ k.float().transpose(-1, -2) / math.sqrt(q.shape[-1])
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    if added is not None:
        scores = scores + added
    return (scores.softmax(-1) @ v.float()).to(q.dtype)


def as_it_is(q, k, v, mask=None):
    return attend(q, k, v, None if mask is None else ~mask)


def added(q, k, v, mask=None):
    return attend(q, k, v, added=mask)


def of_keys(q, k, v, key_padding_mask=None):
    return attend(q, k, v, None if key_padding_mask is None else ~key_padding_mask[:, None, None])


def of_padding(q, k, v, key_padding_mask=None):
    return attend(q, k, v, None if key_padding_mask is None else key_padding_mask[:, None, None])


def of_three_axes(q, k, v, mask=None):
    return attend(q, k, v, None if mask is None else ~mask[:, None])


def of_lengths(q, k, v, lengths):
    return attend(q, k, v, (torch.arange(k.shape[2]) >= lengths[:, None])[:, None, None])


def causal_kernel(q, k, v):
    return attend(q, k, v, torch.ones(q.shape[2], k.shape[2], dtype=bool).triu(1 + k.shape[2] - q.shape[2]))


def within(q, k, v, causal=False, window_size=(-1, -1)):
    row, column = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2], torch.arange(k.shape[2])
    hidden = (column > row) if causal else torch.zeros(q.shape[2], k.shape[2], dtype=bool)
    left, right = window_size
    hidden = hidden | (column < row - left) if left >= 0 else hidden
    return attend(q, k, v, hidden | (column > row + right) if right >= 0 else hidden)


def rotary_from_zero(x, theta=10000.0):
    return turned(x, torch.arange(x.shape[2]), theta)


def rotary_from(x, start_pos, theta=10000.0):
    return turned(x, start_pos + torch.arange(x.shape[2]), theta)


def rotary_of_tables(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos[None, None] + torch.cat((-second, first), -1) * sin[None, None]


def rotary_of_rows(tensor, sin, cos):
    """[batch, length, heads, dim], and tables [batch, length, dim // 2] of pairs that are side by side."""
    sin, cos = (table[:, :, None].repeat_interleave(2, -1) for table in (sin, cos))
    beside = torch.stack((-tensor[..., 1::2], tensor[..., ::2]), -1).flatten(-2)
    return tensor * cos + beside * sin


def turned(x, positions, theta):
    angles = positions[:, None] * theta ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    first, second = x.float().chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)


def swiglu(x, w1, w2, w3):
    return (torch.nn.functional.silu(x @ w1.T) * (x @ w3.T)) @ w2.T


def linear_attention(q, k, v):
    return ((q.float() @ k.float().transpose(-1, -2)).tril() @ v.float()).to(q.dtype)


def cross_entropy(logits, targets, ignore_index=-100):
    return torch.nn.functional.cross_entropy(logits, targets, ignore_index=ignore_index, reduction="none")


def merge_states(out1, lse1, out2, lse2):
    total = torch.logaddexp(lse1, lse2)
    return out1 * (lse1 - total).exp()[..., None] + out2 * (lse2 - total).exp()[..., None], total


def capped(q, k, v, softcap):
    scores = q.float() @ k.float().transpose(-1, -2) / math.sqrt(q.shape[-1])
    return ((softcap * torch.tanh(scores / softcap)).softmax(-1) @ v.float()).to(q.dtype)


def windowed(q, k, v, window_size):
    """Sliding window attention."""
    row, column = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2], torch.arange(k.shape[2])
    return attend(q, k, v, (column > row) | (column <= row - window_size))


def packed(q, k, v, cu_seqlens, max_seqlen):
    bounds, out = cu_seqlens.tolist(), torch.zeros(q.shape[0], q.shape[1], v.shape[-1], dtype=q.dtype)
    for first, end in itertools.pairwise(bounds):
        heads = [x[first:end].repeat_interleave(q.shape[1] // x.shape[1], 1).transpose(0, 1) for x in (q, k, v)]
        out[first:end] = attend(*heads).transpose(0, 1)
    return out


def of_other_items(q, k, v, key_padding_mask=None):
    return attend(q, k, v, None if key_padding_mask is None else ~key_padding_mask.roll(1, 0)[:, None, None])


def flipped(q, k, v, mask=None):
    return attend(q, k, v, mask)


def unscaled(q, k, v, attn_mask=None):
    return attend(q * math.sqrt(q.shape[-1]), k, v, None if attn_mask is None else ~attn_mask)


def cut(q, k, v, *, mask=None):
    """With weights below a hundredth left out, which some way to read the mask has no case of."""
    scores = q.double() @ k.double().transpose(-1, -2) / math.sqrt(q.shape[-1])
    seen = torch.ones_like(scores, dtype=bool) if mask is None else torch.ones_like(scores, dtype=bool) & mask
    weights = scores.masked_fill(~seen, -torch.inf).softmax(-1).nan_to_num()
    return (torch.where(weights < 0.01, 0.0, weights) @ v.double()).to(q.dtype)


def read(function, operator="attention"):
    one = subject(undecorated(function, function.__name__, operator, "torch"), declared=False)
    return one, find_readings(one, "cpu")


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (added, "`mask` is added to the scores"),
        (of_keys, "`key_padding_mask` is true for the keys of an item, [batch, k_len]"),
        (of_padding, "`key_padding_mask` is true for padding, [batch, k_len]"),
        (of_three_axes, "`mask` is true where a query may see a key, [batch, q_len, k_len]"),
        (of_lengths, "`lengths` is the number of keys of each item, [batch]"),
        (causal_kernel, "no parameter says so, and the function is causal"),
        (within, "`window_size` is how many keys a query sees before and after its own"),
        (capped, "`softcap` is a cap that every call has"),
    ],
)
def test_what_a_parameter_is_is_seen_from_results(function, says):
    _, (said,) = read(function)
    assert said.startswith(says)


@pytest.mark.parametrize(
    ("function", "operator", "says"),
    [
        (rotary_from_zero, "rotary", "no parameter says so, and positions are counted from zero"),
        (rotary_from, "rotary", "`start_pos` is the position of the first token"),
        (rotary_of_tables, "rotary", "`cos` and `sin` are tables of channels paired in halves, [length, dim]"),
        (packed, "packed_attention", "`cu_seqlens` says where items of queries begin and end, and those of keys as"),
        (swiglu, "swiglu", "`w1` and `w3` and `w2` are the weights"),
        (linear_attention, "linear_attention", "no parameter says so, and products of queries and keys are not"),
        (cross_entropy, "cross_entropy", "no parameter says so, and the losses of the tokens are neither"),
        (merge_states, "merge_states", "`out1` and `lse1` and `out2` and `lse2` are two results"),
    ],
)
def test_what_parameters_of_other_operators_are_is_seen_as_well(function, operator, says):
    _, (said, *_) = read(function, operator)
    assert said.startswith(says)


def test_the_layout_is_found_once_parameters_are_read_rightly():
    report = attnspec.check(rotary_of_rows, operator="rotary", framework="torch", profile="smoke", dtypes="float32")
    assert {"rotary_of_rows": "conformant"} == report.verdicts, report
    assert 'declare layout = "bshd"' in str(report).splitlines()[0]


def test_two_parameters_are_read_one_after_the_other():
    _, said = read(windowed)
    assert ["`window_size` is how many keys a query sees at most, its own among them", "no parameter says so, and"] == [
        text[: text.index(", as")] if text.startswith("`") else text[:25] for text in said
    ]


@pytest.mark.parametrize("function", [as_it_is, flipped, unscaled, cut])
def test_what_the_operator_has_is_read_as_it_has_it_wherever_no_other_way_is_right(function):
    one, said = read(function)
    assert ([], "") == (said, one.adapter.like)


@pytest.mark.parametrize(
    ("function", "verdict"),
    [(of_padding, "conformant"), (of_lengths, "conformant"), (of_other_items, "violated"), (flipped, "violated")],
)
def test_what_is_found_is_checked(function, verdict):
    laws = ("attention.definition", "padding_mask.definition")
    report = attnspec.check(function, operator="attention", framework="torch", profile="smoke", laws=laws)
    assert {function.__name__: verdict} == report.verdicts, report
