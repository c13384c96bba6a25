"""Implementations that are wrong on purpose: each is found by the quick profile, and what it was made from is not."""

import numpy as np
import pytest
import torch

from attnspec.adapters import Adapter
from attnspec.cells import Request
from attnspec.engine import run
from attnspec.loader import library
from attnspec.plans import PROFILES
from attnspec.targets import subject

INFINITY = float("inf")


def tried(function, operator, mechanism, framework="torch", dtype="float32"):
    one = subject(Adapter("function", operator, function, framework, dtypes=(dtype,)))
    return run(Request(one, library()[mechanism], dtype, PROFILES["quick"])).cells


def failures(*asked):
    return [cell.law for cell in tried(*asked) if cell.bad and cell.level == "must"]


# Attention, put together from parts of which some are exchanged


def factor(q, v):
    return q.shape[-1] ** -0.5


def grouped(x, heads):
    return x.repeat_interleave(heads // x.shape[1], 1)


def in_past(row, column):
    return column <= row


def in_window(distance, left, right):
    return (distance <= left) & (-distance <= right)


def combined(reached, mask):
    return reached & mask


def hidden(s, seen):
    return s.masked_fill(~seen, -INFINITY)


def weights(s):
    return torch.softmax(s, -1).nan_to_num(0.0)


def averaged(p, v):
    return p @ v


PARTS = {part.__name__: part for part in (factor, grouped, in_past, in_window, combined, hidden, weights, averaged)}


def attention_of(**exchanged):
    part = {**PARTS, **exchanged}

    def attention(q, k, v, *, mask=None, causal=False, window_left=None, window_right=None, scale=None):
        k, v = (part["grouped"](x, q.shape[1]) for x in (k, v))
        s = q @ k.transpose(-1, -2) * (part["factor"](q, v) if scale is None else scale)
        row, column = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2], torch.arange(k.shape[2])
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
        if causal:
            seen = seen & part["in_past"](row, column)
        if (window_left, window_right) != (None, None):
            left, right = (INFINITY if width is None else width for width in (window_left, window_right))
            seen = seen & part["in_window"](row - column, left, right)
        if mask is not None:
            seen = part["combined"](seen, mask)
        return part["averaged"](part["weights"](part["hidden"](s, seen)), v)

    return attention


def in_half(p, v):
    """Products added up one by one in float16."""
    total = torch.zeros(*p.shape[:-1], v.shape[-1], dtype=torch.float16)
    for key in range(p.shape[-1]):
        total += (p[..., key, None] * v[..., key, None, :]).half()
    return total.to(v.dtype)


def whole_tiles(n):
    return n - n % 16 or n


