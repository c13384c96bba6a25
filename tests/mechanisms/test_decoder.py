"""Transformer blocks and a model of them: two witnesses against a third, faults as people make them, right variants."""

import inspect

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention, silu

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

BLOCK = ("x", "attention_norm", "wq", "wk", "wv", "wo", "mlp_norm", "w_gate", "w_up", "w_down")


def failures(function, operator, dtype="float32", *, first=False):
    """The laws that a function breaks; with `first`, of those up to the first violation."""
    one = subject(Adapter("function", operator, function, "torch", dtypes=(dtype,)))
    cells = run(Request(one, library()[operator], dtype, PROFILES["quick"], first=first)).cells
    return [cell.law for cell in cells if cell.bad and cell.level == "must"]


# A block put together from parts of which some are exchanged


def normed(x, weight, eps):
    y = x.float() if x.dtype != torch.float64 else x
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)).to(x.dtype) * weight


def split(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def rotated(x, base, positions=None):
    d, n = x.shape[-1], x.shape[-2]
    wide = x.float() if x.dtype != torch.float64 else x
    theta = base ** (-torch.arange(0, d, 2, dtype=wide.dtype) / d)
    angle = (torch.arange(n) if positions is None else positions)[:, None] * theta
    a, b = wide.chunk(2, -1)
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1).to(x.dtype)


def attended(q, k, v):
    return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def merged(o):
    return o.transpose(1, 2).flatten(2)


def gated(x, w_gate, w_up, w_down):
    return (silu(x @ w_gate) * (x @ w_up)) @ w_down


def joined(x, attention, feed_forward, first, second, eps):
    h = x + attention(normed(x, first, eps))
    return h + feed_forward(normed(h, second, eps))


PARTS = {part.__name__: part for part in (split, rotated, attended, merged, gated, joined)}


def block_of(**exchanged):
    part = {**PARTS, **exchanged}

    def block(x, norm_1, wq, wk, wv, wo, norm_2, w_gate, w_up, w_down, *, heads, kv_heads=None, eps=1e-5, base=1e4):
        groups = heads if kv_heads is None else kv_heads
        if heads % groups or wk.shape[-1] * heads != wq.shape[-1] * groups or wq.shape[-1] % (2 * heads):
            raise ValueError("the matrices do not belong to these heads")

        def attention(a):
            q, k, v = part["split"](a @ wq, heads), part["split"](a @ wk, groups), part["split"](a @ wv, groups)
            return part["merged"](part["attended"](part["rotated"](q, base), part["rotated"](k, base), v)) @ wo

        def feed_forward(a):
            return part["gated"](a, w_gate, w_up, w_down)

        return part["joined"](x, attention, feed_forward, norm_1, norm_2, eps)

    return block


block = block_of()


def model_of(block):
    def model(tokens, embedding, *weights, heads, kv_heads=None, eps=1e-5, base=1e4):
        *stacked, final_norm = weights
        if tokens.numel() and not 0 <= tokens.min() <= tokens.max() < len(embedding):
            raise ValueError("a token without a row")
        x = embedding[tokens]
        for layer in zip(*stacked, strict=True):
            x = block(x, *layer, heads=heads, kv_heads=kv_heads, eps=eps, base=base)
        return normed(x, final_norm, eps) @ embedding.mT

    return model


model = model_of(block)


# The witnesses


def weights_of(dim, kv_dim, hidden, layers=()):
    draw = np.random.default_rng(dim)
    shapes = {"wq": (dim, dim), "wk": (dim, kv_dim), "wv": (dim, kv_dim), "wo": (dim, dim)}
    shapes |= {"w_gate": (dim, hidden), "w_up": (dim, hidden), "w_down": (hidden, dim)}
    shapes |= {"attention_norm": (dim,), "mlp_norm": (dim,)}
    made = {name: draw.normal(size=(*layers, *shape)) / dim**0.5 for name, shape in shapes.items()}
    return {name: made[name] for name in BLOCK[1:]}


@pytest.mark.parametrize(("heads", "kv_heads"), [(2, None), (4, 2), (3, 1)])
def test_both_witnesses_of_a_block_agree_with_a_third(heads, kv_heads):
    dim, groups = 4 * heads, kv_heads or heads
    x = np.random.default_rng(0).normal(size=(2, 5, dim))
    given = {"x": x, **weights_of(dim, 4 * groups, 7)}
    options = {"heads": heads, "kv_heads": kv_heads, "eps": 0.01, "base": 30.0}
    expected = block(*map(torch.tensor, given.values()), **options).numpy()
    np.testing.assert_allclose(reference.transformer_block(**given, **options), expected, 0, 1e-12)
    np.testing.assert_allclose(
        Frame(library()["transformer_block"], {**given, **options}).outputs()["out"], expected, 0, 1e-12
    )


