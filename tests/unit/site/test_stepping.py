"""Worked examples, line by line."""

import numpy as np
import pytest

from attnspec.mechanisms.loader import library
from attnspec.site import stepping
from attnspec.site.stepping import shown, walks


def test_an_example_is_stepped_through_in_the_order_in_which_lines_are_needed():
    first = next(walks(library()["softmax"]))
    assert ("three", (("x", "[[0.0, 1.0, 2.0]]"),)) == (first.name, first.given)
    assert {"some", "terms", "total", "p"} == {step.name for step in first.steps}
    last = first.steps[-1]
    assert ("p", "1 × 3", "[[0.090031, 0.244728, 0.665241]]") == (last.name, last.shape, last.value)


@pytest.mark.parametrize("name", ["softmax", "attention", "rotary"])
def test_what_a_line_comes_to_is_known_before_it_is_read(name):
    m = library()[name]
    for walk in walks(m):
        places = {step.name: at for at, step in enumerate(walk.steps)}
        late = [s.name for s in walk.steps for read in s.reads if places.get(read, -1) >= places[s.name]]
        assert [] == late


@pytest.mark.parametrize("name", ["attention", "rotary", "rms_norm"])
def test_an_example_ends_with_what_the_specification_prints(name):
    m = library()[name]
    for walk in walks(m):
        assert [output for output, _ in walk.gives] == list(m.examples[walk.name].gives)


@pytest.mark.parametrize(
    ("x", "text"),
    [(True, "true"), (None, "none"), (0.1 + 0.2, "0.3"), (7, "7"), (np.array([1.0, 0.5]), "[1. , 0.5]")],
)
def test_values_are_written_as_in_a_specification(x, text):
    assert text == shown(x)


def test_of_a_large_array_the_range_is_told(monkeypatch):
    monkeypatch.setattr(stepping, "ENTRIES", 2)
    assert "3 entries, from 1 to 3" == shown(np.array([1.0, 2.0, 3.0]))
