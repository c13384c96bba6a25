"""Calls of known interfaces, said in terms of operators."""

from __future__ import annotations

import pytest

from attnspec.mechanisms.loader import NONE
from attnspec.mechanisms.understanding import understood
from attnspec.mechanisms.workloads import Left, Use

KNOWN = NONE.library()


def array(*shape, dtype="float32", strides=None):
    steps, n = [], 1
    for each in reversed(shape):
        steps, n = [n, *steps], n * each
    return {"shape": list(shape), "strides": list(strides or steps), "dtype": dtype}


def said(interface, **arguments):
    return understood({"interface": interface, "count": 3, "arguments": arguments}, KNOWN)


def sdpa(**more):
    q, k = array(2, 4, 5, 8), array(2, 2, 7, 8)
    return said("scaled_dot_product_attention", **{"query": q, "key": k, "value": k, "enable_gqa": True, **more})


def test_sizes_are_those_of_the_shapes():
    found = sdpa(is_causal=True)
    assert isinstance(found, Use)
    sizes = {"batch": 2, "heads": 4, "q_len": 5, "head_dim": 8, "kv_heads": 2, "k_len": 7, "value_dim": 8}
    assert (sizes, {"causal": True}, 3) == (found.sizes, found.options, found.count)


def test_a_mask_of_truths_is_a_mask_and_one_of_numbers_a_bias():
    masked, biased = sdpa(attn_mask=array(2, 1, 5, 7, dtype="bool")), sdpa(attn_mask=array(1, 1, 5, 7))
    assert isinstance(masked, Use)
    assert isinstance(biased, Use)
    assert ({"mask": (2, 1, 5, 7)}, {"bias": (1, 1, 5, 7)}) == (masked.optional, biased.optional)


def test_a_window_is_read_from_its_pair():
    q = array(1, 5, 2, 8, dtype="bfloat16")
    found = said("flash_attn_func", q=q, k=q, v=q, causal=True, window_size=[3, -1], softcap=0.0)
    assert isinstance(found, Use)
    assert ({"causal": True, "window_left": 3}, "bfloat16") == (found.options, found.dtype)


def test_running_sums_tell_how_many_items_there_are_and_the_longest_is_kept():
    q, sums = array(9, 4, 8), array(4, dtype="int32")
    more = {"max_seqlen_q": 5, "max_seqlen_k": 5, "causal": True}
    found = said("flash_attn_varlen_func", q=q, k=q, v=q, cu_seqlens_q=sums, cu_seqlens_k=sums, **more)
    assert isinstance(found, Use)
    assert (3, {"q_lens": 5, "k_lens": 5}) == (found.sizes["items"], found.most)


def test_pages_have_their_sizes():
    q, pages = array(3, 1, 4, 8), array(20, 16, 2, 8)
    table, lens = array(3, 5, dtype="int32"), array(3, dtype="int32")
    found = said(
        "flash_attn_with_kvcache", q=q, k_cache=pages, v_cache=pages, cache_seqlens=lens, block_table=table, causal=True
    )
    assert isinstance(found, Use)
    assert (3, 5, 20, 16) == tuple(found.sizes[n] for n in ("batch", "max_pages", "pages", "page_size"))


@pytest.mark.parametrize(("table", "base"), [(None, {}), (array(16, 4), {"base": 10000.0})])
def test_new_tokens_have_the_sizes_of_their_cache_and_tables_say_that_they_are_turned(table, base):
    q, k, cache, lens = array(3, 2, 4, 8), array(3, 2, 2, 8), array(5, 16, 2, 8), array(3, dtype="int32")
    rows = {"cache_seqlens": lens, "cache_batch_idx": lens, "causal": True, "rotary_interleaved": False}
    tables = {"rotary_cos": table, "rotary_sin": table}
    found = said("flash_attn_with_kvcache", q=q, k_cache=cache, v_cache=cache, k=k, v=k, **rows, **tables)
    assert isinstance(found, Use)
    assert ("appended_attention", base, {"rows": (3,)}) == (found.operator, found.options, found.optional)
    assert (3, 2, 5, 16) == tuple(found.sizes[n] for n in ("batch", "length", "cache_rows", "capacity"))


def test_strides_are_told_with_the_axes_of_the_operator():
    q = array(1, 5, 2, 8)
    found = said("flash_attn_func", q=q, k=q, v=array(1, 5, 2, 8, strides=(240, 48, 8, 1)))
    assert isinstance(found, Use)
    assert {"q": (80, 8, 16, 1), "k": (80, 8, 16, 1), "v": (240, 8, 48, 1)} == found.strides


def test_more_axes_of_a_norm_are_those_of_its_rows():
    x, w = array(2, 3, 16), array(16)
    found = said("torch_layer_norm", input=x, normalized_shape=[16], weight=w, bias=w, eps=1e-6)
    assert isinstance(found, Use)
    assert ({"rows": 6, "n": 16}, {"eps": 1e-6}) == (found.sizes, found.options)


def test_what_the_function_decides_itself_is_at_the_default():
    found = said("torch_rms_norm", input=array(3, 16), normalized_shape=[16], weight=array(16), eps=None)
    assert isinstance(found, Use)
    assert {} == found.options


def test_the_last_axis_may_be_counted_from_the_first():
    found = said("torch_softmax", input=array(2, 3, 4), dim=2)
    assert isinstance(found, Use)
    assert {"rows": 6, "n": 4} == found.sizes


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: sdpa(dropout_p=0.1), "dropout_p is 0.1. Dropout is random, and has a mechanism of its own."),
        (lambda: sdpa(query=array(4, 5, 8)), "query has 3 axes, and not 4"),
        (lambda: sdpa(key=array(2, 2, 6, 8)), "k_len is 6, and 7 in value"),
        (
            lambda: sdpa(value=array(2, 2, 7, 8, dtype="float16")),
            "arrays are of several dtypes: float32, and v of float16",
        ),
        (lambda: said("torch_softmax", input=array(2, 3, 4), dim=1), "dim is 1"),
        (lambda: said("torch_rms_norm", input=array(3, 16), normalized_shape=[16]), "weight is not passed"),
        (
            lambda: said(
                "torch_layer_norm", input=array(2, 4, 4), normalized_shape=[4, 4], weight=array(4), bias=array(4)
            ),
            "normalized_shape is [4, 4]",
        ),
    ],
)
def test_what_no_operator_has_is_left_with_the_reason(call, says):
    found = call()
    assert isinstance(found, Left)
    assert says == found.says


@pytest.mark.parametrize(("text", "options"), [("batchmean", {}), ("sum", {"reduction": "summed"})])
def test_a_text_is_the_word_of_an_option(text, options):
    x = array(4, 9)
    found = said("kl_div", input=x, target=x, reduction=text, log_target=True)
    assert isinstance(found, Use)
    assert options == found.options


def test_a_text_that_no_word_has_is_left():
    x = array(4, 9)
    assert isinstance(said("kl_div", input=x, target=x, reduction="other", log_target=True), Left)
