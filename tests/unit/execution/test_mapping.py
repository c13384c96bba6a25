"""What a text of `weights=` means."""

import numpy as np
import pytest

from attnspec.execution.mapping import MappingError, read

SIZES = {"dim": 4, "heads": 2, "kv_dim": 2, "kv_heads": None}


def held(text, shape, **sizes):
    """The entries of a parameter that counts from 0, as the weight has them."""
    return read(text).entries(shape, {**SIZES, **sizes}).tolist()


def test_a_path_alone_is_the_whole_parameter():
    assert [[0, 1, 2], [3, 4, 5]] == held("proj.weight", (2, 3))
    assert "proj.weight" == read(" proj.weight ").path


def test_t_exchanges_the_last_two_axes():
    assert [[0, 3], [1, 4], [2, 5]] == held("proj.weight.T", (2, 3))
    assert "proj.weight" == read("proj.weight.T").path


def test_sections_are_equal_parts_of_an_axis():
    assert [[2, 3]] == held("qkv[1/3]", (3, 2))
    assert [[1], [4]] == held("qkv[:, 1/3]", (2, 3))
    assert [[2], [3]] == held("qkv[1/3].T", (3, 2))


def test_slices_are_in_sizes_of_the_case():
    assert [4, 5] == held("qkv[dim:dim + kv_dim]", (8,))
    assert [6, 7] == held("qkv[dim + kv_dim:]", (8,))
    assert [0] == held("qkv[:dim // 4]", (8,))


def test_an_index_drops_its_axis():
    assert [2, 3] == held("pair[1]", (2, 2))


def test_a_pattern_splits_and_merges_axes():
    pytest.importorskip("einops")
    assert [[0, 1, 2, 3]] == held("kernel | i heads d -> i (heads d)", (1, 2, 2))
    assert [[0, 2, 1, 3]] == held("kernel | i (heads d) -> i (d heads)", (1, 4))
    assert [[2], [3], [8], [9]] == held("qkv | (heads 3 d) i -> 3 (heads d) i [1]", (12, 1))


def test_a_number_may_have_been_taken_from_a_parameter():
    assert (1.0, "norm.weight") == (read("1 + norm.weight").plus, read("1 + norm.weight").path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "'' does not start with the path of a parameter; expected a path, then .T, [slices] or | a pattern"),
        ("w[", "'w[' cannot be parsed from '[' on; expected a path, then .T, [slices] or | a pattern"),
        ("w * 2", "'w * 2' cannot be parsed from '* 2' on; expected a path, then .T, [slices] or | a pattern"),
        ("w[::2]", "'w[::2]': a slice has no step"),
        ("w[f(1)]", "'w[f(1)]': f(1) is not a number, a size, or a sum or product of these"),
        ("w[1 +]", "'w[1 +]': [1 +] is not an index; expected 0/3, dim:2 * dim or 0"),
        ("w | a b", "'w | a b': a pattern is written as 'dim heads d -> dim (heads d)'"),
    ],
)
def test_what_means_nothing_is_told_with_its_place(text, says):
    with pytest.raises(MappingError) as error:
        read(text)
    assert says == str(error.value)


@pytest.mark.parametrize(
    ("text", "shape", "says"),
    [
        ("w[0/3]", (4,), "'w[0/3]': section 0/3 of an axis of 4"),
        ("w[3/3]", (3,), "'w[3/3]': section 3/3 of an axis of 3"),
        ("w[:dim]", (3,), "'w[:dim]': :dim goes to 4 of an axis of 3"),
        ("w[5]", (3,), "'w[5]': [5] lies beyond [3]"),
        ("w[0, 0]", (3,), "'w[0, 0]': [0, 0] has 2 axes, and there are 1"),
        ("w.T", (3,), "'w.T': .T exchanges the last two axes, and there is one"),
        (
            "w[:dims]",
            (3,),
            "'w[:dims]': 'dims' is not a size of this case; did you mean 'dim'? (known: dim, heads, kv_dim)",
        ),
        (
            "w[:kv_heads]",
            (3,),
            "'w[:kv_heads]': 'kv_heads' is None in this case; did you mean 'heads'? (known: dim, heads, kv_dim)",
        ),
    ],
)
def test_what_does_not_fit_a_parameter_is_told_with_its_shape(text, shape, says):
    with pytest.raises(MappingError) as error:
        held(text, shape)
    assert says == str(error.value)


def test_every_entry_of_a_fused_parameter_is_in_one_section():
    parts = [np.ravel(held(f"qkv[{i}/3].T", (6, 2))) for i in range(3)]
    assert [*range(12)] == sorted(np.concatenate(parts).tolist())
