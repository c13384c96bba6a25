"""How subjects stand: what their cells come to, and why that may not be the whole answer."""

import pytest

from attnspec.errors import Exit
from attnspec.reporting.findings import findings
from attnspec.reporting.standings import INTERRUPTED, UNENDED, Standing, exit_of, known, missing, standings, whole

LATE = {"ended": "the time limit was reached", "partial": True}
END = {"kind": "end", "partial": False, "ended": ""}


def cell(law="definition", verdict="pass", subject="kernel", dtype="float32", level="must", **more):
    where = {"subject": subject, "operator": "softmax", "mechanism": "softmax", "dtype": dtype, "device": "cpu"}
    return {"kind": "cell", "law": law, "verdict": verdict, "level": level, "says": "", **where, **more}


def expected(*laws, subject="kernel", dtype="float32"):
    where = {"subject": subject, "operator": "softmax", "mechanism": "softmax", "dtype": dtype, "device": "cpu"}
    return {"kind": "expected", "laws": list(laws), **where}


def stands(*lines, ended=None, **header):
    return standings([{"kind": "run", **header}, *lines, END], ended)["kernel"]


@pytest.mark.parametrize(
    ("cells", "verdict"),
    [
        ([cell()], "conformant"),
        ([cell(), cell("order", "fail")], "violated"),
        ([cell(), cell("order", "error")], "violated"),
        ([cell(), cell("order", "fail", level="should")], "conformant"),
        ([cell(), cell("order", "waived")], "waived"),
        ([cell("order", "not_tested"), cell("contract.shape")], "not_tested"),
        ([cell("order", "not_declared")], "not_tested"),
    ],
)
def test_a_subject_stands_as_its_cells_do(cells, verdict):
    assert Standing(verdict) == stands(*cells)


def test_what_only_should_hold_counts_where_it_was_asked_for():
    assert "violated" == stands(cell(), cell("order", "fail", level="should"), fail_on="should").verdict


def test_a_lost_cell_is_never_green():
    standing = stands(expected("definition", "order"), cell())
    assert "partial" == standing.verdict
    assert standing.reasons[0].startswith("1 of 2 cells is missing (softmax.order in float32): they were lost")


def test_a_lost_cell_of_one_subject_leaves_another_as_it_is():
    lines = [{"kind": "run"}, expected("definition"), expected("definition", subject="other"), cell(), END]
    assert {"kernel": "conformant", "other": "partial"} == {n: s.verdict for n, s in standings(lines).items()}


def test_what_is_violated_stays_so_and_still_says_what_is_missing():
    standing = stands(expected("definition", "order"), cell(verdict="fail"), ended=INTERRUPTED)
    assert "violated" == standing.verdict
    assert ("1 of 2 cells is missing (softmax.order in float32): the run was interrupted",) == standing.reasons


def test_of_many_missing_cells_a_few_are_named():
    standing = stands(expected(*"abcdef"), cell("a"))
    assert (
        "5 of 6 cells are missing (softmax.b in float32, softmax.c in float32, softmax.d in float32 and 2 more)"
        in (standing.reasons[0])
    )


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ([cell(run=LATE)], "the time limit was reached: not all planned cases were tried"),
        (
            [cell(run=LATE), cell("order", "not_tested", says="the time limit was reached")],
            "the time limit was reached: 1 of 2 cells were not tried, and the others had fewer cases than planned",
        ),
        (
            [cell("order", "not_tested", says="the time limit was reached", run=LATE), cell(dtype="float64")],
            "the time limit was reached: 1 of 2 cells were not tried",
        ),
    ],
)
def test_a_group_that_ended_early_makes_its_subject_partial(cells, reason):
    assert Standing("partial", (reason,)) == stands(*cells)


