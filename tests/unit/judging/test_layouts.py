"""The layout that a function reads is found before anything is judged, and a right function is asked once."""

from functools import partial

import pytest

from attnspec.adapters import Adapter
from attnspec.judging.announced import layout_told
from attnspec.judging.fits import CASES
from attnspec.judging.layouts import lay_out, right_answers
from attnspec.judging.possible_layouts import candidates, narrow
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject, undecorated

ATTENTION = library()["attention"]


def right(q, k, v):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    return scores.softmax(-1) @ v


def unscaled(q, k, v):
    return (q @ k.mT).softmax(-1) @ v


def of_one_length(q, k, v):
    if q.shape != k.shape or q.shape != v.shape:
        raise ValueError("one shape")
    return right(q, k, v)


def refusing(q, k, v):
    raise ValueError("never")


def mean(q, k, v):
    return 0 * q


def reading(function, there=(), back=()):
    """A kernel that reads its arrays with their axes in another order."""

    def kernel(q, k, v):
        kernel.calls += 1
        if not there:
            return function(q, k, v)
        return function(*(x.permute(there) for x in (q, k, v))).permute(back)

    kernel.calls = 0
    return kernel


def laid_out(kernel, layout="", operator=ATTENTION):
    one = subject(Adapter("mine", operator.name, kernel, "torch", layout=layout))
    lay_out(one, operator, "float32", "cpu")
    return one


@pytest.mark.parametrize("function", [right, unscaled, of_one_length])
@pytest.mark.parametrize(
    ("layout", "there", "back"),
    [
        ("bshd", (0, 2, 1, 3), (0, 2, 1, 3)),
        ("sbhd", (1, 2, 0, 3), (2, 0, 1, 3)),
        ("bhsd_bshd", (0, 1, 2, 3), (0, 2, 1, 3)),
    ],
)
def test_the_layout_that_is_read_is_found(function, layout, there, back):
    one = laid_out(reading(function, there, back))
    words = {
        "bshd": "[batch, length, heads, dim]",
        "sbhd": "[length, batch, heads, dim]",
        "bhsd_bshd": "[batch, heads, length, dim] and returns [batch, length, heads, dim]",
    }[layout]
    assert f'mine reads {words}: declare layout = "{layout}"' == layout_told(one)


def test_results_that_are_not_turned_back_are_in_no_layout():
    one = laid_out(reading(right, (0, 2, 1, 3), (0, 1, 2, 3)))  # they have a shape by equal lengths alone
    assert ("", "bhsd") == (layout_told(one), one.form.layout.name)


@pytest.mark.parametrize("function", [right, unscaled, of_one_length, refusing, mean])
def test_what_reads_the_layout_of_the_operator_is_left_in_it(function):
    one = laid_out(reading(function))
    assert ("", "bhsd") == (layout_told(one), one.form.layout.name)


def test_a_right_function_is_asked_once():
    kernel = reading(right)
    laid_out(kernel)
    assert 1 == kernel.calls


def test_a_declared_layout_is_not_looked_into():
    kernel = reading(right, (0, 2, 1, 3), (0, 2, 1, 3))
    one = laid_out(kernel, "bshd")
    assert ("", "bshd", 0) == (layout_told(one), one.form.layout.name, kernel.calls)


def test_what_no_layout_tells_apart_is_in_that_of_the_operator():
    rotary = library()["rotary"]

    def still(x, positions):
        return x  # as wrong in every layout

    assert "" == layout_told(laid_out(still, operator=rotary))


def folded(q, k, v, num_heads, scale=1.0):
    q, k, v = (x.reshape(*x.shape[:2], num_heads, -1).transpose(1, 2) for x in (q, k, v))
    return (right(scale * q, k, v)).transpose(1, 2).flatten(-2)


def test_who_is_told_the_heads_alone_has_as_many_of_keys_in_folded_axes():
    one = subject(undecorated(folded, "folded", "attention", "torch"), declared=False)
    lay_out(one, ATTENTION, "float32", "cpu")
    assert ("bsd", True) == (one.form.layout.name, one.observed_layout)
    assert "heads == kv_heads" in one.adapter.requires


def test_a_wrong_function_is_in_the_folded_layout_in_which_alone_it_gives_results():
    one = subject(undecorated(partial(folded, scale=2.0), "folded", "attention", "torch"), declared=False)
    lay_out(one, ATTENTION, "float32", "cpu")
    assert "bsd" == one.form.layout.name
    one = subject(undecorated(refusing, "refusing", "attention", "torch"), declared=False)
    lay_out(one, ATTENTION, "float32", "cpu")
    assert "bhsd" == one.form.layout.name


def test_a_layout_is_found_once():
    kernel = reading(unscaled, (0, 2, 1, 3), (0, 2, 1, 3))
    one = laid_out(kernel)
    calls = kernel.calls
    lay_out(one, ATTENTION, "float32", "cpu")
    assert calls == kernel.calls


@pytest.mark.parametrize("function", [unscaled, refusing])
def test_conventions_cost_no_calls(function):
    kernel = reading(function)
    one = subject(Adapter("mine", "attention", kernel, "torch"))
    right_answers(one, ATTENTION, "float32", "cpu", ())
    assert kernel.calls <= CASES * len([ATTENTION, *candidates(ATTENTION), *narrow(ATTENTION, one.form)])


def grouped(query, key, value, h_q, h_kv, shared=0):
    """Groups along the first axis, which are heads where there is one item."""
    key, value = (x.repeat_interleave(h_q // h_kv, shared) for x in (key, value))
    return right(query, key, value)


@pytest.mark.parametrize(("shared", "layout"), [(0, "hsd"), (1, "bhsd"), (-1, "bhsd")])
def test_who_is_told_the_heads_of_keys_is_seen_on_grouped_heads(shared, layout):
    one = subject(undecorated(partial(grouped, shared=shared), "grouped", "attention", "torch"), declared=False)
    lay_out(one, ATTENTION, "float32", "cpu")
    assert layout == one.form.layout.name
