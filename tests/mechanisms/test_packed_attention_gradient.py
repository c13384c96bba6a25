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
def test_a_sink_has_the_gradients_of_one_more_key_of_every_item(witness):
    arrays = drawn()
    sink = torch.tensor([0.3, -1.0, 2.0, 0.5], dtype=torch.float64, requires_grad=True)
    q, k, v, d_out = (torch.from_numpy(x).requires_grad_() for x in arrays)
    outs, (own_k, own_v) = [], (x.repeat_interleave(2, 1).split(K_LENS.tolist()) for x in (k, v))
    for queries, keys, values in zip(q.split(Q_LENS.tolist()), own_k, own_v, strict=True):
        scores = torch.einsum("qhd,khd->hqk", queries, keys) / 5**0.5
        column = sink[:, None, None].expand(4, len(queries), 1)
        outs.append(torch.einsum("hqk,khd->qhd", torch.cat([scores, column], 2).softmax(-1)[..., :-1], values))
    torch.cat(outs).backward(d_out.detach())
    found = witness(*arrays[:3], Q_LENS, K_LENS, arrays[3], sink=sink.detach().numpy())
    for name, x in (("d_q", q), ("d_k", k), ("d_v", v), ("d_sink", sink)):
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


class Sunk(torch.autograd.Function):
    """A sink unchanged, whose gradient is that of another factor."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx, d):
        return d * ctx.factor, None


def with_sinks(factor):
    """A function with the parameters of FlashAttention 3, whose backward pass multiplies the gradient of the sink."""

    def flash_attn_varlen_func(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, softmax_scale=None, causal=False, s_aux=None
    ):
        lens = [ends.diff().tolist() for ends in (cu_seqlens_q, cu_seqlens_k)]
        sink = None if s_aux is None else Sunk.apply(s_aux, factor)
        scale = q.shape[2] ** -0.5 if softmax_scale is None else softmax_scale
        own_k, own_v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1).split(lens[1]) for x in (k, v))
        outs = []
        for queries, keys, values in zip(q.split(lens[0]), own_k, own_v, strict=True):
            s = torch.einsum("qhd,khd->hqk", queries, keys) * scale
            back = torch.arange(len(queries))[:, None] + len(keys) - len(queries) - torch.arange(len(keys))
            s = s.masked_fill((back < 0) & causal, -1e30)
            column = torch.full_like(s[..., :1], -1e20) if sink is None else sink[:, None, None].expand_as(s[..., :1])
            outs.append(torch.einsum("hqk,khd->qhd", torch.cat([s, column], 2).softmax(-1)[..., :-1], values))
        return torch.cat(outs)

    return flash_attn_varlen_func


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "pass"), (0.0, "fail")])
def test_the_gradient_of_a_sink_is_checked_through_a_known_interface(factor, verdict):
    law = "packed_attention_gradient.definition"
    more = {"profile": "smoke", "isolate": False, "laws": law}
    report = attnspec.check(with_sinks(factor), like="flash_attn_varlen_func", **more)
    verdicts = {line["verdict"] for line in report.lines if line["kind"] == "cell"}
    assert {verdict} == verdicts, report
    assert (verdict == "fail") is ("packed_attention_gradient.sink_without_gradient:" in str(report))


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
    more = {"profile": "smoke", "isolate": False, "laws": laws, "dtypes": "float32"}
    report = attnspec.check(function, like="flash_attn_varlen_func", **more)
    return {cell["mechanism"]: cell["verdict"] for cell in report.cells}, str(report)


def test_the_gradients_of_a_function_of_a_known_interface_come_along():
    expected = {"packed_attention": "pass", "packed_attention_gradient": "pass"}
    assert expected == failing(flash_attn_varlen_func)[0]


def test_the_longest_run_of_queries_in_the_place_of_that_of_keys_is_found_and_named():
    found, text = failing(wrong)
    assert {"packed_attention": "pass", "packed_attention_gradient": "fail"} == found
    assert "packed_attention_gradient.longest_queries_for_keys" in text


def in_slots(x, lens, slots):
    """The tokens of items at the front of their slots, with NaN behind them."""
    parts, at = [], 0
    for n, room in zip(lens, slots, strict=True):
        parts += [x[at : at + n], np.full((room - n, *x.shape[1:]), np.nan)]
        at += n
    return np.concatenate(parts)


@pytest.mark.parametrize("padding", ["zeroed", "left_open"])
def test_tokens_have_the_same_gradients_in_slots_whose_padding_is_nan(padding):
    q, k, v, d_out = drawn()
    q_slots, k_slots = Q_LENS + np.array([1, 0, 2, 1]), K_LENS + np.array([0, 1, 2, 3])
    options = {"q_lens": Q_LENS, "k_lens": K_LENS, "causal": True}
    expected = reference.packed_attention_gradient(q, k, v, d_out=d_out, **options)
    given = {"q": in_slots(q, Q_LENS, q_slots), "d_out": in_slots(d_out, Q_LENS, q_slots)}
    given |= {name: in_slots(x, K_LENS, k_slots) for name, x in (("k", k), ("v", v))}
    slots = {"q_slots": q_slots, "k_slots": k_slots}
    word = {"padded_gradients": padding}
    spec = Frame(library()["padded_pack_gradient"], given | options | slots | word).outputs()
    witness = reference.packed_attention_gradient(**given, **options, **slots, **word)
    for name, lens, room in (("d_q", Q_LENS, q_slots), ("d_k", K_LENS, k_slots), ("d_v", K_LENS, k_slots)):
        whole = in_slots(expected[name], lens, room)
        wanted = np.nan_to_num(whole, nan=0.0) if padding == "zeroed" else whole
        np.testing.assert_allclose(witness[name], wanted, atol=1e-14)
        np.testing.assert_allclose(np.asarray(spec[name])[~np.isnan(whole)], whole[~np.isnan(whole)], atol=1e-14)
        assert padding == "left_open" or not np.asarray(spec[name])[np.isnan(whole)].any()


def backward_in_slots(into):
    """A backward pass of torch for each item, whose gradients of keys go to places by `into`."""

    @torch.enable_grad()
    def packed_attention_gradient(q, k, v, q_lens, k_lens, d_out, *, q_slots, k_slots):
        found = {f"d_{name}": torch.zeros_like(x) for name, x in (("q", q), ("k", k), ("v", v))}
        q_at, k_at, k_to = q_slots.cumsum(0) - q_slots, k_slots.cumsum(0) - k_slots, into(k_lens, k_slots)
        for i, (n, m) in enumerate(zip(q_lens, k_lens, strict=True)):
            if n * m == 0:
                continue
            own, past, there = slice(q_at[i], q_at[i] + n), slice(k_at[i], k_at[i] + m), slice(k_to[i], k_to[i] + m)
            leaves = [x.float().detach().requires_grad_() for x in (q[own], k[past], v[past])]
            keys, values = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in leaves[1:])
            p = torch.softmax(torch.einsum("qhd,khd->hqk", leaves[0], keys) * q.shape[2] ** -0.5, -1)
            torch.einsum("hqk,khd->qhd", p, values).backward(d_out[own].float())
            for name, rows, leaf in zip(found, (own, there, there), leaves, strict=True):
                found[name][rows] = leaf.grad.to(q.dtype)
        return found

    return packed_attention_gradient


@pytest.mark.parametrize(
    ("into", "right"),
    [(lambda lens, slots: slots.cumsum(0) - slots, True), (lambda lens, slots: lens.cumsum(0) - lens, False)],
    ids=["slots", "lens"],
)
def test_gradients_of_keys_begin_where_their_slots_do(into, right):
    report = attnspec.check(
        backward_in_slots(into),
        operator="packed_attention_gradient",
        framework="torch",
        laws=("padded_pack_gradient.definition",),
        isolate=False,
        dtypes=("float32",),
        explain_time=0,
        exitfirst=not right,
    )
    assert right == bool(report)
