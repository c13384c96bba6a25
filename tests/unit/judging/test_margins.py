"""How much room is left."""

import numpy as np

from attnspec.judging.margins import PLACES, CaseMargin, Margin, Margins, largest_score, margin_of
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.numerics.comparing import Comparison


def compared(units, radius=1.0):
    return Comparison(None, None, radius, np.array(units))


def margin(worst=0.5, row=0):
    return Margin(np.ones(PLACES, np.int64), worst, row, 4)


def test_errors_are_counted_by_quarters_of_a_power_of_ten():
    counts = margin_of([compared([0.0, 0.0, 1.0, 0.5, 0.57, 1e-9, 1e-4, 2e-4])]).counts
    assert {0: 2, 1: 2, 2: 0, 3: 0} == {place: counts[place] for place in range(4)} | {2: counts[2] - 1, 3: counts[3]}
    assert (2, 1) == (counts[-1], counts[-2])


def test_what_is_beyond_its_bound_is_not_counted_among_what_is_within():
    assert 1 == margin_of([compared([0.3, 7.0])]).counts.sum()


def test_the_largest_error_is_told_with_its_row():
    found = margin_of([compared([[0.1, 0.2], [0.1, 0.9]]), compared([[0.5]])])
    assert (0.9, 1, 2) == (found.worst, found.row, found.rows)


def test_comparisons_without_a_bound_have_no_margin():
    assert None is margin_of([compared([0.0], radius=0.0)])


def test_of_each_length_the_worst_case_is_kept():
    found = Margins()
    for worst, label in ((0.2, "first"), (0.7, "second"), (0.4, "third")):
        found.add(margin(worst, row=1), label, {"k_len": 8, "q_len": 3, "heads": 99})
    assert {8: CaseMargin("second", 8, 0.7, 1, 4, 0.0)} == found.by_length
    assert [3] * PLACES == found.counts.tolist()


def test_a_case_without_a_length_is_counted_alone():
    found = Margins()
    found.add(margin(), "plain", {"n": 8})
    assert ({}, PLACES) == (found.by_length, found.counts.sum())


def test_an_input_that_is_called_like_a_size_is_none():
    found = Margins()
    found.add(margin(), "case", {"length": np.array([3, 5]), "q_len": 7})
    assert [7] == [*found.by_length]


def test_of_each_size_of_scores_the_worst_case_is_kept():
    found = Margins()
    for worst, label, score in ((0.2, "small", 1.1), (0.3, "as small", 0.9), (0.1, "large", 70.0), (0.9, "none", 0.0)):
        found.add(margin(worst), label, {}, score)
    assert {0: "as small", 6: "large"} == {power: case.case for power, case in found.by_score.items()}
    assert ["as small", "large"] == [case.case for case in found.cases]


def test_the_largest_score_is_that_of_a_key_that_is_seen():
    q, k = np.array([[[[1.0]]]]), np.array([[[[-3.0], [2.0], [9.0]]]])
    inputs = {"q": q, "k": k, "v": k, "causal": True, "scale": 2.0, "causal_alignment": "top_left"}
    assert 6.0 == largest_score(Frame(library()["attention"], inputs))
    assert 0.0 == largest_score(Frame(library()["softmax"], {"x": np.zeros(3)}))
