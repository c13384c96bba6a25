"""What a page shows of a run."""

import runpy
from pathlib import Path

import pytest

from attnspec.mechanisms.loader import library
from attnspec.reporting import page as module
from attnspec.reporting.page import Source, page

GIVEN = runpy.run_path(str(Path(__file__).with_name("test_exhibits.py")))
CELL, WITNESS = GIVEN["CELL"], GIVEN["WITNESS"]
HEADER = {
    "kind": "run",
    "attnspec": "0.1.0",
    "profile": "quick",
    "seed": 7,
    "device": "cpu",
    "packages": {"numpy": "2.0"},
    "command": "attnspec check kernels.py",
    "started": "2026-01-01T00:00:00+0000",
    "fail_on": "must",
    "targets": ["kernels.py"],
}
END = {"kind": "end", "partial": False, "ended": "", "seconds": 2.5}
PART = {"answered": 3, "scenarios": 4, "share": 0.9, "says": "", "by_value": [], "given": []}
EVIDENCE = {"scenarios": 4, "mistakes": 5, "unclaimed": 1, "unshown": ["base_two"]}
RUN = {
    "cases": 5,
    "calls": 9,
    "seconds": 1.5,
    "grade": "fp32",
    "conventions": {},
    "coverage": PART,
    "evidence": EVIDENCE,
}


def cell(law, verdict="pass", **more):
    return {**CELL, "law": law, "verdict": verdict, "worst": 0.25, **more}


def told(verdict="conformant", subject="kernel"):
    texts = {"reasons": [], "beside": [], "unmet": []}
    return {"kind": "subject", "subject": subject, "operator": "softmax", "verdict": verdict, "cells": {}, **texts}


def shown(*cells, verdict="conformant", folder="out"):
    return page([Source([HEADER, *cells, told(verdict), END], folder)])


def test_one_subject_is_told_in_the_heading():
    found = shown(cell("a"), verdict="violated")
    assert ("kernel is not conformant.", "violated") == (found.sentence, found.verdict)


def test_several_subjects_are_counted_and_the_worst_verdict_leads():
    lines = [HEADER, cell("a"), cell("a", subject="b"), told("partial"), told("violated", "b"), END]
    found = page([Source(lines)])
    assert ("2 subjects: 1 not conformant, 1 partial.", "violated") == (found.sentence, found.verdict)
    assert ["b", "kernel"] == [subject.name for subject in found.subjects]
    assert ["s2", "s1"] == [subject.anchor for subject in found.subjects]


def test_what_is_wrong_comes_first():
    lines = [
        HEADER,
        *(told(verdict, name) for name, verdict in zip("abc", ("conformant", "violated", "partial"), strict=True)),
    ]
    assert ["b", "c", "a"] == [s.name for s in page([Source([*lines, END])]).subjects]


def test_the_matrix_counts_laws_by_mechanism_and_dtype():
    cells = [cell("a"), cell("b", "fail"), cell("c", "not_declared"), cell("a", dtype="float64")]
    (row,) = shown(*cells, cell("d", "fail", level="should", dtype="float64")).subjects[0].rows
    assert [("1/2, 1 fails", "fail"), ("1/2", "pass")] == [(spot.text, spot.kind) for spot in row.spots]


@pytest.mark.parametrize(
    ("verdict", "text"),
    [("not_declared", "not claimed"), ("not_tested", "not tested"), ("internal", "internal error")],
)
def test_a_field_with_nothing_tried_says_why(verdict, text):
    (row,) = shown(cell("a", verdict)).subjects[0].rows
    assert [(text, verdict)] == [(spot.text, spot.kind) for spot in row.spots]


def test_laws_are_listed_with_their_errors_but_for_those_that_are_not_claimed():
    cells = [cell("a"), cell("b", "fail", worst=None), cell("c", "not_declared"), cell("d", worst=0.0)]
    (row,) = shown(*cells).subjects[0].rows
    assert {"a": "holds 0.25", "b": "fails ∞", "d": "holds"} == {law: spots[0].text for law, spots in row.laws}


def test_of_very_many_cells_the_laws_are_listed_that_do_not_hold(monkeypatch):
    monkeypatch.setattr(module, "LAWS", 1)
    (row,) = shown(cell("a"), cell("b", "fail")).subjects[0].rows
    assert ["b"] == [law for law, _ in row.laws]


def test_a_formula_is_shown_where_the_specification_is_the_one_of_the_run():
    (same,) = shown(cell("a", digest=library()["softmax"].digest)).subjects[0].rows
    (other,) = shown(cell("a")).subjects[0].rows
    assert (True, "") == (same.formula.startswith("<math"), other.formula)
    assert ("Softmax", "") == (same.title, other.title)


def test_what_was_not_tested_is_told_by_reason():
    cells = [
        cell("a", "not_tested", says="the time limit was reached"),
        cell("b", "not_tested", says="the time limit was reached"),
    ]
    found = shown(*cells, cell("c", "not_declared", says="takes no mask"), cell("d", run=RUN)).subjects[0].untested
    assert [
        ("the time limit was reached", 2, (("softmax in float32", "a, b"),)),
        ("takes no mask", 1, (("softmax in float32", "c"),)),
        (
            "known mistakes that no scenario of the run can detect",
            1,
            (("softmax in float32", "base_two"),),
        ),
    ] == [(one.reason, one.count, one.what) for one in found]


