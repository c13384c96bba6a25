"""A run that was ended leaves what it found, and another one goes on from there."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.errors import UsageError
from attnspec.reporting.results import Results, check_folder, read, resumable

KERNELS = """
import os
import numpy as np
from attnspec import adapter

def softmax(x):
    with open("calls", "a") as calls:
        calls.write(".")
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)

@adapter("softmax", framework="numpy", conventions={"empty_row": "nans"})
def first(x):
    return softmax(x)

@adapter("softmax", framework="numpy", conventions={"empty_row": "nans"})
def second(x):
    if "RUN" in os.environ:
        os.kill(int(os.environ["RUN"]), 9)
    return softmax(x)
"""
FILE = Path("attnspec-report/results.ndjson")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    Path("kernels.py").write_text(KERNELS)


def check(*args):
    return CliRunner().invoke(main, ["check", "kernels.py", *args])


def calls():
    path = Path("calls")
    count = len(path.read_text()) if path.exists() else 0
    path.unlink(missing_ok=True)
    return count


def cells():
    return [
        {k: v for k, v in line.items() if k not in ("run", "resumed")} for line in read(FILE) if line["kind"] == "cell"
    ]


def killed():
    """A run that is killed when it comes to the second adapter."""
    script = "import os; os.environ['RUN'] = str(os.getpid()); from attnspec.cli import main; main()"
    command = [sys.executable, "-c", script, "check", "kernels.py"]
    return subprocess.run(command, capture_output=True, check=False).returncode


def test_what_a_killed_run_has_found_is_kept_and_not_computed_again():
    check()
    whole, every = cells(), calls()
    assert -signal.SIGKILL == killed()
    lines = read(FILE)
    assert (["run"], {"first"}) == (
        [line["kind"] for line in lines[:1]],
        {line["subject"] for line in lines if line["kind"] == "cell"},
    )
    calls()
    assert 0 == check("--resume").exit_code
    assert (whole, every // 2) == (cells(), calls())
    assert ("end", False) == (read(FILE)[-1]["kind"], read(FILE)[-1]["partial"])


def test_a_run_that_is_whole_is_resumed_without_a_call():
    said = check().output
    calls()
    again = check("--resume")
    assert (0, 0) == (again.exit_code, calls())
    assert [line for line in said.splitlines() if "CONFORMANT" in line] == [
        line for line in again.output.splitlines() if "CONFORMANT" in line
    ]


def test_a_line_that_was_cut_off_is_computed_again():
    check()
    whole = cells()
    text = FILE.read_text()
    FILE.write_text(text[: text.index('"second"') + 40])
    assert 0 == check("--resume").exit_code
    assert whole == cells()


def test_two_processes_resume_what_one_has_begun():
    check()
    whole = cells()
    assert -signal.SIGKILL == killed()
    assert 0 == check("--resume", "-n", "2").exit_code
    assert sorted(map(str, whole)) == sorted(map(str, cells()))


def test_with_nothing_to_resume_a_run_begins():
    assert 0 == check("--resume").exit_code


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--seed", "1"], "the run in attnspec-report cannot be resumed: its seed was 0, not 1"),
        (["--profile", "ci"], "the run in attnspec-report cannot be resumed: its profile was 'quick', not 'ci'"),
    ],
)
def test_a_run_that_asked_for_something_else_is_not_resumed(args, says):
    check("--law", "share")
    before = FILE.read_text()
    result = check("--resume", "--law", "share", *args)
    assert (4, f"attnspec: {says}\n") == (result.exit_code, result.stderr)
    assert before == FILE.read_text()


def test_a_file_that_was_changed_is_not_resumed():
    check("--law", "share")
    Path("kernels.py").write_text(KERNELS + "\n")
    result = check("--resume", "--law", "share")
    assert (4, True) == (result.exit_code, "its sources was" in result.stderr)


def test_cells_that_are_taken_over_are_marked_and_changed_ones_are_not_taken_over():
    check("--law", "share", "--law", "ratio")
    assert 0 == check("--law", "share", "--law", "ratio", "--resume").exit_code
    assert {True} == {line.get("resumed") for line in read(FILE) if line["kind"] == "cell"}
    FILE.write_text(FILE.read_text().replace('"verdict": "pass"', '"verdict": "fail"', 1))
    result = check("--law", "share", "--law", "ratio", "--resume")
    number = next(n for n, line in enumerate(FILE.read_text().splitlines(), 1) if '"verdict": "fail"' in line)
    said = f"attnspec: {FILE}:{number}: it was changed after it was written"
    assert (4, said) == (result.exit_code, result.stderr[: len(said)])


def test_a_group_counts_only_as_a_whole_and_by_its_specification():
    where = {"subject": "s", "operator": "o", "mechanism": "m", "dtype": "float32", "device": "cpu", "digest": "1"}
    cell = {"kind": "cell", "level": "must", "verdict": "pass", "cases": 1, "worst": 0.5, "says": "", **where}
    Results(Path("out"), {"seed": 0}, [{**cell, "law": "a"}, {**cell, "law": "b"}]).finish("the run was interrupted")
    for laws, count in (({"a", "b"}, 2), ({"a", "b", "c"}, 0), ({"a"}, 0)):
        assert count == len(resumable(Path("out"), {"seed": 0}, {("s", "m", "float32", "1"): laws}))
    assert [] == resumable(Path("out"), {"seed": 0}, {("s", "m", "float32", "2"): {"a", "b"}})


def test_two_runs_do_not_write_to_one_folder():
    first = Results(Path("out"), {})
    with pytest.raises(UsageError, match="another run writes to out; name another folder with --report-dir"):
        Results(Path("out"), {})
    first.finish()
    second = Results(Path("out"), {})
    assert 1 == len(second.lines)
    second.finish()


def test_a_run_that_meets_another_says_so_before_it_begins():
    FILE.parent.mkdir()
    with FILE.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        result = check()
    assert (4, 0) == (result.exit_code, calls())
    assert "attnspec: another run writes to attnspec-report; name another folder with --report-dir\n" == result.stderr


def test_a_results_file_is_never_without_its_first_line(monkeypatch):
    def replace(self, target):
        raise OSError(28, "No space left on device")

    Results(Path("out"), {"seed": 1}).finish()
    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(UsageError, match="cannot write to out: No space left on device"):
        Results(Path("out"), {"seed": 2})
    assert [1] == [json.loads(line)["seed"] for line in Path("out/results.ndjson").read_text().splitlines()[:1]]
    assert ["results.ndjson"] == os.listdir("out")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_the_right_to_write_is_refused():
    Path("out").mkdir(mode=0o500)
    with pytest.raises(UsageError, match="cannot write to out: Permission denied"):
        check_folder(Path("out"))


def test_what_was_taken_over_is_counted():
    assert "resumed" not in check("--law", "share", "--law", "ratio").stdout
    result = check("--law", "share", "--law", "ratio", "--resume")
    assert "  resumed: 4 of 4 cells are from the previous run" in result.stdout.splitlines()


def test_a_group_whose_time_was_up_is_tried_again():
    check("--law", "share", "--max-time", "0")
    calls()
    result = check("--law", "share", "--resume")
    assert ("PARTIAL" in result.stdout, calls() > 0) == (False, True)