def test_what_attnspec_failed_on_is_partial_and_the_run_ends_as_an_internal_error():
    lines = [{"kind": "run"}, cell("order", "internal", says="ValueError: no"), cell()]
    standing = standings(lines, "")["kernel"]
    assert ("attnspec failed on 1 cell (softmax.order in float32): ValueError: no",) == standing.reasons
    assert ("partial", Exit.INTERNAL) == (standing.verdict, exit_of(lines))


def test_lines_without_an_end_tell_why_cells_are_missing():
    lines = [{"kind": "run"}, expected("definition", "order"), cell()]
    assert standings(lines)["kernel"].reasons[0].endswith(UNENDED)
    assert not whole(lines)


def test_a_run_that_expected_nothing_misses_nothing():
    assert [] == missing([{"kind": "run"}, cell()])


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (["conformant"], Exit.CONFORMANT),
        (["conformant", "waived", "not_tested"], Exit.CONFORMANT),
        (["conformant", "partial"], Exit.NOTHING_TESTED),
        (["partial", "violated"], Exit.VIOLATED),
        (["not_tested"], Exit.NOTHING_TESTED),
        ([], Exit.NOTHING_TESTED),
    ],
)
def test_a_run_ends_as_its_worst_subject_does(verdicts, code):
    assert code == exit_of([{"kind": "subject", "verdict": verdict} for verdict in verdicts])


def line(verdict="violated", reasons=(), unmet=(), **known):
    more = {"known": {"cells": {"a-b": 2}, "new": 0, "mended": [], **known}} if known is not None else {}
    return {"kind": "subject", "subject": "kernel", "verdict": verdict, "reasons": reasons, "unmet": unmet, **more}


@pytest.mark.parametrize(
    ("fail_on", "subject", "expected"),
    [
        ("must", line(), Exit.VIOLATED),
        ("new", line(), Exit.CONFORMANT),
        ("new", line(new=1), Exit.VIOLATED),
        ("new", line(unmet=["law:softmax.order"]), Exit.VIOLATED),
        ("new", line(reasons=["the time limit was reached"]), Exit.NOTHING_TESTED),
    ],
)
def test_a_run_that_fails_on_what_is_new_passes_over_what_is_known(fail_on, subject, expected):
    assert expected == exit_of([{"kind": "run", "fail_on": fail_on}, subject, END])


def test_a_violation_that_nothing_is_known_of_is_new():
    plain = {key: x for key, x in line().items() if key != "known"}
    assert Exit.VIOLATED == exit_of([{"kind": "run", "fail_on": "new"}, plain, END])


def test_violations_are_counted_by_the_findings_that_they_belong_to():
    cells = [
        cell("order", "fail", finding="a-b"),
        cell("share", "error", finding="a-b"),
        cell("shift", "fail"),
        cell("large", "fail", level="should", finding="c-d"),
    ]
    assert {"cells": {"a-b": 2}, "new": 1, "mended": []} == known(cells, strict=False)
    assert {"cells": {"a-b": 2, "c-d": 1}, "new": 1, "mended": []} == known(cells, strict=True)
    assert None is known([cell("order", "fail")], strict=False)


def test_a_finding_is_mended_where_it_is_seen_nowhere():
    passing = cell(run={"mended": ["a-b", "c-d"]})
    seen = cell("order", "fail", dtype="bfloat16", finding="c-d")
    assert {"cells": {"c-d": 1}, "new": 0, "mended": ["a-b"]} == known([passing, seen], strict=False)


def test_a_finding_is_mended_only_where_all_of_its_laws_were_run():
    (seen, *_) = next(one for one in findings() if one.id == "torch-causal-scale").seen

    def told(laws):
        places = [law.split(".", 1) for law in laws]
        cells = [cell(law, subject="torch_sdpa", mechanism=mechanism) for mechanism, law in places]
        return known([{**cells[0], "run": {"mended": ["torch-causal-scale"]}}, *cells[1:]], strict=False)

    assert ["torch-causal-scale"] == told(seen.laws)["mended"]
    assert None is told(seen.laws[1:])
