"""Recording programs: what they ask for is written, however they end."""

from __future__ import annotations

import json
import signal
import sys
import textwrap

import numpy as np
import pytest

import attnspec
from attnspec.errors import UsageError
from attnspec.mechanisms.loader import NONE
from attnspec.mechanisms.traces import is_trace
from attnspec.runs.recording import PARTS, recorded, workload_of

KNOWN = NONE.library()
PACKAGE = "def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False):\n    return q\n"
CALLS = """
    import os, numpy as np
    from flash_attn.flash_attn_interface import flash_attn_func
    q = np.ones((1, 5, 2, 8), np.float32)
    for _ in range(4):
        flash_attn_func(q, q, q, causal=True)
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Makes a program that calls a package; a list of words."""
    package = tmp_path / "flash_attn"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "flash_attn_interface.py").write_text(PACKAGE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def make(*more):
        path = tmp_path / "serve.py"
        path.write_text("\n".join(map(textwrap.dedent, (CALLS, *more))))
        return [sys.executable, str(path)]

    return make


def record(tmp_path, command):
    said = []
    code = recorded(command, tmp_path / "w.ndjson", said.append)
    return code, workload_of(str(tmp_path / "w.ndjson"), KNOWN), said


def test_a_program_is_recorded_with_its_exit_code(tmp_path, program):
    code, found, said = record(tmp_path, program("raise SystemExit(3)"))
    (use,) = found.uses
    assert (3, "exit 3", "attention", {"causal": True}, 4) == (code, found.ended, use.operator, use.options, use.count)
    assert said[0].endswith("4 calls, one call of operators")
    assert not (tmp_path / f"w.ndjson{PARTS}").exists()


def test_a_program_that_is_killed_loses_nothing_but_its_last_counts(tmp_path, program):
    code, found, _ = record(tmp_path, program("os.kill(os.getpid(), 9)"))
    assert (128 + signal.SIGKILL, "signal 9", 4) == (code, found.ended, found.calls)


def test_the_processes_of_a_program_are_recorded_with_it(tmp_path, program):
    more = (
        "import subprocess, sys",
        "if len(sys.argv) < 2: subprocess.run([sys.executable, __file__, 'again'], check=True)",
    )
    assert 8 == record(tmp_path, program(*more))[1].calls


def test_a_sitecustomize_that_is_there_is_run(tmp_path, program):
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.customized = True\n")
    assert 0 == record(tmp_path, program("import builtins", "assert builtins.customized"))[0]


def test_a_program_that_calls_nothing_is_told_so(tmp_path):
    code, found, said = record(tmp_path, [sys.executable, "-c", "pass"])
    assert (0, 0) == (code, found.calls)
    assert "no call of a known interface was seen" in said[0]


def test_what_is_no_program_is_an_error_and_leaves_nothing(tmp_path):
    with pytest.raises(UsageError, match="cannot run nowhere-to-be-found"):
        recorded(["nowhere-to-be-found"], tmp_path / "w.ndjson", print)
    assert [] == [*tmp_path.iterdir()]


def test_a_folder_that_a_killed_recording_has_left_is_read(tmp_path, program):
    journals = tmp_path / f"w.ndjson{PARTS}" / "journals"
    journals.mkdir(parents=True)
    x = {"shape": [2, 3], "strides": [3, 1], "dtype": "float32"}
    call = json.dumps({"kind": "call", "id": 0, "interface": "torch_softmax", "arguments": {"input": x, "dim": -1}})
    (journals / "1.ndjson").write_text(f'{call}\n{{"kind": "count", "id": 0, "count": 9}}\n{{"kind": "cou')
    assert [9] == [use.count for use in workload_of(str(journals.parent), KNOWN).uses]
    with pytest.raises(UsageError, match="is there: another recording is writing there"):
        recorded(program(), tmp_path / "w.ndjson", print)


def test_a_folder_of_anything_else_is_refused(tmp_path):
    with pytest.raises(UsageError, match="is not a workload, a folder"):
        workload_of(str(tmp_path), KNOWN)
    assert not is_trace(tmp_path)


def test_a_part_of_a_program_is_recorded_and_what_it_raises_is_raised(tmp_path):
    import torch

    def serve():
        torch.softmax(torch.ones(2, 3), -1)
        raise ValueError

    with pytest.raises(ValueError), attnspec.record(tmp_path / "w.ndjson"):  # noqa: PT011 - whatever it raises
        serve()
    torch.softmax(torch.ones(2, 3), -1)
    found = workload_of(str(tmp_path / "w.ndjson"), KNOWN)
    assert ("ValueError", [("softmax", 1)]) == (found.ended, [(use.operator, use.count) for use in found.uses])
    assert 1 == np.asarray(torch.softmax(torch.ones(1, 1), -1)).size
