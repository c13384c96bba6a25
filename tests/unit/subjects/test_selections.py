"""Parameters that have entries of one input, and its gradient by theirs."""

import numpy as np
import pytest

from attnspec.mechanisms.signatures import Passed
from attnspec.subjects.selections import gathered, selected_from

INPUTS = frozenset({"x", "w", "mask"})


@pytest.mark.parametrize(
    ("text", "array"),
    [
        ("x[..., :size(x) // 2]", "x"),
        ("transpose(w)", "w"),
        ("permute(x[..., 0], 0, 2, 1)", "x"),
        ("concat(x, full(0.0, 1, n), axis = 0)", "x"),
        ("concat(0 * range(1), x)", "x"),
        ("x", ""),  # which is the input itself
        ("2 * x", ""),
        ("concat(2 * x, x)", ""),
        ("concat(x, w)", ""),
        ("where(mask, x, 0)", ""),
        ("cumsum(x)", ""),
        ("range(n)", ""),
        ("x[0] if n == none else x", ""),
    ],
)
def test_entries_of_one_input_are_known_by_an_expression_that_computes_nothing(text, array):
    assert array == selected_from(Passed("array", (text,)), INPUTS)


def test_numbers_of_a_tuple_are_no_entries():
    assert "" == selected_from(Passed("tuple", ("x[0]", "x[1]")), INPUTS)


def test_a_gradient_goes_back_to_where_entries_come_from():
    halves = gathered(np.array([[10.0, 20.0]]), (1, 4), lambda x: x[:, 2:])
    assert [[0, 0, 10, 20]] == halves.tolist()
    turned = gathered(np.arange(6.0).reshape(3, 2), (2, 3), np.transpose)
    assert [[0, 2, 4], [1, 3, 5]] == turned.tolist()
    longer = gathered(np.array([1.0, 2.0, 7.0]), (2,), lambda x: np.append(x, 5.0))
    assert [1, 2] == longer.tolist()  # what is constant has none


def test_an_entry_that_is_passed_twice_has_both_gradients():
    assert [3] == gathered(np.array([1.0, 2.0]), (1,), lambda x: np.repeat(x, 2)).tolist()


def test_a_gradient_of_another_shape_is_told():
    with pytest.raises(ValueError, match=r"has the shape \[3\], not \[2\]"):
        gathered(np.zeros(3), (2,), lambda x: x)
