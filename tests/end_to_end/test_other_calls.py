"""Functions that compute several operators: each is checked by all of its calls, right and with a fault."""

import itertools

import numpy as np
import pytest

import attnspec
from attnspec import reference


def laid(sums):
    return [*itertools.pairwise(sums)]


def linear(q, k, v, gates, scale, state, beta=None):
    """Linear attention of one item in [length, heads, dim], or the delta rule, and the state that is left."""
    state, rows = state.astype(np.float64), []
    for t in range(len(k)):
        state = state * (np.exp(gates[t].astype(np.float64))[..., None] if gates is not None else 1)
        read = 0 if beta is None else (k[t, :, None] @ state)[:, 0]
        write = v[t] - read if beta is None else beta[t][:, None] * (v[t] - read)
        state = state + k[t][..., None] * write[:, None]
        rows.append((scale * q[t][:, None] @ state)[:, 0])
    return np.array(rows).reshape(v.shape), state


def recurrence(q, k, v, gates, scale, initial, sums, beta=None, *, one_state=False, through=False):
    """The same for a batch, or for the items of a pack between the sums of their lengths."""
    if gates is not None and gates.ndim == 3:
        gates = gates[..., None]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    places = [(b, slice(None)) for b in range(len(q))] if sums is None else [(0, slice(*ends)) for ends in laid(sums)]
    state = np.zeros((len(places), v.shape[2], q.shape[-1], v.shape[-1])) if initial is None else initial
    q, k = (np.repeat(x, v.shape[2] // x.shape[2], 2) for x in (q, k))
    out, left = np.zeros(v.shape), []
    for at, (b, tokens) in enumerate(places):
        begun = (
            left[-1] if through and left and sums is not None else state[0 if one_state and sums is not None else at]
        )
        parts = [None if x is None else x[b, tokens] for x in (q, k, v, gates)]
        own = None if beta is None else beta[b, tokens]
        out[b, tokens], last = linear(*parts, scale, begun, own)
        left.append(last)
    return out.astype(v.dtype), np.array(left).astype(np.float32)


def gla(**fault):
    def chunk_gla(q, k, v, g, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None):
        return recurrence(q, k, v, g, scale, initial_state, cu_seqlens, **fault)

    return chunk_gla


def simple_gla(**fault):
    def chunk_simple_gla(
        q, k, v, g=None, g_gamma=None, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None
    ):
        return recurrence(q, k, v, g, scale, initial_state, cu_seqlens, **fault)

    return chunk_simple_gla


def delta_rule(**fault):
    def chunk_delta_rule(q, k, v, beta, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None):
        return recurrence(q, k, v, None, scale, initial_state, cu_seqlens, beta, **fault)

    return chunk_delta_rule


def gated_delta_rule(**fault):
    def chunk_gated_delta_rule(
        q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None
    ):
        return recurrence(q, k, v, g, scale, initial_state, cu_seqlens, beta, **fault)

    return chunk_gated_delta_rule


def short(**fault):
    def causal_conv1d(
        x,
        weight=None,
        bias=None,
        residual=None,
        initial_state=None,
        output_final_state=False,
        activation=None,
        cu_seqlens=None,
    ):
        places = [(b, slice(None)) for b in range(len(x))]
        if cu_seqlens is not None:
            places = [(0, slice(*ends)) for ends in laid(cu_seqlens)]
        out = np.zeros(x.shape)
        for at, (b, tokens) in enumerate(places):
            state = np.zeros((x.shape[2], weight.shape[1] - 1))
            if initial_state is not None:
                state = initial_state[0 if fault and cu_seqlens is not None else at, :, 1:]
            own, added = x[b, tokens].T[None], 0.0 if bias is None else bias
            found = reference.short_convolution(own, weight, added, state[None], silu=activation == "silu")
            out[b, tokens] = found["out"][0].T
        return out.astype(x.dtype), None

    return causal_conv1d


def used_pages(**fault):
    attend = varlen_attention(**fault)

    def flash_attn_varlen_func(
        q,
        k,
        v,
        max_seqlen_q,
        cu_seqlens_q,
        max_seqlen_k,
        cu_seqlens_k=None,
        seqused_k=None,
        softmax_scale=None,
        causal=False,
        window_size=(-1, -1),
        softcap=0.0,
        block_table=None,
    ):
        assert cu_seqlens_k is None or seqused_k is None
        sums = cu_seqlens_k if seqused_k is None else [0, *np.cumsum(seqused_k)]
        further = softmax_scale, causal, window_size, softcap, block_table
        return attend(q, k, v, cu_seqlens_q, sums, max_seqlen_q, max_seqlen_k, *further)

    return flash_attn_varlen_func


def varlen_attention(*, first_page=False):
    def flash_attn_varlen_func(
        q,
        k,
        v,
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        softmax_scale=None,
        causal=False,
        window_size=(-1, -1),
        softcap=0.0,
        block_table=None,
    ):
        out = np.zeros((*q.shape[:2], v.shape[-1]))
        scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
        for item, (rows, (a, b)) in enumerate(zip(laid(cu_seqlens_q), laid(cu_seqlens_k), strict=True)):
            keys, values = k[a:b], v[a:b]
            if block_table is not None:
                table = np.maximum(block_table[0 if first_page else item], 0)
                keys, values = (x[table].reshape(-1, *x.shape[2:])[: b - a] for x in (k, v))
            keys, values = (np.repeat(x.astype(np.float64), q.shape[1] // x.shape[1], 1) for x in (keys, values))
            scores = np.einsum("shd,thd->hst", q[slice(*rows)].astype(np.float64), keys) * scale
            scores = softcap * np.tanh(scores / softcap) if softcap else scores
            ahead = np.arange(b - a) - np.arange(rows[1] - rows[0])[:, None] - (b - a - rows[1] + rows[0])
            hidden = (ahead > 0) & causal
            for side, reach in zip((-ahead, ahead), window_size, strict=True):
                hidden |= (side > reach) & (reach >= 0)
            scores = np.where(hidden, -np.inf, scores)
            terms = np.exp(scores - np.maximum(scores.max(-1, keepdims=True, initial=-np.inf), -1e30))
            total = np.maximum(terms.sum(-1, keepdims=True), 1e-30)
            out[slice(*rows)] = np.einsum("hst,the->she", terms / total, values)
        return out.astype(q.dtype)

    return flash_attn_varlen_func


CALLS = {
    "packed_linear_attention": (gla, {"one_state": True}),
    "packed_linear_attention by heads": (simple_gla, {"through": True}),
    "packed_delta_rule": (delta_rule, {"through": True}),
    "packed_delta_rule with gates": (gated_delta_rule, {"one_state": True}),
    "packed_convolution": (short, {"one_state": True}),
    "paged_attention of lengths": (used_pages, {"first_page": True}),
    "paged_attention": (varlen_attention, {"first_page": True}),
}


def checked(function, **options):
    return attnspec.check(function, framework="numpy", profile="smoke", explain_time=0, **options)


@pytest.mark.parametrize("name", CALLS)
def test_a_function_is_checked_by_its_other_calls(name):
    made, _ = CALLS[name]
    report = checked(made())
    assert report.conformant, report
    assert {name.partition(" ")[0]} < {cell["operator"] for cell in report.lines if cell["kind"] == "cell"}


@pytest.mark.parametrize("name", CALLS)
def test_a_fault_of_the_other_calls_is_refuted_in_them_alone(name):
    made, fault = CALLS[name]
    report = checked(made(**fault))
    assert {name.partition(" ")[0]} == {
        cell["operator"] for cell in report.lines if cell.get("verdict") == "fail" and cell["level"] == "must"
    }


def test_what_makes_the_other_calls_is_not_said_to_be_untested():
    said = checked(gla(), mechanisms=["linear_attention"]).lines
    assert not any("cu_seqlens" in str(line.get("run", {}).get("taken")) for line in said)


def test_an_operator_that_is_asked_for_is_the_only_one():
    report = checked(gla(), operator="packed_linear_attention")
    assert {"packed_linear_attention"} == {cell["operator"] for cell in report.lines if cell["kind"] == "cell"}


KEYS = """
import torch


def rotate_half(x):
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + rotate_half(q) * sin, {keys}
"""


def failing_beside(folder, text, name):
    """The mechanisms that a function of a file fails, which is tested as `rotary` and as `rotary_pair`."""
    path = folder / "kernels.py"
    path.write_text(text)
    report = attnspec.check(f"{path}:{name}", profile="smoke", dtypes="float32", isolate=False, explain_time=0)
    assert {"rotary", "rotary_pair"} <= {cell["mechanism"] for cell in report.cells}
    return {cell["mechanism"] for cell in report.failures if cell["level"] == "must"}


@pytest.mark.parametrize(
    ("keys", "failing"),
    [
        ("k * cos + rotate_half(k) * sin", set()),
        ("k * cos - rotate_half(k) * sin", {"rotary_pair"}),
        ("k * cos[:, :, :1] + rotate_half(k) * sin[:, :, :1]", {"rotary_pair"}),
    ],
)
def test_what_the_first_interface_leaves_of_the_results_is_tested_beside_it(tmp_path, keys, failing):
    assert failing == failing_beside(tmp_path, KEYS.replace("{keys}", keys), "apply_rotary_pos_emb")


COMPLEX = """
import torch


def turned(x, freqs_cis):
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * freqs_cis[None, :, None]).flatten(3).type_as(x)


def apply_rotary_emb(xq, xk, freqs_cis):
    return turned(xq, freqs_cis), turned(xk, {table})
"""


@pytest.mark.parametrize(("table", "failing"), [("freqs_cis", set()), ("freqs_cis.conj()", {"rotary_pair"})])
def test_keys_that_are_turned_by_complex_numbers_are_tested_too(tmp_path, table, failing):
    assert failing == failing_beside(tmp_path, COMPLEX.replace("{table}", table), "apply_rotary_emb")
