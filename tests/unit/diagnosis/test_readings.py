"""An input may be taken for its first item, for another order of its axes, or for no more than so many of them."""

import numpy as np
import pytest

from attnspec.diagnosis.readings import axes_of, readings, writings
from attnspec.language.expressions import Expression
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library

ATTENTION = library()["attention"]
SCOPE = next(iter(ATTENTION.definition.values())).scope
MASK = np.arange(12).reshape(1, 2, 2, 3) % 5 > 0


def read(says, **given):
    """What is read in place of an input, of a call of ones that are as large as those that are given."""
    one = next(one for one in readings(ATTENTION) if one.says == says)
    q, k = np.ones((1, 2, 2, 1)), np.ones((1, 2, 3, 1))
    frame = Frame(ATTENTION, {"q": q, "k": k, "v": k, **given}, changes={one.name: Expression(one.text, SCOPE)})
    return frame[one.name]


def test_the_axes_of_an_input_are_known_though_some_may_be_one():
    assert ["batch", "heads", "q_len", "k_len"] == axes_of(ATTENTION, "mask")
    assert ["batch", "kv_heads", "k_len", "head_dim"] == axes_of(ATTENTION, "k")
    assert ["heads"] == axes_of(ATTENTION, "sink")
    assert ["batch", "length"] == axes_of(library()["rotary_pair"], "positions")


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ("mask at the first of heads", np.repeat(MASK[:, :1], 2, 1)),
        ("mask at the next of heads", MASK[:, ::-1]),
        ("mask with k_len in reverse", MASK[..., ::-1]),
        ("mask read as if q_len came before heads", MASK.swapaxes(1, 2)),
        ("mask transposed", MASK),
    ],
)
def test_what_is_read_in_place_of_a_mask(says, expected):
    assert expected.tolist() == read(says, mask=MASK).tolist()


def test_the_first_may_stand_for_all_in_some_items_alone():
    q, k = np.ones((2, 1, 1, 1)), np.arange(6.0).reshape(2, 1, 3, 1)
    first, others = (f"k at the first of k_len for {which} of batch" for which in ("the first", "all but the first"))
    assert [[0, 0, 0], [3, 4, 5]] == read(first, q=q, k=k, v=k)[:, 0, :, 0].tolist()
    assert [[0, 1, 2], [3, 3, 3]] == read(others, q=q, k=k, v=k)[:, 0, :, 0].tolist()


def test_memory_may_be_read_in_steps_that_are_one_entry_off():
    q, k = np.ones((1, 1, 1, 2)), np.arange(1.0, 7.0).reshape(1, 1, 3, 2)
    further, nearer = (f"k one entry {which} at each of k_len" for which in ("further", "less far"))
    assert [[1, 2], [4, 5], [0, 0]] == read(further, q=q, k=k, v=k)[0, 0].tolist()
    assert [[1, 2], [2, 3], [3, 4]] == read(nearer, q=q, k=k, v=k)[0, 0].tolist()


def test_beyond_so_many_a_mask_hides_nothing_and_keys_are_zero():
    q, k, mask = np.ones((1, 1, 1, 1)), np.ones((1, 1, 20, 1)), np.zeros((1, 1, 1, 20), bool)
    assert 4 == read("mask up to 16 of k_len", q=q, k=k, v=k, mask=mask).sum()
    assert 16 == read("k up to 16 of k_len", q=q, k=k, v=k).sum()


def test_an_optional_input_that_is_left_out_stays_so():
    assert read("mask at the first of heads") is True


def written(says, operator="attention", **given):
    """What is written in place of an output, of a call that is given."""
    m = library()[operator]
    one = next(one for one in writings(m) if one.says == says)
    frame = Frame(m, given, changes={one.name: Expression(one.text, next(iter(m.definition.values())).scope)})
    return frame[one.name]


def test_what_is_written_in_place_of_an_output():
    x, weight = np.array([[3.0, 4.0], [4.0, -3.0], [1.0, 1.0]]), np.ones(2)
    right = Frame(library()["rms_norm"], {"x": x, "weight": weight})["out"]
    for says, expected in {
        "out at the next of rows": right[[1, 2, 0]],
        "out at the one before of rows": right[[0, 0, 1]],
        "out added up along rows": np.cumsum(right, 0),
        "out laid out with n before rows": right.T.reshape(3, 2),
    }.items():
        assert expected.tolist() == written(says, "rms_norm", x=x, weight=weight).tolist()


def test_heads_may_be_counted_through_all_groups_first():
    q, k = np.arange(4.0).reshape(1, 4, 1, 1), np.ones((1, 2, 1, 1))
    right = Frame(ATTENTION, {"q": q, "k": k, "v": k})["lse"].ravel()
    assert [0.0, 1.0, 2.0, 3.0] == right.tolist()
    found = written("lse with the first heads of each group in front", q=q, k=k, v=k)
    assert [0.0, 2.0, 1.0, 3.0] == found.ravel().tolist()
