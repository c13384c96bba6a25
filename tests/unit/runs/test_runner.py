"""Groups are run once each, and their first failure is told before it is explained."""

import pytest

from attnspec.runs import runner as module
from attnspec.runs.explaining import Explainer
from attnspec.runs.groups import groups
from attnspec.runs.options import Options
from attnspec.runs.runner import Runner


def test_a_failure_is_announced_before_it_is_explained(monkeypatch):
    (group,) = (g for g in groups(Options(("mistake:softmax.unnormalised",), dtypes=("float32",))))
    told = []
    runner = Runner(Options(), announce=lambda cell: told.append(cell.law))
    monkeypatch.setattr(Explainer, "explained", lambda *_: told.append("explained") or {})
    runner.cells(group)
    assert (2, "explained") == (len(told), told[1])


def test_a_group_is_run_once_and_a_fault_of_attnspec_costs_its_cells(monkeypatch):
    (group,) = (g for g in groups(Options(("mistake:softmax.unnormalised",), dtypes=("float32",))))
    runs, runner = [], Runner(Options())
    monkeypatch.setattr(module, "run", lambda request: runs.append(request) or 1 / 0)
    assert {"internal"} == {cell["verdict"] for cell in runner.cells(group)}
    assert [*group.laws] == [cell["law"] for cell in runner.cells(group)]
    assert 1 == len(runs)


@pytest.mark.parametrize(("fail_on", "expected"), [("must", [True, False, False]), ("should", [True, True, False])])
def test_a_failure_counts_at_the_level_that_is_asked_for(fail_on, expected):
    counts = Runner(Options(fail_on=fail_on)).counts
    assert expected == [counts("must"), counts("should"), counts("must", "a note")]


def test_a_known_finding_excuses_its_failure_where_what_is_new_fails():
    cell = {"finding": "torch_nan_rows"}
    assert ["", "torch_nan_rows"] == [Runner(Options(fail_on=asked)).excuses(cell) for asked in ("must", "new")]
