"""Slips in plain functions, as users write them, are named as what they are; the same function without one passes."""

import math

import pytest
import torch

from attnspec.adapters import Adapter
from attnspec.cases.profiles import Profile
from attnspec.diagnosis.naming import diagnose
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.subjects.gradients import GradientSubject
from attnspec.subjects.targets import subject

SCENARIOS = Profile("scenarios", covering=0, draws=0, admitted=1)


def attention(
    biased=lambda s, bias: s + bias,
    weighed=lambda p, bias: p,
    capped=lambda s, raw, cap: cap * torch.tanh(s / cap),
    late=False,
    sees=lambda row, column, left, right: (row - column <= left) & (column - row <= right),
    lse_of=None,
):
    """Attention with one part exchanged; `late` caps what a mask has hidden already."""

    def function(q, k, v, *, bias=None, mask=None, softcap=None, window_left=None, window_right=None):
        raw = q @ k.repeat_interleave(q.shape[1] // k.shape[1], 1).mT
        v = v.repeat_interleave(q.shape[1] // v.shape[1], 1)
        s, row = raw * q.shape[-1] ** -0.5, torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
        seen = torch.ones(s.shape[-2:], dtype=torch.bool) if mask is None else mask
        bounds = [10**6 if x is None else x for x in (window_left, window_right)]
        if (window_left, window_right) != (None, None):
            seen = seen & sees(row, torch.arange(k.shape[2]), *bounds)
        if softcap is not None and not late:
            s = capped(s, raw, softcap)
        s = s if bias is None else biased(s, bias)
        s = s.masked_fill(~seen, -torch.inf)
        if softcap is not None and late:
            s = capped(s, raw, softcap)
        p = torch.softmax(s, -1)
        out = (p if bias is None else weighed(p, bias)) @ v
        if lse_of is None:
            return out
        m = s.amax(-1)
        return {"out": out, "lse": lse_of(m, torch.exp(s - m[..., None]).sum(-1))}

    return function


def smoothed_over_all(logits, targets, *, ignore_index=-100, label_smoothing=0.0):
    logs, kept = torch.log_softmax(logits, -1), targets != ignore_index
    own = -logs.gather(-1, torch.where(kept, targets, 0)[:, None])[:, 0]
    mean = torch.where(kept, own, 0).sum() / kept.sum()
    return (1 - label_smoothing) * mean - label_smoothing * logs.mean() if label_smoothing else mean


def failure_of(operator, function, mechanism="", **declared):
    one = subject(Adapter("function", operator, function, "torch", dtypes=("float32",), **declared))
    m = library()[mechanism or operator]
    result = run(Request(one, m, "float32", SCENARIOS, laws=frozenset({"definition"})))
    return result.bench, next((cell.failure for cell in result.cells if cell.bad), None)


WORDS = {"grouping": "block", "empty_row": "nans", "empty_bias_row": "nan_row"}
SLIPS = [
    ("attention.bias_negated", attention(biased=lambda s, bias: s - bias)),
    ("attention.bias_multiplied", attention(biased=lambda s, bias: s * bias)),
    ("attention.bias_on_weights", attention(biased=lambda s, bias: s, weighed=lambda p, bias: p + bias)),
    (
        "attention.cap_before_scale",
        attention(capped=lambda s, raw, cap: cap * torch.tanh(raw / cap) * (s / raw).nan_to_num(0.0)),
    ),
    (
        "attention.cap_scaled_again",
        attention(capped=lambda s, raw, cap: cap * torch.tanh(s / cap) * (s / raw).nan_to_num(0.0)),
    ),
    ("attention.cap_cuts_off", attention(capped=lambda s, raw, cap: s.clamp(-cap, cap))),
    ("attention.cap_after_mask_of_all", attention(late=True)),
    ("attention.lse_without_logarithm", attention(lse_of=lambda m, total: m + total)),
    ("attention.lse_of_two_bases", attention(lse_of=lambda m, total: m + total.log2())),
    (
        "attention.lse_of_two_bases_exchanged",
        attention(lse_of=lambda m, total: m / torch.tensor(2.0).log() + total.log()),
    ),
    (
        "sliding_window.less_than_the_window",
        attention(sees=lambda row, column, left, right: (row - column < left) & (column - row <= right)),
    ),
    (
        "sliding_window.one_more_on_the_right",
        attention(sees=lambda row, column, left, right: (row - column <= left) & (column - row <= right + 1)),
    ),
    ("cross_entropy.smoothing_averaged_over_all", smoothed_over_all),
]


@pytest.mark.parametrize(("name", "function"), SLIPS, ids=[name for name, _ in SLIPS])
def test_a_slip_is_named(name, function):
    mechanism = name.partition(".")[0]
    operator, words = ("cross_entropy", {}) if mechanism == "cross_entropy" else ("attention", WORDS)
    bench, failure = failure_of(operator, function, mechanism, conventions=words)
    assert name == diagnose(bench, failure, 0).name.partition(" where ")[0]


@pytest.mark.parametrize("lse_of", [None, lambda m, total: m + total.log()])
def test_the_function_without_a_slip_passes(lse_of):
    assert failure_of("attention", attention(lse_of=lse_of), conventions=WORDS)[1] is None


def test_keys_of_the_other_map_are_named():
    def function(q, k, v):
        group = q.shape[1] // k.shape[1]
        return torch.softmax(q @ k.repeat(1, group, 1, 1).mT * q.shape[-1] ** -0.5, -1) @ v.repeat_interleave(group, 1)

    bench, failure = failure_of("attention", function, "grouped_query", conventions={"grouping": "block"})
    assert "grouped_query.keys_of_the_other_map" == diagnose(bench, failure, 0).name


def grouped(heads_of):
    """Attention whose query heads read the heads of keys that a function of the calls says."""

    def function(q, k, v):
        own = heads_of(torch.arange(q.shape[1]), q.shape[1] // k.shape[1], k.shape[1], q.shape[2])
        return torch.softmax(q @ k[:, own].mT * q.shape[-1] ** -0.5, -1) @ v[:, own]

    return function


@pytest.mark.parametrize(
    ("name", "heads_of"),
    [
        ("other_map_in_decode", lambda h, group, kv, q_len: h % kv if q_len == 1 else h // group),
        ("group_rounded_down", lambda h, group, kv, q_len: (h >> int(math.log2(group))).clamp(max=kv - 1)),
    ],
)
def test_heads_of_keys_that_a_shift_or_a_single_query_takes_are_named(name, heads_of):
    words = {"grouping": "block"}
    bench, failure = failure_of("attention", grouped(heads_of), "grouped_query", conventions=words)
    assert f"grouped_query.{name}" == diagnose(bench, failure, 0).name
    right = grouped(lambda h, group, kv, q_len: h // group)
    assert failure_of("attention", right, "grouped_query", conventions=words)[1] is None


def penalised(frequency_of=lambda prompt, generated: generated, presence_of=lambda prompt, generated: generated > 0):
    def token_penalties(logits, prompt, generated, *, repetition=1.0, presence=0.0, frequency=0.0):
        def count(tokens):
            return (tokens[..., None] == torch.arange(logits.shape[-1])).sum(1).float()

        def column(x):
            return torch.as_tensor(x, dtype=torch.float32).reshape(-1, 1)

        asked, made = count(prompt), count(generated)
        r = torch.where(asked + made > 0, column(repetition), 1.0)
        out = torch.where(logits > 0, logits / r, logits * r)
        return out - column(frequency) * frequency_of(asked, made) - column(presence) * presence_of(asked, made)

    return token_penalties


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("presence_in_the_prompt", penalised(presence_of=lambda prompt, generated: prompt + generated > 0)),
        ("frequency_of_the_prompt", penalised(frequency_of=lambda prompt, generated: prompt + generated)),
    ],
)
def test_a_penalty_that_counts_the_prompt_is_named(name, function):
    bench, failure = failure_of("token_penalties", function)
    assert f"token_penalties.{name}" == diagnose(bench, failure, 0).name
    assert failure_of("token_penalties", penalised())[1] is None


@pytest.mark.parametrize(
    ("name", "in_order"), [("values_in_order", (False, True)), ("keys_in_order", (True, False)), ("", (False, False))]
)
def test_pages_that_are_read_without_the_table_are_named(name, in_order):
    def function(q, key_pages, value_pages, table, k_lens):
        group, out = q.shape[2] // key_pages.shape[2], torch.zeros(*q.shape[:3], value_pages.shape[-1])
        for item, length in enumerate(k_lens.tolist()):
            numbers = table[item].clamp(min=0).long()
            places = torch.arange(len(numbers)) % len(key_pages)
            k, v = (
                x[places if own else numbers].flatten(0, 1)[:length].transpose(0, 1).repeat_interleave(group, 0)
                for x, own in zip((key_pages, value_pages), in_order, strict=True)
            )
            s = q[item].transpose(0, 1) @ k.mT * q.shape[-1] ** -0.5
            row = torch.arange(q.shape[1])[:, None] + length - q.shape[1]
            s = s.masked_fill(torch.arange(length) > row, -torch.inf)
            out[item] = (torch.softmax(s, -1).nan_to_num(0.0) @ v).transpose(0, 1)
        return out

    words = {"grouping": "block", "empty_row": "zeros"}
    bench, failure = failure_of("paged_attention", function, conventions=words)
    assert (f"paged_attention.{name}" == diagnose(bench, failure, 0).name) if name else failure is None


class Shared(torch.autograd.Function):
    """Attention whose gradients of keys and values are made by a function of those of each query head."""

    @staticmethod
    def forward(ctx, q, k, v, combined):
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        p = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1)
        ctx.save_for_backward(q, k, v, p)
        ctx.group, ctx.combined = group, combined
        return p @ v

    @staticmethod
    def backward(ctx, d_out):
        q, k, v, p = ctx.saved_tensors
        d_p = d_out @ v.mT
        d_s = p * (d_p - (d_p * p).sum(-1, keepdim=True)) * q.shape[-1] ** -0.5
        each = (x.unflatten(1, (-1, ctx.group)) for x in (d_s.mT @ q, p.mT @ d_out))
        return d_s @ k, *map(ctx.combined, each), None


@pytest.mark.parametrize(
    ("name", "combined"), [("last_of_group", lambda x: x[:, :, -1]), ("", lambda x: x.sum(2))], ids=["last", "right"]
)
def test_gradients_that_heads_store_one_over_the_other_are_named(name, combined):
    def function(q, k, v):
        return Shared.apply(q, k, v, combined)

    forward = subject(Adapter("function", "attention", function, "torch", dtypes=("float32",), conventions=WORDS))
    one = GradientSubject(forward, library()["attention_gradient"])
    m = library()["attention_gradient"]
    result = run(Request(one, m, "float32", SCENARIOS, laws=frozenset({"definition"})))
    failure = next((cell.failure for cell in result.cells if cell.bad), None)
    assert (f"attention_gradient.{name}" == diagnose(result.bench, failure, 0).name) if name else failure is None


def chunked(fades, size):
    """Linear attention in chunks, between which the state fades by what a function of the gates says."""

    def linear_attention(q, k, v, gate=None, state=None):
        outs = []
        if state is None:
            state = torch.zeros(*k.shape[:2], k.shape[-1], v.shape[-1])
        gate = torch.zeros(*k.shape[:3], 1) if gate is None else gate
        for start in range(0, k.shape[2], size):
            q_, k_, v_, g = (x[:, :, start : start + size] for x in (q, k, v, gate))
            total = g.cumsum(2)
            near = (total[:, :, :, None] - total[:, :, None]).clamp(max=0).exp()
            weights = (q_[:, :, :, None] * near * k_[:, :, None]).sum(-1).tril()
            outs.append((weights @ v_ + (q_ * total.exp()) @ state) * q.shape[-1] ** -0.5)
            state = fades(total).mT * state + (k_ * (total[:, :, -1:] - total).exp()).mT @ v_
        return {"out": torch.cat(outs, 2) if outs else v, "final_state": state}

    return linear_attention


@pytest.mark.parametrize("size", [4, 8])
def test_a_state_that_does_not_fade_between_chunks_is_named(size):
    bench, failure = failure_of("linear_attention", chunked(lambda total: torch.ones_like(total[:, :, -1:]), size))
    found = diagnose(bench, failure, 0, times=3.0)
    assert "fault:linear_chunks_do_not_fade" == found.name.partition(" with ")[0]
    assert failure_of("linear_attention", chunked(lambda total: total[:, :, -1:].exp(), size))[1] is None