def test_what_is_not_tested_of_several_dtypes_alike_is_told_once():
    cells = [cell(law, "not_tested", says="late", dtype=dtype) for dtype in ("float32", "float64") for law in "ab"]
    (found,) = shown(*cells, cell("c", "not_tested", says="late", dtype="float16")).subjects[0].untested
    assert (5, (("softmax in float32, float64", "a, b"), ("softmax in float16", "c"))) == (found.count, found.what)


def test_drawings_are_made_of_what_the_records_hold():
    found = shown(cell("a", run=RUN), cell("b", worst=0.5)).subjects[0]
    assert ["2 of 2 within their bounds"] == [one.says for one in found.spreads]
    assert ["softmax.b in float32", "softmax.a in float32"] == [bar.name for bar in found.closest]
    assert ["3 of 4 scenarios answered"] == [bar.says for bar in found.coverage]
    assert ["3 of 4 known mistakes would be detected"] == [bar.says for bar in found.noticed]
    assert ["1.5 s, 9 calls"] == [bar.says for bar in found.times]


def test_errors_of_entries_are_drawn_by_dtype_and_by_law():
    spread = [0] * 16 + [4]
    found = shown(cell("a", spread=spread), cell("b", spread=spread), cell("c")).subjects[0]
    assert ["8 entries, 100% of them beyond 0.56 × the bound"] == [one.says for one in found.rooms]
    assert [True, True, False] == [bool(spots[0].spark) for _, spots in found.rows[0].laws]


def test_of_very_many_cells_the_errors_of_each_law_are_not_drawn(monkeypatch):
    monkeypatch.setattr(module, "DRAWN", 1)
    (row,) = shown(cell("a", spread=[0, 1]), cell("b", spread=[0, 1])).subjects[0].rows
    assert ["", ""] == [spots[0].spark for _, spots in row.laws]


def test_failures_are_those_with_a_witness_first_and_the_others_in_a_line():
    lesser = {**WITNESS, "key": "other", "full": False}
    cells = [cell("a", "fail", witness=lesser), cell("b", "fail", witness=WITNESS), cell("c", "fail", says="no word")]
    found = shown(*cells, verdict="violated").subjects[0]
    assert ["q7Kd2A", "other"] == [failure.key for failure in found.failures]
    assert ("kernel   softmax.c   float32   no word",) == found.further
    assert "attnspec replay q7Kd2A --report-dir out" == found.failures[0].commands[0].text


def test_a_run_without_an_end_is_partial_and_the_page_says_so():
    named = ("subject", "operator", "mechanism", "dtype", "device")
    expected = {"kind": "expected", **{name: CELL[name] for name in named}, "laws": ["a", "b"]}
    found = page([Source([HEADER, expected, cell("a")])])
    assert ("partial", ("The run did not finish; the results so far are valid.",)) == (found.verdict, found.warnings)


def test_of_several_files_a_later_one_counts():
    first = [HEADER, cell("a", "fail"), told("violated"), END]
    second = [HEADER, cell("a"), told(), END]
    found = page([Source(first, "one"), Source(second, "two")])
    assert ("kernel is conformant, as far as it was tested.", 2) == (found.sentence, len(found.runs))


def test_the_run_is_told():
    found = dict(shown(cell("a")).runs[0])
    assert ("attnspec check kernels.py", "2.5 s") == (found["command"], found["took"])


def test_of_very_many_failures_some_are_shown_and_the_others_are_named(monkeypatch):
    monkeypatch.setattr(module, "SHOWN", 1)
    monkeypatch.setattr(module, "FEWEST", 1)
    cells = [cell(law, "fail", witness={**WITNESS, "key": law}) for law in ("a", "b", "c")]
    found = shown(*cells, verdict="violated").subjects[0]
    assert ["a"] == [failure.key for failure in found.failures]
    assert ("softmax.b   float32   case b", "softmax.c   float32   case c") == found.further


def test_of_very_many_cells_drawings_are_single_shapes(monkeypatch):
    assert not shown(cell("a"), cell("b")).brief
    monkeypatch.setattr(module, "DRAWN", 1)
    assert shown(cell("a"), cell("b")).brief


def test_of_very_many_cells_errors_are_drawn_entry_by_entry_alone(monkeypatch):
    monkeypatch.setattr(module, "LAWS", 1)
    case = {"case": "plain", "length": 8, "units": 0.5, "row": 1, "rows": 3, "score": 2.0}
    errors = [case, {**case, "length": 2}]
    own = [cell(name, worst=0.5, spread=[0] * 16 + [4], run={**RUN, "errors": errors}) for name in "abc"]
    found = shown(*own).subjects[0]
    assert ((), (), 1, 2) == (found.spreads, found.clouds, len(found.rooms), len(found.closest))
