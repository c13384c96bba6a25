"""What a page draws of result lines: errors, coverage and time."""

from attnspec.reporting import drawings

LINE = {"mechanism": "softmax", "dtype": "float32"}
PART = {"answered": 3, "scenarios": 4, "share": 0.9, "says": "", "by_value": [], "given": ["causal", "scale"]}
EVIDENCE = {"scenarios": 4, "mistakes": 5, "unclaimed": 1, "unshown": ["base_two"]}


def run(**parts):
    return {**LINE, "run": {"seconds": 1.5, "calls": 9, **parts}}


def test_entries_of_all_laws_are_counted_together_dtype_by_dtype():
    cells = [{**LINE, "spread": [0, 4]}, {**LINE, "spread": [1, 2]}, LINE, {"dtype": "float16", "spread": [9, 9]}]
    assert [1, 6] == drawings.entries(cells, "float32")


def test_errors_of_cases_are_drawn_against_length_place_and_scores():
    case = {"case": "plain", "length": 8, "units": 0.5, "row": 1, "rows": 3}
    errors = [{**case, "score": 64.0}, {**case, "length": 2, "units": 0.25, "score": 1.0}, case]
    by_length, by_row, by_score = drawings.clouds([run(errors=errors)])
    assert ("float32, by length", "float32, by the place of the row") == (by_length.name, by_row.name)
    assert [980, 340, 980] == [dot.x for dot in by_length.dots]
    assert ("float32, by the largest score", ("1", "8", "64")) == (by_score.name, by_score.ticks)
    assert [980, 20] == [dot.x for dot in by_score.dots]
    assert by_score.dots[0].says.endswith("scores of up to 64")


def test_options_and_shares_are_told_by_mechanism():
    runs = [run(coverage=PART, evidence=EVIDENCE)]
    assert [("softmax", "causal, scale")] == [*drawings.given(runs)]
    assert [("softmax", 3, 4, "scenarios answered")] == [*drawings.answered(runs)]
    assert [("softmax", 3, 4, "known mistakes would be detected")] == [*drawings.noticed(runs)]


def test_times_of_a_mechanism_are_added_up():
    assert ["3.0 s, 18 calls"] == [bar.says for bar in drawings.times([run(), run()])]
