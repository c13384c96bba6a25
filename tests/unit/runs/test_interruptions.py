"""A run that is interrupted ends at once, with what it has found, and says that it is partial."""

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.errors import Exit
from attnspec.reporting.results import read
from attnspec.runs.interruptions import interruptible

KERNELS = """
import time
import numpy as np
from attnspec import adapter

@adapter("softmax", framework="numpy", conventions={"empty_row": "nans"})
def wrong(x):
    return x

@adapter("softmax", framework="numpy", conventions={"empty_row": "nans"})
def hangs(x):
    open("hanging", "w").close()
    time.sleep(3000)
"""
RIGHT = """
    with np.errstate(all="ignore"):
        terms = np.exp(x - x.max(-1, keepdims=True))
        return terms / terms.sum(-1, keepdims=True)
"""
RESULTS, JUNIT = Path("attnspec-report/results.ndjson"), Path("attnspec-report/junit.xml")
LAWS = [part for law in ("definition", "share", "ratio") for part in ("--law", law)]
LONG = 300
"""Seconds for what takes few, on a machine that does much else; the kernel hangs for ten times as long."""


def until(holds):
    deadline = time.monotonic() + LONG
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize(("number", "workers"), [(signal.SIGINT, "0"), (signal.SIGTERM, "0"), (signal.SIGTERM, "2")])
def test_a_signal_ends_a_run_while_a_kernel_hangs(number, workers):
    Path("kernels.py").write_text(KERNELS)
    command = [sys.executable, "-c", "from attnspec.cli import main; main()", "check", "kernels.py", "-n", workers]
    limit = ["--time-limit", "2000", "--profile", "smoke", *LAWS]
    with subprocess.Popen([*command, *limit], stdout=subprocess.PIPE, text=True, start_new_session=True) as run:
        until(Path("hanging").exists)
        if workers == "0":
            until(lambda: len(read(RESULTS)) > 5)
        os.kill(run.pid, number)
        said, _ = run.communicate(timeout=LONG)
    assert Exit.INTERRUPTED == run.returncode
    end, found = read(RESULTS)[-1], {line["subject"]: line for line in read(RESULTS) if line["kind"] == "subject"}
    assert ("end", True, "the run was interrupted") == (end["kind"], end["partial"], end["ended"])
    assert "partial" == found["hangs"]["verdict"]
    assert "3 of 3 cells are missing" in found["hangs"]["reasons"][0]
    assert "PARTIAL         hangs   0 cells" in said.splitlines()
    assert "PARTIAL: hangs was not tested completely" in JUNIT.read_text()
    assert 0 < len(ET.parse(JUNIT).getroot().findall(".//testcase"))


def test_a_signal_is_an_interruption_for_as_long_as_a_run_lasts():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), interruptible():
        signal.raise_signal(signal.SIGTERM)
    assert before == signal.getsignal(signal.SIGTERM)


def test_who_handles_a_signal_goes_on_to_do_so():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with interruptible():
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def check(*args):
    return CliRunner().invoke(main, ["check", "kernels.py", *LAWS, *args])


@pytest.fixture
def wrong(monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    Path("kernels.py").write_text(KERNELS.replace("    time.sleep(3000)", RIGHT))


def test_time_that_has_run_out_is_partial_everywhere(wrong):
    result = check("--max-time", "0")
    assert Exit.CONFORMANT != result.exit_code
    found = {line["subject"]: line for line in read(RESULTS) if line["kind"] == "subject"}
    assert "partial" == found["hangs"]["verdict"]
    assert found["hangs"]["reasons"][0].startswith("the time limit was reached: ")
    assert "PARTIAL         hangs" in result.stdout
    assert "PARTIAL: hangs was not tested completely" in JUNIT.read_text()
    report = CliRunner().invoke(main, ["report"]).stdout
    assert [line for line in report.splitlines() if line.startswith("hangs") and "PARTIAL" in line]
    assert [line for line in report.splitlines() if line.startswith("hangs") and "the time limit was reached" in line]


def test_what_ends_at_the_first_failure_says_what_it_did_not_try(wrong):
    result = check("-x")
    assert Exit.VIOLATED == result.exit_code
    found = {line["subject"]: (line["verdict"], line["reasons"]) for line in read(RESULTS) if line["kind"] == "subject"}
    assert ("partial", ["3 of 3 cells are missing"]) == (found["hangs"][0], [found["hangs"][1][0].split(" (")[0]])
    assert found["hangs"][1][0].endswith("the run was stopped: stopping after 1 failures")


def test_a_run_with_time_to_spare_is_not_partial(wrong):
    result = check("--max-time", "3000", "--law", "shift_invariant")
    assert "PARTIAL" not in result.stdout


def test_a_file_that_was_cut_off_is_partial_in_the_matrix(wrong):
    check()
    lines = RESULTS.read_text().splitlines()
    kept = [
        line for line in lines if json.loads(line).get("subject") != "hangs" or json.loads(line)["kind"] == "expected"
    ]
    cells = [line for line in lines if json.loads(line)["kind"] == "cell" and json.loads(line)["subject"] == "hangs"]
    whole = CliRunner().invoke(main, ["report"]).stdout
    kept = [line for line in kept if json.loads(line)["kind"] in ("run", "expected", "cell")]
    Path("cut.ndjson").write_text("\n".join([*kept, cells[0]]) + "\n")
    cut = CliRunner().invoke(main, ["report", "cut.ndjson"]).stdout
    assert "PARTIAL" not in whole
    assert [line for line in cut.splitlines() if line.split() == ["hangs", "PARTIAL"]]
    assert "2 of 3 cells are missing" in cut
    assert "the run has no end" in cut
