"""Functions that have a soft cap or a limit by default, or that take some calls alone: right and wrong ones."""

import pytest
import torch

from .test_plain_functions import conforming, refuted, report_of


def capped_attention(q, k, v, scale=None, softcap: float = 5.0):
    return attended(q, k, v, scale, lambda scores: softcap * torch.tanh(scores / softcap))


def attention_of_lost_cap(q, k, v, scale=None, softcap: float = 5.0):
    return attended(q, k, v, scale, lambda scores: torch.tanh(scores / softcap))


def attended(q, k, v, scale, cap):
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    return cap(scores).softmax(-1) @ v


def softcap_attention(queries, keys, values, scale, softcap, mask):
    """Every call has a cap, also those by which it is seen what NaN in hidden values do."""
    return masked(softcap * torch.tanh(scale * queries @ keys.mT / softcap), mask).softmax(-1) @ values


def softcap_attention_of_capped_masks(queries, keys, values, scale, softcap, mask):
    return (softcap * torch.tanh(masked(scale * queries @ keys.mT, mask) / softcap)).softmax(-1) @ values


def masked(scores, mask):
    return scores if mask is None else scores.masked_fill(~mask, torch.finfo(scores.dtype).min)


def swiglu(x, alpha: float = 1.702, limit: float = 7.0):
    return clamped(x, alpha, limit, -torch.inf)


def swiglu_of_gates_cut_below(x, alpha: float = 1.702, limit: float = 7.0):
    return clamped(x, alpha, limit, -limit)


def clamped(x, alpha, limit, least):
    """Gates and their partners side by side; one is added to the partners."""
    gate, up = x[..., ::2].clamp(least, limit), x[..., 1::2].clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (up + 1)


def naive_parallel_attn(q, k, v, scale=None, causal: bool = True):
    out, max_logits = of_one_length(q, k, v, scale, causal, 1)
    return out, max_logits


def parallel_attn_of_one_more(q, k, v, scale=None, causal: bool = True):
    out, max_logits = of_one_length(q, k, v, scale, causal, 2)
    return out, max_logits


def of_one_length(q, k, v, scale, causal, first):
    """[batch, length, heads, dim], and as many keys as queries if it is causal."""
    batch, length, heads, dim = q.shape
    q = q.unflatten(2, (k.shape[2], -1))
    scores = torch.einsum("bqhgd,bkhd->bhgqk", q, k) * (dim**-0.5 if scale is None else scale)
    if causal:
        scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(first), -torch.inf)
    out = torch.einsum("bhgqk,bkhd->bqhgd", scores.softmax(-1), v).reshape(batch, length, heads, -1)
    return out, scores.amax(-1).permute(0, 3, 1, 2).reshape(batch, length, heads)


RIGHT = (capped_attention, softcap_attention, swiglu, naive_parallel_attn)
WRONG = (attention_of_lost_cap, softcap_attention_of_capped_masks, swiglu_of_gates_cut_below, parallel_attn_of_one_more)

test_a_right_function_conforms = conforming(RIGHT)
test_a_wrong_function_does_not = refuted(WRONG)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (capped_attention, "`softcap` is 5 where a call leaves it out, which no call does"),
        (naive_parallel_attn, "it returns `max_logits` in the place of lse: not tested"),
        (naive_parallel_attn, "fails unless not causal or k_len == q_len or q_len == 1, with RuntimeError"),
    ],
)
def test_what_first_calls_show_is_said(function, says):
    text = str(report_of(function, "smoke"))
    assert says in text
    assert "it returns 4 results" not in text
