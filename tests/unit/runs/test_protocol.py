"""Clauses of the protocol, each with a program that breaks it and keeps all others."""

import sys
from pathlib import Path

import pytest

from attnspec.execution.supervisor import supervisor
from attnspec.runs.protocol import kept

KERNELS = (Path(__file__).resolve().parents[3] / "examples/protocol/kernels.py").read_text("utf-8")
ANSWERED = "print(json.dumps(found), file=answers, flush=True)"
AGAIN = """def answer(question, seen=[]):
    seen.append(1)
    if len(seen) == 4:
        return {}"""
MAIN = "\n    main()\n"
QUIET = """
        calls = globals().setdefault("calls", [])
        calls.append(found)
        if calls[-2:-1] and calls[-2]["id"] is None:
            time.sleep(0.02)
            print("oh", file=answers, flush=True)"""
BROKEN = {
    "capabilities": ('"protocol": 1', '"protocol": 2'),
    "functions": ('"operator": "softmax"', '"operator": "softmaxx"'),
    "softmax_numpy: call": ("FUNCTIONS[question", "{}[question"),
    "softmax_numpy: again": ("def answer(question):", AGAIN),
    "softmax_numpy: later": ("if question[", 'if "later" in question:\n        return 1\n    if question['),
    "softmax_numpy: inputs": ('"rb") as file:', '"r+b") as file:\n        file.write(bytes(8))\n        file.seek(0)'),
    "softmax_numpy: dtype": ('if question["dtype"] not in ("float32", "float16")', "if False"),
    "question": ('{"kind": "question", "says": "this is no', '{"kind": "failed", "says": "this is no'),
    "line": ('found = {"id": None, "error"', 'found = {"id": 0, "error"'),
    "quiet": (ANSWERED, ANSWERED + QUIET),
    "leaving": (MAIN, f"{MAIN}    sys.exit(3)\n"),
}


@pytest.fixture
def asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def asked(text):
        (tmp_path / "kernels.py").write_text(text)
        target = f"exec:{sys.executable} kernels.py::softmax_numpy"
        return [found.clause for found in kept(target, "cpu", 5.0, supervisor(30.0, "cpu")) if found.wrong]

    return asked


def test_the_example_keeps_every_clause(asked):
    assert [] == asked(KERNELS)


@pytest.mark.parametrize("clause", BROKEN)
def test_a_clause_that_is_broken_is_named(asked, clause):
    before, after = BROKEN[clause]
    assert before in KERNELS
    assert clause in asked(KERNELS.replace("import json", "import json\nimport time").replace(before, after))


def test_strides_that_are_claimed_have_to_be_read(asked):
    text = KERNELS.replace('[n * dtype.itemsize for n in said["strides"]]', "None")
    lost = text.replace("inputs = {", 'assert question["inputs"]["x"]["strides"][-1] == 1\n    inputs = {')
    assert "softmax_numpy: strides" in asked(lost)
