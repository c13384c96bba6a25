"""A failure as a page shows it."""

import pytest

from attnspec.mechanisms.loader import library
from attnspec.reporting.exhibits import ENTRIES, MAP, edit, failure, planes

OUTCOME = {
    "found": 0.5,
    "expected": 1.0,
    "bound": 0.03125,
    "units": 16.0,
    "where": [0, 2],
    "spoiled": 1,
    "entries": 6,
    "missed": None,
}
LIKENESS = {
    "name": "softmax.base_two",
    "causes": [{"name": "softmax.base_two", "says": "Powers of two."}],
    "agreed": 20,
    "others": [],
    "by_laws": False,
    "runner_up": "",
    "differs": 0,
    "changed": [],
    "convention": "",
    "word": "",
}
CHANGED = {"line": "factor", "before": "head_dim ** -0.5", "after": "k_len ** -0.5"}
SEEN = {"words": "too much", "case": "plain", "rows": ["o+", "-."], "first": 3, "plane": "head 1"}
SEEN |= {"subject": [[0.5, 0.5]], "definition": [[1.0, 0.0]]}
FIELD = {
    "case": "plain",
    "plane": [1],
    "first": [2, 0],
    "found": [[0.5, 1.0]],
    "expected": [[1.0, 1.0]],
    "units": [[None, 0.5]],
}
WHEN = {
    "says": "wrong where n >= 3 (4 of 5 cases); right otherwise (7 of 7)",
    "where": "n >= 3",
    "wrong": 4,
    "inside": 5,
    "outside": 7,
    "tested": True,
    "right_in": [],
    "at": "",
}
LITERAL = {"dtype": "float64", "shape": [1, 3], "entries": [0.0, "-inf", 2.5]}
WITNESS = {
    "key": "q7Kd2A",
    "says": "Entries are in the ratio of their exponentials.",
    "holds": "p[..., 0] == p[..., 1]",
    "level": "must",
    "place": "spec/softmax.yaml:96:12",
    "words": {"empty_row": "zeros"},
    "declared": ["empty_row"],
    "sizes": {"rows": 1, "n": 3, "scale": None},
    "arrays": {"x": "[[0., -inf, 2.5]]"},
    "givens": {"c": "1000"},
    "case": {"literals": {"x": LITERAL}},
    "outcome": OUTCOME,
    "field": FIELD,
    "reason": "",
    "trace": "",
    "certain": True,
    "grade": "fp32",
    "from": {"label": "plain", "regime": "", "tried": 4},
    "likeness": LIKENESS,
    "nearest": None,
    "map": SEEN,
    "when": WHEN,
    "broken": ["definition", "share"],
    "unusual": {},
    "full": True,
}
CELL = {
    "kind": "cell",
    "subject": "kernel",
    "operator": "softmax",
    "mechanism": "softmax",
    "law": "ratio",
    "level": "must",
    "dtype": "float32",
    "device": "cpu",
    "verdict": "fail",
    "cases": 9,
    "worst": 16.0,
    "says": "",
    "digest": "0",
}


def shown(folder="attnspec-report", cell=(), **more):
    return failure({**WITNESS, **more}, {**CELL, **dict(cell)}, "f1", folder)


def test_a_failure_has_its_law_and_where_it_is_wrong_most():
    found = shown()
    assert ("softmax.ratio", WITNESS["says"], WITNESS["holds"]) == (found.address, found.law, found.holds)
    assert "empty_row = zeros" == found.declared
    assert {
        "entry": "[0, 2]",
        "returned": "0.5",
        "expected": "1",
        "difference": "-0.5",
        "bound": "0.03125",
        "error": "16 × the bound",
        "entries beyond": "1 of 6",
    } == dict(found.comparison)


def test_where_no_numbers_were_compared_there_is_no_comparison():
    found = shown(outcome=None, reason="ValueError: no")
    assert ((), "ValueError: no") == (found.comparison, found.result)


def test_commands_are_whole_lines_and_name_the_folder():
    found = [one.text for one in shown("a b").commands]
    assert ["replay", "repro", "waive"] == [text.split()[1] for text in found]
    assert ["q7Kd2A --report-dir 'a b'"] * 2 == [text.partition("re")[2].split(" ", 1)[1] for text in found[:2]]
    assert not any("\n" in text or "\\" in text for text in found)


