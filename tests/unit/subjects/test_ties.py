"""Sizes that equal others in every call of a function."""

from attnspec.mechanisms.loader import library
from attnspec.subjects.forms import form_in
from attnspec.subjects.ties import single, single_sizes, tied, ties


def test_of_two_sizes_that_are_to_equal_each_other_the_first_follows():
    assert {"value_dim": "head_dim", "k_len": "q_len"} == tied(
        {"value_dim": "head_dim"}, {"head_dim": "value_dim", "k_len": "q_len"}
    )


def test_sizes_are_one_or_equal_where_a_layout_has_room():
    attention = library()["attention"]
    packed = form_in(attention, "qkv", "")
    assert {"k_len": "q_len"}.items() <= ties(attention, packed).items()
    assert {} == single(packed)
    assert ["batch"] == single_sizes(["batch == 1", "k_len == q_len"])