EXCHANGED = {
    "scale left out": ("attention", {"factor": lambda q, v: 1.0}),
    "scale by the values": ("attention", {"factor": lambda q, v: v.shape[-1] ** -0.5}),
    "scale of the whole width": ("attention", {"factor": lambda q, v: (q.shape[1] * q.shape[3]) ** -0.5}),
    "scale without a root": ("attention", {"factor": lambda q, v: 1 / q.shape[-1]}),
    "kv heads in turns for the values": ("grouped_query", {"averaged": lambda p, v: p @ v.roll(1, 1)}),
    "first kv head for all": ("grouped_query", {"grouped": lambda x, n: x[:, :1].expand(-1, n, -1, -1)}),
    "softmax over the queries": ("attention", {"weights": lambda s: torch.softmax(s, -2).nan_to_num(0.0)}),
    "softmax over the heads": ("attention", {"weights": lambda s: torch.softmax(s, 1).nan_to_num(0.0)}),
    "maximum not subtracted": ("attention", {"weights": lambda s: s.exp() / s.exp().sum(-1, keepdim=True)}),
    "one more in the denominator": ("attention", {"weights": lambda s: s.exp() / (1 + s.exp().sum(-1)[..., None])}),
    "weights not normalised": ("attention", {"weights": lambda s: (s - s.amax(-1)[..., None]).exp().nan_to_num(0.0)}),
    "causal, own key hidden": ("causal_mask", {"in_past": lambda i, j: j < i}),
    "causal, next key seen": ("causal_mask", {"in_past": lambda i, j: j <= i + 1}),
    "causal, direction reversed": ("causal_mask", {"in_past": lambda i, j: j >= i}),
    "causal, tile by tile": ("causal_mask", {"in_past": lambda i, j: j // 4 <= i // 4}),
    "causal dropped beside a mask": ("causal_mask", {"combined": lambda reached, mask: mask}),
    "window one too wide": ("sliding_window", {"in_window": lambda d, left, right: in_window(d, left + 1, right)}),
    "window one too narrow": ("sliding_window", {"in_window": lambda d, left, right: (d < left) & (-d <= right)}),
    "window of both sides alike": ("sliding_window", {"in_window": lambda d, left, right: d.abs() <= left}),
    "window with its sides swapped": (
        "sliding_window",
        {"in_window": lambda d, left, right: in_window(-d, left, right)},
    ),
    "mask added as 0 and 1": ("attention", {"hidden": lambda s, seen: s + seen.float()}),
    "mask marks what to hide": ("attention", {"combined": lambda reached, mask: reached & ~mask}),
    "mask of the first item": ("attention", {"combined": lambda reached, mask: reached & mask[:1]}),
    "mask filled with -1e4": ("attention", {"hidden": lambda s, seen: s.masked_fill(~seen, -1e4)}),
    "mask filled with 0": ("padding_mask", {"hidden": lambda s, seen: s.masked_fill(~seen, 0.0)}),
    "mask after softmax": ("padding_mask", {"hidden": lambda s, seen: weights(s) * seen, "weights": lambda p: p}),
    "added up in float16": ("attention", {"averaged": in_half}),
    "products in bfloat16": ("attention", {"averaged": lambda p, v: (p.bfloat16() @ v.bfloat16()).to(v.dtype)}),
    "keys beyond a multiple of 16 lost": (
        "attention",
        {"averaged": lambda p, v: p[..., : whole_tiles(p.shape[-1])] @ v[..., : whole_tiles(p.shape[-1]), :]},
    ),
    "keys beyond 256 lost": ("attention", {"averaged": lambda p, v: p[..., :256] @ v[..., :256, :]}),
    "values of the next key": ("attention", {"averaged": lambda p, v: p @ v.roll(1, -2)}),
    "values of the next item": ("attention", {"averaged": lambda p, v: p @ v.roll(1, 0)}),
}


@pytest.mark.parametrize("fault", EXCHANGED)
def test_a_wrong_part_of_attention_is_found(fault):
    mechanism, exchanged = EXCHANGED[fault]
    assert failures(attention_of(**exchanged), "attention", mechanism)


@pytest.mark.parametrize("mechanism", sorted({mechanism for mechanism, _ in EXCHANGED.values()}))
def test_attention_of_right_parts_is_conformant(mechanism):
    cells = tried(attention_of(), "attention", mechanism)
    assert [] == [cell.law for cell in cells if cell.bad]
    assert "pass" == next(cell.verdict for cell in cells if cell.law == "definition")


# Attention tile by tile


def tiled_attention(fault, tile=16):
    def attention(q, k, v, *, mask=None, scale=None):
        k_len = k.shape[2]
        k, v = (grouped(x, q.shape[1]) for x in (k, v))
        mask = torch.ones(1, 1, 1, k_len, dtype=torch.bool) if mask is None else mask
        mask = mask.broadcast_to(*q.shape[:3], k_len)
        top = torch.full((*q.shape[:3], 1), -1000.0 if fault == "maximum starts at a number" else -INFINITY)
        total, out = torch.zeros_like(top), torch.zeros(*q.shape[:3], v.shape[3])
        for start in range(0, whole_tiles(k_len) if fault == "last tile lost" else k_len, tile):
            part = slice(start, start + tile)
            values, seen = v[:, :, part], mask[..., part]
            if fault == "items mixed in a short tile" and values.shape[2] < tile:
                values = values.roll(1, 0)
            if fault == "mask of the first tile":
                seen = mask[..., : seen.shape[-1]]
            if fault == "mask read in whole tiles" and seen.shape[-1] < tile:
                seen = torch.ones_like(seen)
            s = q @ k[:, :, part].transpose(-1, -2) * (factor(q, v) if scale is None else scale)
            s = hidden(s, seen)
            new = (
                s.amax(-1, keepdim=True)
                if fault == "maximum of one tile"
                else torch.maximum(top, s.amax(-1)[..., None])
            )
            safe = new if fault == "tile without keys" else new.masked_fill(new == -INFINITY, 0.0)
            p, old = (s - safe).exp(), (top - safe).exp()
            total = total * (1.0 if fault == "sum not rescaled" else old) + p.sum(-1, keepdim=True)
            out = out * (1.0 if fault == "result not rescaled" else old) + p @ values
            top = new
        return torch.where(total > 0, out / total, 0.0)

    return attention


TILED = (
    "maximum starts at a number",
    "last tile lost",
    "items mixed in a short tile",
    "mask of the first tile",
    "mask read in whole tiles",
    "maximum of one tile",
    "tile without keys",
    "sum not rescaled",
    "result not rescaled",
)


@pytest.mark.parametrize("fault", TILED)
def test_a_fault_of_tiles_is_found(fault):
    assert failures(tiled_attention(fault), "attention", "attention")


def test_attention_by_tiles_is_conformant():
    assert [] == failures(tiled_attention(""), "attention", "attention")


# Softmax and ALiBi


def shares(x, *, top=None, axis=-1):
    p = np.exp(x - (np.max(x, -1, keepdims=True) if top is None else top))
    return p / p.sum(axis, keepdims=True)


def slopes(heads, start=1, power=None):
    power = 2 ** (heads.bit_length() - 1) if power is None else power
    below = 2.0 ** (-8 / power * np.arange(start, start + power))
    above = 2.0 ** (-4 / power * np.arange(start, start + 2 * power))
    return np.concatenate([below, above[::2]])[:heads].astype(np.float32)


def biases(heads, q_len, k_len, distance):
    row, column = np.arange(q_len)[:, None] + k_len - q_len, np.arange(k_len)
    return (slopes(heads)[:, None, None] * distance(row, column)).astype(np.float32)


def slopes_of(fault):
    return lambda *, heads: fault(heads)


def bias_of(fault):
    return lambda *, heads, q_len, k_len: fault(heads, q_len, k_len)


OTHERS = {
    "softmax over the rows": ("softmax", lambda x: shares(x, axis=0)),
    "softmax without a maximum": ("softmax", lambda x: shares(x, top=0)),
    "softmax with one maximum": ("softmax", lambda x: shares(x, top=x.max())),
    "softmax in float16": ("softmax", lambda x: shares(x.astype(np.float16)).astype(np.float32)),
    "softmax with a small number added": ("softmax", lambda x: shares(x) / (1 + 1e-3)),
    "softmax of powers of two": ("softmax", lambda x: shares(x * np.float32(np.log(2)))),
    "slopes from one on": ("alibi_slopes", slopes_of(lambda heads: slopes(heads, start=0))),
    "slopes of eight heads": ("alibi_slopes", slopes_of(lambda heads: slopes(heads, power=max(8, heads)))),
    "slopes without a ratio": ("alibi_slopes", slopes_of(lambda heads: (0.5 ** np.arange(1, heads + 1)).astype("f4"))),
    "slopes in descending order": ("alibi_slopes", slopes_of(lambda heads: np.sort(slopes(heads))[::-1].copy())),
    "bias that grows": ("alibi_bias", bias_of(lambda *a: biases(*a, lambda i, j: i - j))),
    "bias from the first key": ("alibi_bias", bias_of(lambda *a: biases(*a, lambda i, j: -abs(i - i[0] - j)))),
    "bias squared": ("alibi_bias", bias_of(lambda *a: biases(*a, lambda i, j: -((i - j) ** 2)))),
    "bias of one slope": ("alibi_bias", bias_of(lambda *a: biases(*a, lambda i, j: j - i)[:1].repeat(a[0], 0))),
}


@pytest.mark.parametrize("fault", OTHERS)
def test_a_wrong_operator_of_another_kind_is_found(fault):
    operator, function = OTHERS[fault]
    assert failures(function, operator, operator, "numpy")


@pytest.mark.parametrize(
    ("operator", "function"),
    [
        ("softmax", shares),
        ("alibi_slopes", slopes_of(slopes)),
        ("alibi_bias", bias_of(lambda *a: biases(*a, lambda i, j: j - i))),
    ],
)
def test_what_the_others_were_made_from_is_conformant(operator, function):
    assert [] == failures(function, operator, operator, "numpy")
