"""The layouts that a function may read, by the arrays and sizes that it is passed."""

from attnspec.cases.drawing import seed_of
from attnspec.cases.samples import Case, Sample
from attnspec.judging.possible_layouts import (
    candidates,
    differing_later,
    following,
    narrow,
    needed_ties,
    of_other_places,
    of_same_inputs,
    sizes_by_letter,
    tells_apart,
)
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject, undecorated

ATTENTION = library()["attention"]


def form_of(function, operator="attention"):
    return subject(undecorated(function, function.__name__, operator, "torch"), declared=False).form


def plain(q, k, v):
    return q


def packed(qkv):
    return qkv


def packed_of_heads(qkv, n_heads):
    return qkv


def pages(q, kv_cache, block_table, seq_lens):
    return q


def sample(**sizes):
    return Sample(ATTENTION, Case("attention", "layout", seed_of(0, "layout"), sizes), "float32")


def test_layouts_of_other_arrays_are_no_candidates():
    several = ["bhsd", "bshd", "bshd_lse", "sbhd", "bhsd_bshd", "bhsd_bsd"]  # results may be folded, and no input
    assert several == candidates(ATTENTION) == candidates(ATTENTION, form_of(plain))
    assert all(name.startswith("qkv") for name in candidates(ATTENTION, form_of(packed)))


def test_layouts_may_differ_in_further_outputs_alone():
    assert ["bshd_lse"] == differing_later(ATTENTION, "bshd")
    assert ["bshd"] == differing_later(ATTENTION, "bshd_lse")
    assert [] == differing_later(ATTENTION, "bhsd")


def test_layouts_may_differ_in_outputs_alone():
    assert ["bhsd_bshd", "bhsd_bsd"] == of_same_inputs(ATTENTION, "bhsd")
    assert ["bshd_lse"] == of_same_inputs(ATTENTION, "bshd")


def test_layouts_may_differ_in_where_axes_of_one_entry_are():
    norms, softmax = library()["layer_norm"], library()["softmax"]
    assert ["brhn", "rbhn"] == of_other_places(softmax, "bhrn")
    assert ["bnrw", "rnhw"] == of_other_places(norms, "bnhr")  # the channels stay where they are
    assert ["rbn"] == of_other_places(norms, "brn")
    assert [] == of_other_places(ATTENTION, "bhsd") == of_other_places(ATTENTION, "qkv")  # which is several in one


def test_folded_axes_need_a_length_that_is_told():
    alone, told = (candidates(ATTENTION, form_of(function)) for function in (packed, packed_of_heads))
    assert ["qkv_folded", "qkv_folded_bshd", "qkv_folded_heads"] == [name for name in told if name not in alone]


def test_layouts_without_an_axis_have_sizes_of_one():
    assert ["batch"] == narrow(ATTENTION, form_of(plain))["hsd"]
    assert not {"bsd", "bhsd", "bhsd_bsd", "qkv"} & narrow(ATTENTION, form_of(plain)).keys()
    assert ["page_size", "q_len"] == sorted(
        narrow(library()["paged_attention"], form_of(pages, "paged_attention"))["bhd_kv_tokens"]
    )


def test_a_size_that_is_told_is_not_one():
    def told(q, k, v, num_heads):
        return q

    assert "sd" in narrow(ATTENTION, form_of(plain))
    assert {"hsd", "rows", "bsd"} == narrow(ATTENTION, form_of(told)).keys() & {"hsd", "rows", "bsd", "sd"}


def test_sizes_tell_layouts_apart_unless_they_are_as_many_as_arrays_in_one():
    sizes = {"batch": 2, "q_len": 5, "k_len": 5, "head_dim": 7, "value_dim": 7, "scale": None}
    three, four = (sample(kv_heads=n, **sizes) for n in (3, 4))
    assert tells_apart(ATTENTION, three, form_of(plain))
    assert (False, True) == tuple(tells_apart(ATTENTION, x, form_of(packed)) for x in (three, four))
    assert tells_apart(ATTENTION, four, form_of(packed_of_heads))  # whose heads may be in turn


def test_sizes_that_follow_are_known_too():
    assert {"kv_heads": ("heads", "kv_heads")} == following(ATTENTION, {"heads"})
    assert {"heads": "kv_heads"} == needed_ties(ATTENTION, "bsd", {"heads"})
    assert "q_len" == sizes_by_letter(ATTENTION)["s"]