def test_of_a_case_that_was_not_kept_the_page_says_why_there_is_no_command():
    found = shown("")
    assert ((), True) == (found.commands, found.untold.startswith("no case was stored"))


def test_an_input_is_shown_entry_by_entry_and_what_a_law_drew_as_text():
    x, c = shown().tensors
    assert ("x", "1 × 3", [(("0", "-inf", "2.5"),)]) == (x.name, x.shape, [plane.rows for plane in x.planes])
    assert ("c", "1000", ()) == (c.name, c.text, c.planes)


def test_a_large_input_is_shown_as_text():
    large = {"dtype": "float64", "shape": [ENTRIES + 1], "entries": [0.0] * (ENTRIES + 1)}
    found = shown(case={"literals": {"x": large}}).tensors[0]
    assert ((), WITNESS["arrays"]["x"]) == (found.planes, found.text)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ([2], [("", (("0", "1"),))]),
        ([2, 1], [("", (("0",), ("1",)))]),
        ([2, 1, 2], [("[0]", (("0", "1"),)), ("[1]", (("2", "3"),))]),
        ([1, 2, 1, 1], [("[0, 0]", (("0",),)), ("[0, 1]", (("1",),))]),
    ],
)
def test_an_array_is_tables_of_its_last_two_axes(shape, expected):
    size = 1
    for axis in shape:
        size *= axis
    assert expected == [(plane.at, plane.rows) for plane in planes(shape, list(range(size)))]


def test_a_map_has_its_queries_and_a_legend_of_the_letters_that_it_has():
    found = shown().weights
    assert [(3, ["right", "much"]), (4, ["little", "hidden"])] == [(n, [m.kind for m in row]) for n, row in found.rows]
    assert ["o", ".", "+", "-"] == [letter for letter, *_ in found.legend]
    assert "in plain, head 1" == found.at


def test_of_a_long_map_the_first_rows_are_shown():
    found = shown(map={**SEEN, "rows": ["o"] * (MAP + 2)}).weights
    assert (MAP, 2) == (len(found.rows), found.more)


def test_a_known_mistake_is_named_with_its_evidence():
    found = shown()
    assert (("softmax.base_two", "Powers of two."),) == found.causes
    assert "it matches the subject on all 20 cases where it differs from the definition" == found.evidence


def test_a_changed_line_is_shown_as_a_difference_of_words():
    found = edit(CHANGED)
    assert ["head_dim"] == [piece.text for piece in found.before if piece.kind == "changed"]
    assert ["k_len"] == [piece.text for piece in found.after if piece.kind == "changed"]
    assert ["head_dim ** -0.5", "k_len ** -0.5"] == [
        "".join(p.text for p in side) for side in (found.before, found.after)
    ]
    changed = shown(likeness={**LIKENESS, "changed": [CHANGED]})
    assert ((), 1) == (changed.causes, len(changed.edits))


def test_the_changed_line_of_a_named_mistake_is_shown_where_the_specification_is_the_one_of_the_run():
    own = failure(WITNESS, CELL, "f1", "out", library()["softmax"])
    (one,) = own.edits
    assert "exp" in "".join(piece.text for piece in one.before)
    assert ((), True) == (shown().edits, own.formula.startswith("<math"))


def test_a_failure_has_both_sides_and_the_weights_as_tables():
    found = shown()
    assert ["expected", "returned", "error over bound"] == [grid.name for grid in found.heat.grids]
    assert ["as they should be", "as they are"] == [grid.name for grid in found.weights.grids]


def test_what_comes_nearest_is_told_unless_something_is_known():
    nearest = {"name": "softmax.other", "says": "Another.", "agreed": 3, "cases": 5}
    assert "The nearest is softmax.other: Another." in shown(likeness=None, nearest=nearest).nearest
    assert "" == shown(nearest=nearest).nearest
    assert "" == shown(likeness=None, nearest=nearest, cell={"finding": "torch-x"}).nearest
