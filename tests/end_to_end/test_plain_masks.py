"""Functions that make masks, in the ways in which models make them, and the faults that such functions have."""

import math

import pytest
import torch

import attnspec
from attnspec.errors import UsageError

from .test_plain_functions import conforming, refuted


def causal_mask(seq_len):
    return torch.tril(torch.ones(seq_len, seq_len, dtype=torch.bool))


def generate_square_subsequent_mask(sz):
    return torch.triu(torch.full((sz, sz), -math.inf), 1)


def create_look_ahead_mask(size):
    return torch.triu(torch.ones(size, size, dtype=torch.bool), 1)


def create_look_ahead_mask_without_the_own_token(size):
    return torch.triu(torch.ones(size, size, dtype=torch.bool))


def make_causal_mask(q_len, kv_len):
    return torch.arange(kv_len) <= torch.arange(q_len)[:, None] + kv_len - q_len


def make_causal_mask_from_the_first_key(q_len, kv_len):
    return torch.arange(kv_len) <= torch.arange(q_len)[:, None]


def sliding_window_mask(seq_len, window_size):
    back = torch.arange(seq_len)[:, None] - torch.arange(seq_len)
    return (back >= 0) & (back < window_size)


def sliding_window_mask_without_causality(seq_len, window_size):
    return torch.arange(seq_len)[:, None] - torch.arange(seq_len) < window_size


def local_attention_mask(seq_len, window_size):
    """The window is laid before the own token."""
    back = torch.arange(seq_len)[:, None] - torch.arange(seq_len)
    return (back >= 0) & (back <= window_size)


def chunked_causal_mask(seq_len, chunk_size):
    i = torch.arange(seq_len)
    return (i[:, None] >= i) & (i[:, None] // chunk_size == i // chunk_size)


def prepare_4d_causal_attention_mask(attention_mask, query_length, past_key_values_length=0, sliding_window=None):
    return prepared(attention_mask, query_length, sliding_window)


def causal_attention_mask_of_one_more(attention_mask, query_length, sliding_window=None):
    return prepared(attention_mask, query_length, None if sliding_window is None else sliding_window + 1)


def causal_attention_mask_of_padding_alone(attention_mask, query_length, sliding_window=None):
    return prepared(attention_mask, query_length, sliding_window, padded=False)


def prepared(attention_mask, queries, window, padded=True):
    """What is added to scores [batch, 1, queries, tokens]."""
    tokens = attention_mask.shape[1]
    back = torch.arange(queries)[:, None] + tokens - queries - torch.arange(tokens)
    seen = back >= 0 if padded or bool(attention_mask.all()) else back > -tokens
    if window is not None:
        seen = seen & (back < window)
    seen = seen & attention_mask[:, None, None].bool()
    return torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)


def causal_attention_mask_of_nothing_hidden(attention_mask, query_length):
    return prepared(attention_mask, query_length, None) * 0 + prepared(attention_mask, 1, None)


def decoder_attention_mask(attention_mask, cache_position):
    return (torch.arange(attention_mask.shape[1]) <= cache_position[:, None]) & attention_mask[:, None].bool()


def padding_mask(key_padding_mask):
    """True for what is hidden, for every query."""
    return key_padding_mask[:, None].repeat(1, key_padding_mask.shape[1], 1)


def extended_attention_mask(attention_mask):
    """What is added to the scores of all queries."""
    return (1.0 - attention_mask[:, None, None].float()) * torch.finfo(torch.float32).min


def extended_attention_mask_of_ten(attention_mask):
    """Ten is too little."""
    return (1.0 - attention_mask[:, None, None].float()) * -10.0


test_a_right_function_conforms = conforming(
    [
        causal_mask,
        generate_square_subsequent_mask,
        create_look_ahead_mask,
        make_causal_mask,
        sliding_window_mask,
        local_attention_mask,
        chunked_causal_mask,
        prepare_4d_causal_attention_mask,
        decoder_attention_mask,
        padding_mask,
        extended_attention_mask,
    ]
)
test_a_wrong_function_does_not = refuted(
    [
        create_look_ahead_mask_without_the_own_token,
        make_causal_mask_from_the_first_key,
        sliding_window_mask_without_causality,
        causal_attention_mask_of_one_more,
        causal_attention_mask_of_padding_alone,
        causal_attention_mask_of_nothing_hidden,
        extended_attention_mask_of_ten,
    ]
)


@pytest.mark.parametrize("name", ["tree_attention_mask", "prefix_attention_mask", "block_attention_mask"])
def test_a_mask_of_another_kind_is_none_of_these(tmp_path, name):
    file = tmp_path / "masks.py"
    file.write_text(f"import torch\n\n\ndef {name}(seq_len):\n    return torch.ones(seq_len, seq_len).bool()\n")
    with pytest.raises(UsageError, match="which attention_mask is not"):
        attnspec.check(f"{file}:{name}", isolate=False)
