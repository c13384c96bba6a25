"""The page that a run ends with."""

from pathlib import Path

import pytest

from attnspec.reporting.summary import page, rows

RULE = "== SUMMARY " + "=" * 89
HEADER = {
    "kind": "run",
    "attnspec": "0.1.0",
    "profile": "quick",
    "seed": 7,
    "device": "cpu",
    "packages": {"numpy": "2.0", "torch": "2.9"},
}
END = {"kind": "end", "partial": False, "seconds": 1.25}
WITNESS = {
    "key": "q7Kd2A",
    "says": "A law.",
    "holds": "",
    "place": "spec/softmax.yaml:96:12",
    "words": {},
    "declared": [],
    "sizes": {},
    "arrays": {},
    "givens": {},
    "outcome": None,
    "reason": "ValueError: no",
    "certain": True,
    "grade": "",
    "from": {"label": "plain", "regime": "", "tried": 0},
    "likeness": None,
    "broken": [],
    "unusual": {},
    "full": True,
    "trace": "Traceback of the call",
}


def cell(law, verdict="pass", **more):
    return {
        "kind": "cell",
        "subject": "kernel",
        "operator": "softmax",
        "mechanism": "softmax",
        "law": law,
        "level": "must",
        "dtype": "float32",
        "device": "cpu",
        "verdict": verdict,
        "cases": 9,
        "worst": 0.25,
        "says": "",
        **more,
    }


def subject(verdict, cells, name="kernel"):
    counts = [c["verdict"] for c in cells]
    return {"kind": "subject", "subject": name, "verdict": verdict, "cells": {v: counts.count(v) for v in counts}}


def shown(cells, verdict="conformant", end=(END,), **more):
    subjects = [subject(verdict, cells)] if cells else []
    return list(page([HEADER, *cells, *subjects, *end], **more))


def test_a_page_of_a_run_that_passes():
    run = {"cases": 39, "calls": 86, "conventions": {}, "grade": "fp32"}
    cells = [cell("ratio", worst=0.5, run=run), cell("share", worst=0.75), cell("definition", worst=None)]
    assert shown(cells) == [
        "attnspec 0.1.0   profile quick   seed 7   cpu   numpy 2.0   torch 2.9",
        "",
        "kernel                  float32",
        "  softmax               3/3",
        "",
        RULE,
        "CONFORMANT      kernel (float32)   3 cells: 3 pass",
        "  39 cases, 86 calls in 1.2 s, worst passing error 0.75 x bound (softmax.share)",
    ]


@pytest.mark.parametrize(
    ("verdict", "word"),
    [("conformant", "CONFORMANT      "), ("violated", "NOT CONFORMANT  "), ("not_tested", "NOT TESTED      ")],
)
def test_every_verdict_has_its_word(verdict, word):
    assert f"{word}kernel (float32)   1 cell: 1 pass" in shown([cell("ratio")], verdict)


@pytest.mark.parametrize(
    ("cells", "row"),
    [
        ([cell("a"), cell("b", "fail")], "1/2 x"),
        ([cell("a"), cell("b", "fail"), cell("c", "error")], "1/3 x !"),
        ([cell("a"), cell("b", "fail", level="should")], "1/2 ~"),
        ([cell("a"), cell("b", "not_tested"), cell("c", "not_declared")], "1/1"),
        ([cell("a", "not_declared"), cell("b", "not_tested")], "not declared"),
        ([cell("a", "not_tested")], "not tested"),
    ],
)
def test_a_row_counts_what_was_tried_and_marks_what_failed(cells, row):
    assert ["kernel                  float32", f"  softmax               {row}"] == list(rows("kernel", cells))


def test_the_table_has_a_column_for_every_dtype_and_a_row_for_every_mechanism():
    cells = [cell("a"), cell("a", "fail", dtype="float64"), cell("b", mechanism="alibi", dtype="float64")]
    assert list(rows("kernel", cells)) == [
        "kernel                  float32               float64",
        "  softmax               1/1                   0/1 x",
        "  alibi                 not tested            1/1",
    ]


