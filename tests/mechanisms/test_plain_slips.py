"""Slips in plain functions, as users write them, are named as what they are; the same function without one passes."""

import pytest
import torch

from attnspec.adapters import Adapter
from attnspec.cases.profiles import Profile
from attnspec.diagnosis.naming import diagnose
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
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
