"""Attention as the layers of a model call it: the layer first, and what it holds beside queries, keys and values."""

import torch

from .test_plain_functions import conforming, refuted


def attend(query, key, value, hidden, scaling, sinks=None):
    """The output, [batch, length, heads, dim]; rows that see nothing are zero, and sinks take their share of others."""
    key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
    scores = query @ key.mT * scaling + hidden
    sinks = torch.full((scores.shape[1],), -torch.inf) if sinks is None else sinks
    scores = torch.cat((scores, sinks[:, None, None].expand(*scores.shape[:-1], 1).to(scores.dtype)), -1)
    blind = scores.isneginf().all(-1, keepdim=True)
    weights = scores.masked_fill(blind, 0).softmax(-1).masked_fill(blind, 0)[..., :-1]
    return (weights @ value).transpose(1, 2)


def later(query, key):
    """Minus infinity for keys behind a query, the last query being at the last key."""
    whole = torch.full((query.shape[2], key.shape[2]), -torch.inf, dtype=query.dtype)
    return whole.triu(1 + key.shape[2] - query.shape[2])


def sdpa_attention_forward(module, query, key, value, attention_mask=None, dropout=0.0, scaling=None, is_causal=None):
    """Without a mask it is causal, unless it is told not to be."""
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    causal = attention_mask is None and (True if is_causal is None else is_causal)
    mask = torch.zeros(()) if attention_mask is None else attention_mask
    return attend(query, key, value, later(query, key) if causal else mask, scaling), None


def flash_attention_forward(module, query, key, value, attention_mask=None, dropout=0.0, scaling=None, is_causal=None):
    """Whatever it is told, it is causal without a mask."""
    return sdpa_attention_forward(module, query, key, value, attention_mask, dropout, scaling)


def eager_attention_forward(module, query, key, value, attention_mask, scaling, s_aux, dropout=0.0, **kwargs):
    mask = torch.zeros(()) if attention_mask is None else attention_mask
    return attend(query, key, value, mask, scaling, s_aux), None


def eager_attention_forward_of_scaled_sinks(
    module, query, key, value, attention_mask, scaling, s_aux, dropout=0.0, **kwargs
):
    return eager_attention_forward(module, query, key, value, attention_mask, scaling, s_aux * scaling)


test_a_right_function_conforms = conforming((sdpa_attention_forward, eager_attention_forward))
test_a_wrong_function_does_not = refuted((flash_attention_forward, eager_attention_forward_of_scaled_sinks))