def test_on_a_narrow_terminal_columns_stand_closer_or_below():
    cells = [cell("a", dtype=d) for d in ("float64", "float32", "bfloat16", "float16")]
    assert list(rows("kernel", cells, 80)) == [
        "kernel                  float64   float32   bfloat16  float16",
        "  softmax               1/1       1/1       1/1       1/1",
    ]
    assert list(rows("kernel", cells, 50)) == [
        "kernel                  float64   float32",
        "  softmax               1/1       1/1",
        "kernel                  bfloat16  float16",
        "  softmax               1/1       1/1",
    ]
    assert ["n" * 90, " " * 24 + "float64   float32   bfloat16  float16"] == list(rows("n" * 90, cells, 80))[:2]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(columns):
    witness = {**WITNESS, "reason": "ValueError: " + "no " * 90}
    cells = [cell(f"law_{i}", "error", witness=witness) for i in range(5)]
    cells += [cell(f"law_{i}", "not_tested", says="no case reached its condition") for i in range(9)]
    said = shown(cells, "violated", columns=columns)
    assert max(map(len, said)) <= columns
    assert min(columns, 100) == len(next(text for text in said if text.startswith("== SUMMARY")))


def test_what_a_subject_says_is_shown_escaped():
    evil = "\x1b[31m\n\ud800\u202e" + "n" * 5000
    witness = {**WITNESS, "reason": evil, "trace": evil, "subject": evil}
    cells = [cell("ratio", "error", witness=witness, says=evil, subject=evil), cell("share", "fail", says=evil)]
    lines = [{**HEADER, "packages": {evil: evil}}, *cells, subject("violated", cells, evil), END]
    said = list(page(lines, verbose=1))
    assert all(text.isprintable() for text in said)
    assert max(map(len, said)) < 2000
    assert any(r"\x1b[31m\n\ud800\u202ennn" in text for text in said)


@pytest.mark.parametrize("name", ["kernel", "n" * 90])
def test_a_subject_without_cells_is_named(name):
    assert [name] == list(rows(name, []))


def test_a_long_name_moves_the_columns():
    assert list(rows("n" * 30, [cell("a")])) == ["n" * 30 + "  float32", "  softmax" + " " * 23 + "1/1"]


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("zeros", "zeros"), ["  observed: empty_row = zeros"]),
        (("zeros", "nans"), ["  observed in float32: empty_row = zeros", "  observed in float64: empty_row = nans"]),
    ],
)
def test_observed_conventions_are_told_once_where_they_are_alike(words, lines):
    runs = [{"conventions": {"empty_row": {"word": word, "how": "observed"}}, "grade": ""} for word in words]
    cells = [cell("a", dtype=dtype, run=run) for dtype, run in zip(("float32", "float64"), runs, strict=True)]
    assert lines == [row for row in rows("kernel", cells) if row.startswith("  observed")]


def test_a_convention_that_no_word_explains_is_in_doubt():
    run = {"conventions": {"empty_row": {"word": "zeros", "how": "unexplained"}}, "grade": ""}
    assert ["  observed: empty_row = zeros?"] == list(rows("kernel", [cell("a", run=run)]))[2:]


def test_a_grade_that_stores_everything_narrow_is_told():
    run = {"conventions": {}, "grade": "bf16_naive"}
    assert "  precision: bfloat16 as bf16_naive" in rows("kernel", [cell("a", dtype="bfloat16", run=run)])


def test_failures_come_as_blocks_and_traces_when_they_are_asked_for():
    cells = [cell(f"law_{i}", "fail", witness=WITNESS) for i in range(4)]
    few, all_ = shown(cells, "violated"), shown(cells, "violated", verbose=1)
    assert (3, 4) == (sum(text.startswith("== kernel") for text in few), sum("== kernel" in text for text in all_))
    assert "kernel   softmax.law_3   float32   ValueError: no   case q7Kd2A" in few
    assert "Traceback of the call" not in few
    assert 4 == all_.count("Traceback of the call")


