"""A build that compares with what its project has committed."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.errors import Exit

RIGHT = """
import numpy as np

def softmax(x):
    terms = np.exp(x - x.max(-1, keepdims=True))
    return terms / terms.sum(-1, keepdims=True)
"""
ASKED = ("check", "kernel.py:softmax", "--framework", "numpy", "--dtype", "float32", "--mechanism", "softmax")
BASELINE = "attnspec-baseline.ndjson"


def run(*arguments, code=Exit.CONFORMANT):
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert code == done.exit_code, done.output
    return done.output


def test_a_project_agrees_to_what_there_is_and_learns_what_is_new():
    Path("kernel.py").write_text(RIGHT)
    run(*ASKED, "--profile", "smoke")
    assert "verdicts are the baseline" in run("compare", BASELINE, "--update")
    agreed = Path(BASELINE).read_text()
    assert "PASSES   nothing has changed" in run("compare", BASELINE)

    Path("kernel.py").write_text(RIGHT.replace("/ terms.sum", "* 1.01 / terms.sum"))
    run(*ASKED, "--profile", "smoke", code=Exit.VIOLATED)
    told = run("compare", BASELINE, code=Exit.VIOLATED)
    assert "NEW FAILURES" in told
    assert "softmax.definition" in told
    assert "PASSES" in run("compare", BASELINE, "--fail-on", "precision")
    assert json.loads(run("compare", BASELINE, "--json", code=Exit.VIOLATED))["fails"]
    assert agreed == Path(BASELINE).read_text()

    Path("kernel.py").write_text("import time\n" + RIGHT.replace("return terms", "time.sleep(0.01)\n    return terms"))
    run(*ASKED, "--profile", "smoke")
    told = run("compare", BASELINE, "--fail-on", "slower", code=Exit.VIOLATED)
    assert "SLOWER CALLS   takes longer by more than the spread of its calls" in told
    assert "ms a call" in told
    Path("kernel.py").write_text(RIGHT.replace("/ terms.sum", "* 1.01 / terms.sum"))
    run(*ASKED, "--profile", "smoke", code=Exit.VIOLATED)

    assert f"{BASELINE}: updated" in run("compare", BASELINE, "--update")
    assert "PASSES   nothing has changed" in run("compare", BASELINE)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("missing.ndjson",), "missing.ndjson"),
        (("kernel.py",), "kernel.py:2:1: not JSON"),
        ((BASELINE, "--fail-on", "nwe"), "unknown change 'nwe'; did you mean 'new'?"),
        (("attnspec-report/results.ndjson", "--update"), "is not a baseline and is not overwritten"),
    ],
)
def test_what_cannot_be_compared_is_told(arguments, told):
    Path("kernel.py").write_text(RIGHT)
    run(*ASKED, "--profile", "smoke")
    run("compare", BASELINE, "--update")
    assert told in run("compare", *arguments, code=Exit.USAGE)
