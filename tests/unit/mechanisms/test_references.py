"""The second witness, and which words of conventions it looks at."""

import numpy as np
import pytest

from attnspec.mechanisms.loader import library
from attnspec.mechanisms.references import Noted, answered, reference_outputs

ROW = np.array([[0.0, 1.0, 3.0]])


@pytest.mark.parametrize(
    ("look", "result"),
    [
        (lambda word: word == "zeros", True),
        (lambda word: "zeros" == word, True),
        (lambda word: word != "nans", True),
        (lambda word: word in ("nans", "zeros"), True),
        (lambda word: word in {"nans", "zeros"}, True),
        (lambda word: {"zeros": 1}[word], 1),
        (lambda word: word.rstrip("s"), "zero"),
        (lambda word: f"{word}", "zeros"),
        (lambda word: word[0], "z"),
        (bool, True),
    ],
)
def test_a_text_tells_that_it_is_looked_at(look, result):
    seen = []
    assert result == look(Noted("zeros", lambda: seen.append(1)))
    assert seen


def test_who_gets_around_that_finds_no_word():
    assert Noted("zeros", lambda: None) not in "all zeros"


def test_a_reference_tells_which_words_it_has_looked_at():
    m = library()["softmax"]
    for x, expected in ((ROW, set()), (np.full((1, 2), -np.inf), {"empty_row"})):
        outputs, asked = answered(m, {"x": x}, {"empty_row": "zeros"})
        assert expected == asked
        right = reference_outputs(m, {"x": x, "empty_row": "zeros"})
        assert right.keys() == outputs.keys()
        assert all(np.array_equal(right[name], outputs[name]) for name in right)
