"""The definition under several words: what stays as it is is computed once, and all else is as if it were alone."""

import itertools

import numpy as np
import pytest

from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.worded import Worded, same
from attnspec.numerics.grades import FP32, FP64
from attnspec.numerics.numbers import Number
from attnspec.numerics.truths import Truth

from .test_definition import ATTENTION, arrays, samples, words_of


def bits(x):
    """All parts of an output, to the bit."""
    parts = (x.value, x.worst, x.variance, x.shared) if isinstance(x, Number) else (x,)
    return [(np.shape(part), np.asarray(part).tobytes()) for part in parts]


@pytest.mark.parametrize("name", [name for name, m in library().items() if m.conventions])
def test_lines_are_shared_by_words_that_they_do_not_ask_for(name):
    m = library()[name]
    for sample, grade in itertools.product(samples(m, 3), (None, FP64)):
        first = Worded(m, sample.values, grade=grade, dtype="float32")
        first.outputs()
        for words in words_of(m):
            own = {**m.words, **words}
            alone, other = Frame(m, {**sample.values, **own}, grade=grade, dtype="float32"), first.under(own)
            assert [*map(bits, alone.outputs().values())] == [*map(bits, other.outputs().values())]
            assert alone.turned_on <= other.turned_on


def test_a_line_that_asks_for_no_word_is_evaluated_once():
    first = Worded(ATTENTION, {**arrays(), "causal": True}, grade=FP64, dtype="float32")
    first.outputs()
    other = first.under({**ATTENTION.words, "causal_alignment": "top_left"})
    shared = {line for line in ATTENTION.definition if line in other.memo}
    assert 0 < len(shared) < len(ATTENTION.definition)
    assert not any("causal_alignment" in first.asked[line] for line in shared)


def computed(m, monkeypatch, values, words, grade=None):
    """The lines that are computed for other words, after those for the first ones."""
    first, found = Worded(m, values, grade=grade), []
    first.outputs()
    original = Frame.original
    monkeypatch.setattr(Frame, "original", lambda self, name: found.append(name) or original(self, name))
    first.under({**m.words, **words}).outputs()
    return {name for name in found if name in m.definition}


@pytest.mark.parametrize("grade", [None, FP64, FP32])
def test_lines_that_come_out_the_same_end_the_matter(monkeypatch, grade):
    ungrouped = computed(ATTENTION, monkeypatch, arrays(), {"grouping": "tiled"}, grade)
    assert {"keys", "values"} == ungrouped


def test_lines_that_read_another_value_are_computed_again(monkeypatch):
    grouped = computed(ATTENTION, monkeypatch, arrays(heads=4), {"grouping": "tiled"})
    assert {"keys", "values", "scaled", "attended"} <= grouped
    assert grouped.isdisjoint({"row", "column", "allowed", "seeing"})


NAN = float("nan")


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (1, 1, True),
        (1, True, False),
        (1.0, 1, False),
        (NAN, -NAN, True),
        (0.0, -0.0, False),
        ("two", "two", True),
        (None, None, True),
        ((1, "x"), (1, "x"), True),
        ((1, "x"), (1,), False),
        (np.array([NAN, 1.0]), np.array([NAN, 1.0]), True),
        (np.array([0.0]), np.array([-0.0]), False),
        (np.zeros((2, 2)), np.zeros((2, 2)).T, False),
        (np.zeros(2), np.zeros(2, np.float32), False),
        (np.array([object]), np.array([object]), False),
        (Number(np.ones(2), 0.5), Number(np.ones(2), 0.5), True),
        (Number(np.ones(2), 0.5), Number(np.ones(2), 0.25), False),
        (Number(np.ones(2), grade=FP32), Number(np.ones(2)), False),
        (Truth(np.array([True]), np.array([False])), Truth(np.array([True]), np.array([False])), True),
        (Truth(np.array([True]), np.array([False])), Truth(np.array([True]), np.array([True])), False),
        ({}, {}, False),
    ],
)
def test_values_are_the_same_to_the_bit(one, other, alike):
    assert alike is same(one, other) is same(other, one)
    assert same(one, one)
