"""From a program to the verdict on what it asks for, as a user goes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from attnspec.cli import main

ROOT = Path(__file__).resolve().parents[2]
KERNEL = """
import numpy as np

def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) * (1.01 if len(x) == 300 else 1)
"""
WORKLOAD = """\
{"kind": "workload", "version": 1}
{"kind": "use", "operator": "softmax", "dtype": "float32", "sizes": {"rows": 300, "n": 8}, "count": 20}
{"kind": "use", "operator": "softmax", "dtype": "float32", "sizes": {"rows": 4, "n": 8}, "count": 60}
{"kind": "left", "interface": "torch_softmax", "says": "dim is 1", "count": 20}
"""


def run(*words):
    done = CliRunner().invoke(main, [*words])
    return done.exit_code, done.output


def test_a_workload_is_checked_reported_and_its_failure_replayed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("kernel.py").write_text(KERNEL)
    Path("w.ndjson").write_text(WORKLOAD)
    code, told = run("check", "kernel.py:softmax", "--workload", "w.ndjson")
    assert 1 == code
    assert "softmax: 80 of 100 calls of w.ndjson were judged (80%), of which 20 are wrong" in told
    assert "NOT CONFORMANT  softmax (float32)   2 cells: 1 pass, 1 fail" in told
    assert "rows >= 300" in told
    (case,) = Path("attnspec-report/cases").iterdir()
    code, told = run("replay", case.stem)
    assert 1 == code
    assert "softmax.definition" in told
    assert "softmax  w.ndjson  100    80%     20" in run("report")[1]


def test_the_example_is_recorded_by_itself_and_from_outside(tmp_path):
    example = ROOT / "examples" / "workloads" / "serve.py"
    own, outer = tmp_path / "own.ndjson", tmp_path / "outer.ndjson"
    command = [sys.executable, "-m", "attnspec.cli", "record", "-o", str(outer), "--", sys.executable, str(example)]
    subprocess.run([*command, str(own)], cwd=tmp_path, check=True)
    calls = [path.read_text("utf-8").splitlines()[1:] for path in (own, outer)]
    assert calls[0] == calls[1]
    assert 6 == len(calls[0])
