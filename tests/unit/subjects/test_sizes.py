"""Parameters that are told a size are known by their names, and by one letter where a function asks for that alone."""

import pytest

from attnspec.mechanisms.loader import library
from attnspec.subjects.sizes import NAMES, size_named

ATTENTION = ("batch", "kv_heads", "heads", "q_len", "k_len", "head_dim", "value_dim")


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("num_heads", "heads"),
        ("n_kv_heads", "kv_heads"),
        ("seqlen_k", "k_len"),
        ("d_v", "value_dim"),
        ("h_q", "heads"),
        ("nkvhead", "kv_heads"),
        ("n_rep", "heads // kv_heads"),
        ("num_queries_per_kv", "heads // kv_heads"),
        ("d_model", "heads * head_dim"),
        ("eps", ""),
    ],
)
def test_a_size_is_known_by_its_names(name, size):
    assert (size, "") == size_named(name, ATTENTION, (), letters=False)


def test_a_letter_means_a_size_where_letters_do():
    assert [("head_dim", ""), ("", "")] == [size_named("D", ATTENTION, (), letters=each) for each in (True, False)]


def test_a_length_is_one_unless_another_parameter_is_told_one():
    assert ("q_len", "k_len == q_len") == size_named("seq_len", ATTENTION, ("batch_size",), letters=False)
    assert ("q_len", "") == size_named("seq_len", ATTENTION, ("seqlen_k",), letters=False)
    assert ("k_len", "") == size_named("N", ATTENTION, ("M",), letters=True)
    assert ("length", "") == size_named("seq_len", ("batch", "length"), (), letters=False)


def test_an_operator_without_a_size_is_told_none():
    assert ("", "") == size_named("num_heads", ("rows", "n"), (), letters=False)


def test_rows_and_entries_are_counted_and_letters_are_those_of_matrices():
    assert [("rows", ""), ("n", "")] == [size_named(name, ("rows", "n"), (), letters=False) for name in ROWS]
    assert ("entries", "") == size_named("n_elements", (), (), letters=False)
    assert ["rows", "n"] == [size_named(name, ("rows", "n"), ("D",), letters=True)[0] for name in ("N", "D")]
    assert ["rows", "n"] == [size_named(name, ("rows", "n"), ("C",), letters=True)[0] for name in ("N", "C")]
    assert ["length", "dim"] == [size_named(name, ("length", "dim"), ("D",), letters=True)[0] for name in ("M", "D")]
    matrices = ("rows", "n", "outs")
    assert ["rows", "outs", "n"] == [size_named(name, matrices, (), letters=True)[0] for name in "MNK"]


ROWS = ("n_rows", "n_cols")


@pytest.mark.parametrize("name", library().stating)
def test_no_name_means_two_sizes_of_one_operator(name):
    sizes = {*library()[name].sizes} & {*NAMES}
    sizes -= {"dim"} if "head_dim" in sizes else set()  # which comes before
    names = [name for size in sizes for name in NAMES[size].split()]
    assert len({*names}) == len(names)