def test_a_violation_that_no_case_shows_is_told_in_a_line():
    cells = [
        cell("definition", "fail", witness={**WITNESS, "broken": ["share"]}),
        cell("share", "fail"),
        cell("convention.empty_row", "fail", says="observed: zeros; a gate declares it"),
        cell("shape", "fail", level="should", says="accepted"),
    ]
    told = [text for text in shown(cells, "violated") if text.startswith("kernel   softmax")]
    assert ["kernel   softmax.convention.empty_row   float32   observed: zeros; a gate declares it"] == told


def test_what_weakens_a_pass_is_said():
    idle, hung = "no case reached its condition", "stopped after 3 calls that hung"
    untested = [cell(f"law_{i}", "not_tested", says=idle) for i in range(7)]
    untested += [cell(name, "not_tested", says=hung) for name in ("share", "law_1", "share")]
    lenient = cell("no_heads", "fail", level="should")
    said = shown([cell("ratio", cases=2), cell("contract.shape", "not_tested"), lenient, *untested])
    listed = ", ".join(f"softmax.law_{i}" for i in range(5))
    assert f"  not tested ({idle}): {listed} and 2 more" in said
    assert f"  not tested ({hung}): softmax.share, softmax.law_1" in said
    assert "  weakest evidence: softmax.ratio (2 cases)" in said
    assert "  failing `should` laws (~): kernel softmax.no_heads" in said


def evidence(**more):
    found = {"scenarios": 20, "mistakes": 13, "unclaimed": 2, "unshown": [], **more}
    return {"run": {"cases": 39, "calls": 86, "conventions": {}, "grade": "fp32", "evidence": found}}


def test_what_a_run_rests_on_is_said():
    cells = [cell("ratio", **evidence()), cell("ratio", dtype="float16", **evidence(unshown=["base_two"]))]
    cells += [cell("ratio", mechanism="attention", **evidence(scenarios=30, unshown=["a", "b"]))]
    rests = "  coverage: 50 scenarios, which detect 19 of the 22 known mistakes within the claims"
    assert rests in shown(cells)


@pytest.mark.parametrize(
    "isolation", ["calls isolated in worker processes", "no isolation: calls ran in this process", ""]
)
def test_the_isolation_of_calls_is_said(isolation):
    cells = [cell("ratio")]
    said = list(page([{**HEADER, "isolation": isolation}, *cells, subject("conformant", cells), END]))
    assert [isolation] * bool(isolation) == [line.strip() for line in said if "isolat" in line]


@pytest.mark.parametrize(("targets", "named"), [(["k.py:kernel"], "k.py:kernel"), (["k.py", "l.py"], "kernel")])
def test_the_mistakes_that_a_run_may_not_have_noticed_are_its_weakest_evidence(targets, named):
    cells = [cell("ratio", cases=1, **evidence(unshown=["a"]))]
    cells += [cell("ratio", dtype="float16", **evidence(unshown=["a", "b", "c", "d", "e"]))]
    said = list(page([{**HEADER, "targets": targets}, *cells, subject("conformant", cells), END]))
    at = "  weakest evidence: softmax in float16: no scenario that ran can detect a, b, c and 2 more"
    assert f"                    'attnspec audit --for {named}' says why" == said[said.index(at) + 1]


@pytest.mark.parametrize("end", [(), ({**END, "partial": True},)])
def test_a_run_that_did_not_finish_is_partial(end):
    assert "  PARTIAL: the run did not finish; the results so far are valid" == shown([cell("ratio")], end=end)[-1]


def test_without_cells_nothing_was_tested():
    assert [RULE, "nothing was tested"] == shown([])[-2:]


def test_the_files_of_a_run_are_named_where_they_exist():
    Path("out").mkdir()
    Path("out/results.ndjson").touch()
    assert "reports  out/results.ndjson" == shown([cell("ratio")], folder="out")[-1]
    Path("out/junit.xml").touch()
    assert "reports  out/results.ndjson  out/junit.xml" == shown([cell("ratio")], folder="out")[-1]
    assert not any(text.startswith("reports") for text in shown([cell("ratio")]))