@pytest.mark.parametrize("layers", [1, 2])
def test_both_witnesses_of_the_model_agree_with_a_third(layers):
    draw = np.random.default_rng(layers)
    given = {
        "tokens": draw.integers(0, 9, (2, 6)),
        "embedding": draw.normal(size=(9, 8)),
        **weights_of(8, 4, 5, (layers,)),
    }
    given["final_norm"] = draw.normal(size=8)
    options = {"heads": 4, "kv_heads": 2, "eps": 0.01, "base": 30.0}
    expected = model(*map(torch.tensor, given.values()), **options).numpy()
    np.testing.assert_allclose(reference.decoder(*given.values(), **options), expected, 0, 1e-12)
    np.testing.assert_allclose(
        Frame(library()["decoder"], {**given, **options}).outputs()["logits"], expected, 0, 1e-12
    )


# Faults


def side_by_side(x, attention, feed_forward, first, second, eps):
    return x + attention(normed(x, first, eps)) + feed_forward(normed(x, second, eps))


def norm_after_the_sum(x, attention, feed_forward, first, second, eps):
    h = normed(x + attention(x), first, eps)
    return normed(h + feed_forward(h), second, eps)


def normed_tokens_carried(x, attention, feed_forward, first, second, eps):
    a = normed(x, first, eps)
    h = normed(a + attention(a), second, eps)
    return h + feed_forward(h)


FAULTS = {
    "side by side": {"joined": side_by_side},
    "norm after the sum": {"joined": norm_after_the_sum},
    "normed tokens carried": {"joined": normed_tokens_carried},
    "no mask": {"attended": lambda q, k, v: scaled_dot_product_attention(q, k, v, enable_gqa=True)},
    "scale of the width": {
        "attended": lambda q, k, v: scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=True, scale=(q.shape[1] * q.shape[3]) ** -0.5
        )
    },
    "tiled groups": {
        "attended": lambda q, k, v: attended(q, *(t.repeat(1, q.shape[1] // t.shape[1], 1, 1) for t in (k, v)))
    },
    "heads merged without their axis": {"merged": lambda o: o.reshape(o.shape[0], o.shape[2], -1)},
    "not rotated": {"rotated": lambda x, base: x},
    "rotated by 10000": {"rotated": lambda x, base: rotated(x, 1e4)},
    "rotated by heads": {"rotated": lambda x, base: rotated(x.transpose(1, 2), base).transpose(1, 2)},
    "positions of sixteen": {"rotated": lambda x, base: rotated(x, base, torch.arange(x.shape[2]) % 16)},
    "gate and up exchanged": {"gated": lambda x, w_gate, w_up, w_down: gated(x, w_up, w_gate, w_down)},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_block_is_found(fault):
    assert failures(block_of(**FAULTS[fault]), "transformer_block", first=True)


@pytest.mark.parametrize("fault", ["no mask", "not rotated"])
def test_a_model_of_faulty_blocks_is_found(fault):
    assert failures(model_of(block_of(**FAULTS[fault])), "decoder", first=True)


def padded_on_the_left(tokens, embedding, *weights, **options):
    more = torch.cat([torch.zeros_like(tokens[:, :1]), tokens], 1)
    return model(more, embedding, *weights, **options)[:, 1:]


def without_the_last_norm(tokens, embedding, *weights, **options):
    return model(tokens, embedding, *weights[:-1], torch.ones_like(weights[-1]), **options)


def scaled_on_the_way_in(tokens, embedding, *weights, **options):
    bigger = embedding * embedding.shape[-1] ** 0.5
    return model(tokens, bigger, *weights, **options) / embedding.shape[-1] ** 0.5


def with_signature_of(function):
    def give(other):
        other.__signature__ = inspect.signature(function)
        return other

    return give


@pytest.mark.parametrize("function", [padded_on_the_left, without_the_last_norm, scaled_on_the_way_in])
def test_a_faulty_model_is_found(function):
    assert failures(with_signature_of(model)(function), "decoder", first=True)


# What is right


def in_double(function):
    def wide(*arrays, **options):
        result = function(*(a.double() if a.is_floating_point() else a for a in arrays), **options)
        return result.to(arrays[1].dtype)

    return with_signature_of(function)(wide)


def by_name(x, *, attention_norm, wq, wk, wv, wo, mlp_norm, w_gate, w_up, w_down, heads, kv_heads=None, eps, base):
    weights = (attention_norm, wq, wk, wv, wo, mlp_norm, w_gate, w_up, w_down)
    return block(x, *weights, heads=heads, kv_heads=kv_heads, eps=eps, base=base)


def as_many_keys(x, norm_1, wq, wk, wv, wo, norm_2, w_gate, w_up, w_down, *, heads):
    return block(x, norm_1, wq, wk, wv, wo, norm_2, w_gate, w_up, w_down, heads=heads)


@pytest.mark.parametrize("function", [in_double(block), by_name, as_many_keys])
def test_a_right_block_is_not_accused(function):
    assert [] == failures(function, "transformer_block")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_layers_that_store_in_half_precision_are_right(dtype):
    assert [] == failures(block, "transformer_block", dtype)
    assert [] == failures(model, "decoder", dtype)


def test_a_model_in_double_precision_is_right():
    assert [] == failures(in_double(model), "decoder")
