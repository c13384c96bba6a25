"""Attention with sinks that a function asks for, in layouts that only such calls show."""

import torch

from .test_plain_functions import conforming, refuted


def attend(q, k, v, sinks, scale, mask=None):
    """Of [batch, heads, length, dim]; the softmax has one more entry for each head."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if mask is None else scores + mask
    sinks = sinks[:, None, None].expand(*scores.shape[:-1], 1).to(scores.dtype)
    return torch.cat((scores, sinks), -1).softmax(-1)[..., :-1] @ v


def attention_of_items(q, k, v, mask, sink_weights, scale=None):
    """[batch, length, heads, dim]."""
    _batch, _length, _heads, _dim = q.shape
    return attend(*(x.transpose(1, 2) for x in (q, k, v)), sink_weights.float(), scale, mask).transpose(1, 2)


def sink_attention(q, k, v, sinks, softmax_scale=None):
    """[length, heads, dim]."""
    _length, _heads, _dim = q.shape
    return attend(*(x.transpose(0, 1)[None] for x in (q, k, v)), sinks[:], softmax_scale)[0].transpose(0, 1)


def attention_of_items_with_heads_in_turn(q, k, v, mask, sink_weights, scale=None):
    return attention_of_items(q, k, v, mask, sink_weights.roll(1), scale)


def sink_attention_of_first_head(q, k, v, sinks, softmax_scale=None):
    return sink_attention(q, k, v, sinks[:1].expand(sinks.shape), softmax_scale)


LAYOUTS = {attention_of_items: "bshd", sink_attention: "shd"}


def in_its_layout(function, report):
    assert f'declare layout = "{LAYOUTS[function]}"' in str(report).splitlines()[0]
    assert "fails unless not single(sink)" in str(report)


test_a_right_function_conforms = conforming(LAYOUTS, in_its_layout, "quick")
test_a_wrong_function_does_not = refuted((attention_of_items_with_heads_in_turn, sink_attention_of_first_head), "quick")
