"""How implementations stand, as rows that are filtered."""

import pytest

from attnspec.reporting.baseline import Group, State, Verdict
from attnspec.site.history import Run
from attnspec.site.tables import Failing, framework_of, rows, verdict_of

RUN = Run("smoke", "2026-01-01", State("0.1.0", "smoke", 0, {}))


@pytest.mark.parametrize(
    ("laws", "expected"),
    [
        ([], "not_tested"),
        ([Verdict("pass")], "pass"),
        ([Verdict("pass"), Verdict("fail", level="should")], "should"),
        ([Verdict("waived"), Verdict("fail", level="should")], "waived"),
        ([Verdict("fail", finding="known")], "known"),
        ([Verdict("fail", finding="known"), Verdict("error")], "fail"),
        ([Verdict("internal")], "fail"),
    ],
)
def test_the_worst_verdict_is_drawn(laws, expected):
    assert expected == verdict_of(dict(enumerate(laws)))


def test_a_row_has_what_holds_and_what_fails():
    laws = {
        "definition": Verdict("fail", None, finding="torch-causal-scale"),
        "sums": Verdict("error", level="should"),
        "share": Verdict("pass", 0.25),
        "ratio": Verdict("pass", 0.5),
    }
    groups = {
        ("torch_softmax", "softmax", "float32", "cpu"): (RUN, Group("0", "fp32", {}, laws)),
        ("torch_softmax", "softmax", "float64", "cpu"): (RUN, Group("0")),
    }
    (row,) = rows(groups)
    assert ("torch", "2026-01-01", "known", "2/4", "0.50", "fp32") == (
        row.framework,
        row.day,
        row.verdict,
        row.text,
        row.worst,
        row.grade,
    )
    assert (
        Failing(("definition",), "fails", "torch-causal-scale"),
        Failing(("sums",), "raises, and should hold", ""),
    ) == row.failing


def test_laws_that_fail_alike_stand_together():
    known = Verdict("fail", None, finding="torch-causal-scale")
    laws = {"definition": known, "sums": Verdict("fail", None), "share": known}
    (row,) = rows({("torch_softmax", "softmax", "float32", "cpu"): (RUN, Group("0", "fp32", {}, laws))})
    assert (
        Failing(("definition", "share"), "fail", "torch-causal-scale"),
        Failing(("sums",), "fails", ""),
    ) == row.failing


def test_what_does_not_come_along_has_no_package():
    assert ("", "torch") == (framework_of("kernel"), framework_of("torch_softmax@/env/bin/python"))
