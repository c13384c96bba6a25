"""Gradients of packed attention: witnesses against automatic differentiation, and wrong backward passes found."""

import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library

GRADIENT = library()["packed_attention_gradient"]
Q_LENS, K_LENS = np.array([0, 3, 2, 2]), np.array([2, 5, 0, 2])


def by_definition(q, k, v, q_lens, k_lens, d_out, **more):
    return Frame(
        GRADIENT, {"q": q, "k": k, "v": v, "q_lens": q_lens, "k_lens": k_lens, "d_out": d_out, **more}
    ).outputs()


WITNESSES = [pytest.param(f, id=f.__name__) for f in (reference.packed_attention_gradient, by_definition)]


def drawn():
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape) for shape in ((7, 4, 5), (9, 2, 5), (9, 2, 3), (7, 4, 3))]


def item(q, k, v, causal, top_left, left, softcap):
    """One item in float64: [queries, heads, value_dim]."""
    keys, values = (x.repeat_interleave(2, 1) for x in (k, v))
    s = torch.einsum("qhd,khd->hqk", q, keys) / 5**0.5
    s = s if softcap is None else softcap * torch.tanh(s / softcap)
    back = torch.arange(len(q))[:, None] + (0 if top_left else len(k) - len(q)) - torch.arange(len(k))
    seen = (back >= 0) | (not causal)
    seen = seen if left is None else seen & (back <= left)
    p = torch.where(seen, torch.exp(s), 0.0)
    return torch.einsum("hqk,khd->qhd", p / p.sum(-1, keepdim=True).clamp(min=1e-300), values)


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize(
    ("causal", "alignment", "left", "softcap"),
    [(False, "bottom_right", None, None), (True, "bottom_right", 1, None), (True, "top_left", None, 2.0)],
)
def test_every_item_has_the_gradients_of_its_own_attention(witness, causal, alignment, left, softcap):
    arrays = drawn()
    q, k, v, d_out = (torch.from_numpy(x).requires_grad_() for x in arrays)
    parts = zip(*(x.split(n.tolist()) for x, n in ((q, Q_LENS), (k, K_LENS), (v, K_LENS))), strict=True)
    out = torch.cat([item(*part, causal, alignment == "top_left", left, softcap) for part in parts])
    out.backward(d_out.detach())
    more = {"causal": causal, "causal_alignment": alignment, "window_left": left, "softcap": softcap}
    found = witness(*arrays[:3], Q_LENS, K_LENS, arrays[3], **more)
    for name, x in (("d_q", q), ("d_k", k), ("d_v", v)):
        np.testing.assert_allclose(found[name], x.grad, rtol=1e-10, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("witness", WITNESSES)
def test_what_nothing_flows_through_has_gradients_of_exactly_zero(witness):
    q, k, v, d_out = drawn()
    found = witness(q, k, v, Q_LENS, K_LENS, d_out)
    assert [0.0] * 3 == [np.abs(x).max() for x in (found["d_k"][:2], found["d_v"][:2], found["d_q"][3:5])]


def test_the_reference_refuses_lengths_that_do_not_add_up():
    q, k, v, d_out = drawn()
    with pytest.raises(ValueError, match="the lengths add up"):
        reference.packed_attention_gradient(q, k, v, Q_LENS + 1, K_LENS, d_out)


# Functions of a known interface


def attended(q, k, v, cu_seqlens_q, cu_seqlens_k, softmax_scale, causal):
    """Packed attention under one mask of blocks, with a slice of the backward pass to be exchanged."""
    places = [
        torch.cat([torch.arange(a - b, 0) for a, b in zip(ends.tolist(), ends.tolist()[1:], strict=False)])
        for ends in (cu_seqlens_q, cu_seqlens_k)
    ]
    items = [torch.repeat_interleave(torch.arange(len(x) - 1), x.diff()) for x in (cu_seqlens_q, cu_seqlens_k)]
    seen = items[0][:, None] == items[1]
    seen &= (places[0][:, None] >= places[1]) | (not causal)
    keys, values = (x.float().repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scale = q.shape[2] ** -0.5 if softmax_scale is None else softmax_scale
    s = torch.einsum("qhd,khd->hqk", q.float(), keys) * scale
    p = s.masked_fill(~seen, -1e30).softmax(-1).masked_fill(~seen, 0.0)
    return torch.einsum("hqk,khd->qhd", p, values).to(q.dtype)


def flash_attn_varlen_func(
    q,
    k,
    v,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
):
    return attended(q, k, v, cu_seqlens_q, cu_seqlens_k, softmax_scale, causal)


class Leaking(torch.autograd.Function):
    """Keys and values unchanged, whose gradients are taken up to the longest run of queries."""

    @staticmethod
    def forward(ctx, x, ends, longest):
        ctx.more = ends, int(longest)
        return x.clone()

    @staticmethod
    def backward(ctx, d):
        ends, longest = ctx.more
        place = torch.cat([torch.arange(int(n)) for n in ends.diff()])
        return d * (place < longest)[:, None, None], None, None


def wrong(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, softmax_scale=None, causal=False):
    k, v = (Leaking.apply(x, cu_seqlens_k, max_seqlen_q) for x in (k, v))
    return attended(q, k, v, cu_seqlens_q, cu_seqlens_k, softmax_scale, causal)


def failing(function):
    laws = ("packed_attention.definition", "packed_attention_gradient.definition")
    report = attnspec.check(function, like="flash_attn_varlen_func", profile="smoke", isolate=False, laws=laws)
    cells = [line for line in report.lines if line["kind"] == "cell"]
    return {cell["mechanism"]: cell["verdict"] for cell in cells if cell["dtype"] == "float32"}, str(report)


def test_the_gradients_of_a_function_of_a_known_interface_come_along():
    expected = {"packed_attention": "pass", "packed_attention_gradient": "pass"}
    assert expected == failing(flash_attn_varlen_func)[0]


def test_the_longest_run_of_queries_in_the_place_of_that_of_keys_is_found_and_named():
    found, text = failing(wrong)
    assert {"packed_attention": "pass", "packed_attention_gradient": "fail"} == found
    assert "packed_attention_gradient.longest_queries_for_keys" in text
