"""What fails in a run is told once for each fault, the weightiest first, at the line of its function."""

import pytest

from attnspec.reporting.flaws import flaws, weight_of


def cell(law, verdict="fail", subject="k", **more):
    where = {"subject": subject, "operator": "softmax", "mechanism": "softmax", "dtype": "float32", "device": "cpu"}
    found = {"level": "must", "verdict": verdict, "says": "because", "cases": 1, "worst": 0.0, "digest": "d"}
    return {"kind": "cell", **where, "law": law, **found, **more}


def lines(*cells, fail_on="must", place="kernels/own.py:12"):
    expected = {"kind": "expected", "subject": "k", "laws": []} | ({"place": place} if place else {})
    return [{"kind": "run", "fail_on": fail_on}, expected, *cells]


@pytest.mark.parametrize(
    ("verdict", "level", "fail_on", "finding", "weight"),
    [
        ("pass", "must", "must", "", None),
        ("not_tested", "must", "must", "", None),
        ("fail", "must", "must", "", "error"),
        ("error", "must", "new", "", "error"),
        ("internal", "must", "must", "", "error"),
        ("fail", "should", "must", "", "warning"),
        ("fail", "should", "should", "", "error"),
        ("fail", "must", "new", "torch-causal-scale", "note"),
        ("fail", "must", "must", "torch-causal-scale", "error"),
        ("waived", "must", "must", "", "note"),
    ],
)
def test_an_error_is_what_fails_the_run(verdict, level, fail_on, finding, weight):
    assert weight == weight_of({"verdict": verdict, "level": level, "finding": finding}, fail_on)


def test_the_weightiest_come_first_and_what_holds_does_not_come():
    found = flaws(lines(cell("a", "waived"), cell("b", level="should"), cell("c", "pass"), cell("d")), "out")
    assert [("softmax.d", "error"), ("softmax.b", "warning"), ("softmax.a", "note")] == [
        (f.law, f.weight) for f in found
    ]
    assert ["", "", "because"] == [f.waived for f in found]


def test_a_flaw_is_at_the_line_of_its_function():
    (found,) = flaws(lines(cell("a")), "out")
    assert ("kernels/own.py", 12, "k, softmax.a, float32, because") == (found.file, found.line, found.head)
    (found,) = flaws(lines(cell("a"), place=""), "out")
    assert ("", 0) == (found.file, found.line)


def test_laws_that_the_same_fault_breaks_are_not_told_again():
    witness = {"broken": ["b"], "full": False}
    found = flaws(lines(cell("a", witness=witness), cell("b"), cell("b", subject="other")), "out")
    assert [("softmax.b", "other")] == [(f.law, f.subject) for f in found]


def test_a_subject_that_was_not_tested_whole_is_a_flaw():
    line = {
        "kind": "subject",
        "subject": "k",
        "verdict": "partial",
        "reasons": ["the time limit was reached"],
        "unmet": [],
    }
    (found,) = flaws([*lines(), line], "out")
    assert ("partial", "error", "PARTIAL: k was not tested completely", 12) == (
        found.law,
        found.weight,
        found.head,
        found.line,
    )
