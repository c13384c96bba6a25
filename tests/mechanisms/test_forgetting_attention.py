"""Attention that forgets: definition and reference against sums written out, gradients as slopes, and its interface."""

import math

import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library


def defined(name):
    return lambda **values: Frame(library()[name], values).outputs()


def given(seed=4, heads=4, length=6):
    rng = np.random.default_rng(seed)
    shapes = {"q": (2, heads, length, 3), "k": (2, 2, length, 3), "v": (2, 2, length, 5)}
    arrays = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    return {**arrays, "gate": -rng.random((2, heads, length))}


def outputs(found):
    return found["out"] if isinstance(found, dict) else found


@pytest.mark.parametrize("window_left", [None, 2])
@pytest.mark.parametrize("witness", [defined("forgetting_attention"), reference.forgetting_attention])
def test_a_key_fades_by_the_product_of_all_later_gates_up_to_the_query(witness, window_left):
    values = given()
    found = outputs(witness(**values, scale=0.5, window_left=window_left))
    q, k, v, shares = values["q"], values["k"], values["v"], np.exp(values["gate"])
    for b, h, i in np.ndindex(2, 4, 6):
        keys = range(0 if window_left is None else max(i - window_left, 0), i + 1)
        weights = [math.prod(shares[b, h, j + 1 : i + 1]) * math.exp(0.5 * q[b, h, i] @ k[b, h // 2, j]) for j in keys]
        expected = sum(w * v[b, h // 2, j] for w, j in zip(weights, keys, strict=True)) / sum(weights)
        np.testing.assert_allclose(found[b, h, i], expected, rtol=1e-12)


@pytest.mark.parametrize("witness", [defined("forgetting_attention_gradient"), reference.forgetting_attention_gradient])
def test_gradients_are_slopes(witness):
    values, d_out = given(), np.random.default_rng(5).normal(size=(2, 4, 6, 5))
    found = witness(**values, d_out=d_out)
    for name, x in values.items():
        step = np.random.default_rng(6).normal(size=x.shape)
        up, down = (
            (reference.forgetting_attention(**{**values, name: x + h * step}) * d_out).sum() for h in (1e-6, -1e-6)
        )
        np.testing.assert_allclose((found[f"d_{name}"] * step).sum(), (up - down) / 2e-6, rtol=1e-7)


@pytest.mark.parametrize("lens", [[4, 2], [0, 5, 1], [6]])
def test_packed_items_are_as_if_each_were_alone(lens):
    values, d_out = given(), np.random.default_rng(7).normal(size=(6, 4, 5))
    packed = {name: np.moveaxis(x[0], 0, 1) for name, x in values.items()}
    found = defined("packed_forgetting_attention")(**packed, lens=np.array(lens))["out"]
    flow = defined("packed_forgetting_attention_gradient")(**packed, lens=np.array(lens), d_out=d_out)
    start = 0
    for n in filter(None, lens):
        own = {name: x[:1, :, start : start + n] for name, x in values.items()}
        alone = reference.forgetting_attention(**own)
        np.testing.assert_allclose(found[start : start + n], np.moveaxis(alone[0], 0, 1), rtol=1e-12)
        cotangent = np.moveaxis(d_out[None, start : start + n], 1, 2)
        for name, x in reference.forgetting_attention_gradient(**own, d_out=cotangent).items():
            np.testing.assert_allclose(flow[name][start : start + n], np.moveaxis(x[0], 0, 1), rtol=1e-9, atol=1e-12)
        start += n


def forgetting(*, sums_begin_again=False, items_mixed=False, window_counted=True):
    """A function as flash-linear-attention has it, of sequences and of packed items."""

    def parallel_forgetting_attn(q, k, v, g, scale=None, window_size=None, cu_seqlens=None):
        length, group = q.shape[1], q.shape[2] // k.shape[2]
        place = torch.arange(length)
        packed = cu_seqlens is not None and not items_mixed
        item = (place[:, None] >= cu_seqlens[1:]).sum(-1) if packed else 0 * place
        q, k, v = (x.transpose(1, 2).float() for x in (q, k, v))
        k, v, passed = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), g.transpose(1, 2).cumsum(2)
        if sums_begin_again:
            passed = torch.cat([x.cumsum(2) for x in g.transpose(1, 2).split(16, 2)], 2)
        distance = place[:, None] - place
        seen = (distance >= 0) & (item[:, None] == item)
        if window_size is not None:
            seen = seen & (distance < window_size + (0 if window_counted else 1))
        scores = q @ k.mT * (q.shape[3] ** -0.5 if scale is None else scale) + passed[..., None] - passed[:, :, None]
        return (scores.where(seen, -torch.inf).softmax(-1) @ v).transpose(1, 2).to(g.dtype)

    return parallel_forgetting_attn


def judged(function):
    """Of each operator that a function is checked by, whether a law of it fails."""
    report = attnspec.check(function, profile="smoke", dtypes=("float32",), explain_time=0)
    cells = [line for line in report.lines if line["kind"] == "cell"]
    found = {cell["operator"]: False for cell in cells}
    return found | {cell["operator"]: True for cell in cells if cell["verdict"] == "fail"}


DENSE, PACKED = (
    ("forgetting_attention", "forgetting_attention_gradient"),
    ("packed_forgetting_attention", "packed_forgetting_attention_gradient"),
)


@pytest.mark.parametrize(
    ("function", "failing"),
    [
        (forgetting(), ()),
        (forgetting(sums_begin_again=True), DENSE + PACKED),
        (forgetting(items_mixed=True), PACKED),
        (forgetting(window_counted=False), DENSE + PACKED),
    ],
)
def test_a_function_of_that_name_is_checked_by_sequences_by_items_and_by_gradients(function, failing):
    assert {name: name in failing for name in DENSE + PACKED} == judged(function)
