"""The runs that a site is made of."""

from pathlib import Path

import pytest

from attnspec.errors import UsageError
from attnspec.reporting.baseline import Group, State, Verdict, written
from attnspec.reporting.results import Results
from attnspec.site.history import followers, latest, runs_of

KEY = ("kernel", "softmax", "float32", "cpu")
CELL = {
    "kind": "cell",
    "subject": "kernel",
    "operator": "softmax",
    "mechanism": "softmax",
    "law": "definition",
    "level": "must",
    "dtype": "float32",
    "device": "cpu",
    "verdict": "pass",
    "cases": 3,
    "worst": 0.5,
    "says": "",
    "digest": "0",
}


def baseline(path, verdict="pass", word="zeros"):
    group = Group("0", "fp32", {"empty_row": word}, {"definition": Verdict(verdict)})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(written(State("0.1.0", "smoke", 0, {KEY: group})))


def results(folder, started):
    run = Results(folder, {"format": 1, "attnspec": "0.1.0", "profile": "quick", "seed": 0, "started": started})
    run.add(CELL)
    run.finish()


def test_files_of_a_folder_are_runs_the_latest_last(tmp_path):
    baseline(tmp_path / "a" / "2026-02-03-smoke.ndjson")
    baseline(tmp_path / "a" / "2025-12-31.ndjson")
    results(tmp_path / "b", "2026-01-05T10:00:00+0000")
    found = runs_of([tmp_path])
    expected = [("2025-12-31", "2025-12-31"), ("b", "2026-01-05"), ("2026-02-03-smoke", "2026-02-03")]
    assert expected == [(run.name, run.day) for run in found]
    assert [False, True, False] == [bool(run.lines) for run in found]


def test_runs_of_one_name_are_told_apart(tmp_path):
    for folder in ("x", "y"):
        baseline(tmp_path / folder / "smoke.ndjson")
    assert ["smoke", "smoke-2"] == [run.name for run in runs_of([tmp_path / "x", tmp_path / "y"])]


def test_a_folder_without_results_is_told(tmp_path):
    with pytest.raises(UsageError, match=r"no file in it ends in \.ndjson"):
        runs_of([tmp_path])


def test_texts_of_a_baseline_are_made_safe_to_show(tmp_path):
    baseline(tmp_path / "one.ndjson", word="\x1b[2J")
    (run,) = runs_of([tmp_path])
    assert "\x1b" not in run.state.groups[KEY].conventions["empty_row"]


def test_the_last_that_is_known_of_a_group_counts(tmp_path):
    baseline(tmp_path / "2026-01-01.ndjson", "fail")
    baseline(tmp_path / "2026-01-02.ndjson", "pass")
    run, group = latest(runs_of([tmp_path]))[KEY]
    assert ("2026-01-02", "pass") == (run.name, group.laws["definition"].verdict)


def test_who_follows_which_word_is_known_of_the_mechanisms_that_are_asked_for(tmp_path):
    baseline(tmp_path / "one.ndjson", word="nans")
    groups = latest(runs_of([Path(tmp_path)]))
    assert {"empty_row": {"nans": ["kernel"]}} == followers(groups, ["softmax"])
    assert {} == followers(groups, ["attention"])
