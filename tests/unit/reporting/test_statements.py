"""A subject in sentences."""

import runpy
from pathlib import Path

from attnspec.mechanisms.loader import library
from attnspec.reporting.exhibits import failure
from attnspec.reporting.statements import Untested, statements

GIVEN = runpy.run_path(str(Path(__file__).with_name("test_exhibits.py")))
CELL, WITNESS, CHANGED, LIKENESS = (GIVEN[name] for name in ("CELL", "WITNESS", "CHANGED", "LIKENESS"))
LINE = {"subject": "kernel", "operator": "softmax", "reasons": [], "unmet": [], "beside": []}
RUN = {"cases": 5, "calls": 9, "seconds": 1.5, "grade": "fp32", "conventions": {}}


def said(cells, failures=(), further=(), untested=(), **more):
    found = statements({**LINE, **more}, cells, failures, further, untested, {"softmax": library()["softmax"]})
    return {one.term: [text for text, _ in one.sentences] for one in found}


def test_a_subject_is_told_by_what_it_computes_and_claims():
    followed = {"empty_row": {"word": "zeros", "how": "declared", "agreed": 0, "cases": 0}}
    found = said([{**CELL, "verdict": "pass", "run": {**RUN, "conventions": followed, "claimed": "bf16"}}])
    assert ["An implementation of softmax (Softmax)."] == found["What it is"]
    claimed = ["1 mechanism in float32", "Conventions: empty_row = zeros", "Precision: bf16 in float32"]
    assert claimed == found["Claimed"]


def test_what_was_tried_is_counted():
    cells = [{**CELL, "verdict": "pass", "run": RUN}, CELL, {**CELL, "verdict": "not_tested"}]
    assert [
        "2 of 3 laws by dtype, on 5 cases with 9 calls, in 1.5 s",
        "1 hold, 1 fail",
        "Precision needed: fp32 in float32",
    ] == said(cells)["Tried"]


def test_what_was_not_tried_is_told_with_what_weakens_the_verdict():
    untested = [Untested("the time limit was reached", 3, "not_tested", ()), Untested("no mask", 2, "not_declared", ())]
    found = said([CELL], untested=untested, reasons=["time"], beside=["answers 1 of 2"])
    assert ["time", "answers 1 of 2", "3 not tested: the time limit was reached", "2 not claimed"] == found["Not tried"]
    assert ["Everything that was planned was tried."] == said([CELL])["Not tried"]


def test_what_is_wrong_is_told_fault_by_fault_and_what_is_known_of_it():
    shown = failure(WITNESS, CELL, "f1", "")
    found = said([CELL], [shown], ["another"])
    first = "softmax.ratio in float32: got 0.5, expected 1: the error is 16 x the bound 0.03125 (fp32)"
    assert [first, "1 more failure, below"] == found["Wrong"]
    assert [
        "It behaves like softmax.base_two: Powers of two.",
        "Wrong where n >= 3 (4 of 5 cases); right otherwise (7 of 7)",
    ] == found["Known"]


def test_a_failure_that_belongs_to_a_fault_shown_elsewhere_is_counted_only():
    lesser = failure({**WITNESS, "full": False}, CELL, "f1", "")
    assert ["1 more failure, below"] == said([CELL], [lesser])["Wrong"]


def test_a_changed_line_and_a_finding_are_known():
    witness = {**WITNESS, "likeness": {**LIKENESS, "changed": [CHANGED]}, "when": None}
    known = {"cells": {"torch-causal-scale": 1}, "new": 0, "mended": []}
    found = said([CELL], [failure(witness, CELL, "f1", "")], known=known)["Known"]
    assert "It behaves like the definition with factor changed." == found[0]
    assert "known: 1 of 1, see torch-causal-scale" == found[1]
    assert found[2].startswith("torch-causal-scale: torch 2.13.0: causal attention with a scale")


def test_of_a_subject_that_is_right_nothing_is_wrong():
    found = said([{**CELL, "verdict": "pass"}])
    assert (["Nothing that was found."], False) == (found["Wrong"], "Known" in found)
