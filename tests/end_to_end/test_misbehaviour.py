"""Implementations that misbehave: each costs its own verdicts, and no run."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.reporting.results import read

KERNELS = """
import ctypes, os, re, sys, time
import numpy as np
from attnspec import adapter

def softmax(x):
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)

def declared(function):
    return adapter("softmax", framework="numpy", conventions={"empty_row": "nans"})(function)

def at_three(trouble):
    # Right, but for rows of three entries.
    return lambda x: trouble(x) if x.shape[-1] == 3 else softmax(x)

class Unpicklable(Exception):
    def __init__(self, first, second):
        self.keeps = lambda: first

def unpicklable(x):
    raise Unpicklable(1, 2)

def flood(x):
    while True:
        os.write(1, b"x" * 2**20)

def changed(x):
    p = softmax(x)
    x[..., 0] = 7
    return p

def interrupted(x):
    raise KeyboardInterrupt

leak, calls = [], []

def leaking(x):
    leak.append(np.ones(2**20))
    return softmax(x)

def tenth(x):
    calls.append(1)
    return os.kill(os.getpid(), 9) if len(calls) == 10 else softmax(x)

TROUBLES = {
    "segmentation": lambda x: ctypes.string_at(0),
    "abort": lambda x: os.abort(),
    "leave": lambda x: os._exit(0),
    "stop": lambda x: sys.exit(),
    "interrupt": interrupted,
    "unpicklable": unpicklable,
    "flood": flood,
    "sleep": lambda x: time.sleep(60),
    "text": lambda x: "result",
    "nothing": lambda x: None,
    "object": lambda x: object(),
    "other": lambda x: {"y": x},
    "objects": lambda x: np.array([object()] * x.size).reshape(x.shape),
    "generator": lambda x: (p for p in x),
    "ragged": lambda x: [softmax(x), softmax(x)],
    "masked": lambda x: np.ma.masked_array(softmax(x), True),
}
for name, trouble in TROUBLES.items():
    kernel = at_three(trouble)
    kernel.__name__ = name
    declared(kernel)
kernel = at_three(changed)
kernel.__name__ = "change"
declared(kernel)
view = lambda x: x
view.__name__ = "view"
for function in (view, leaking, tenth, softmax):
    declared(function)
"""
ERRORS = {
    "segmentation": "the process died of SIGSEGV",
    "abort": "the process died of SIGABRT",
    "leave": "the process exited with status 0",
    "stop": "SystemExit: (no message)",
    "interrupt": "KeyboardInterrupt: (no message)",
    "unpicklable": "Unpicklable: (1, 2)",
    "flood": "printed",
    "sleep": "did not reply within 1 s",
    "text": "returned a str as 'p', not an array of numpy",
    "nothing": "returned None, and no 'p'",
    "object": "returned an object as 'p', not an array of numpy",
    "other": "returned an output 'y'; softmax has p",
    "objects": "returned an output that cannot be read",
    "generator": "returned a generator as 'p', not an array of numpy",
    "ragged": "returned 2 outputs; softmax has 1: p",
    "masked": "returned 'p' as a MaskedArray: ",
}


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """All that a run of these kernels has found, by subject."""
    folder = tmp_path_factory.mktemp("misbehaviour")
    before = Path.cwd()
    os.chdir(folder)
    try:
        Path("kernels.py").write_text(KERNELS)
        result = CliRunner().invoke(main, ["check", "kernels.py", "--time-limit", "1"])
    finally:
        os.chdir(before)
    assert 1 == result.exit_code, result.output
    lines = read(folder / "attnspec-report" / "results.ndjson")
    assert ("end", False) == (lines[-1]["kind"], lines[-1]["partial"])
    found = {}
    for line in lines:
        if line["kind"] == "cell":
            found.setdefault(line["subject"], []).append(line)
    return found


def bad(cells):
    return {cell["law"]: cell["verdict"] for cell in cells if cell["verdict"] in ("fail", "error")}


@pytest.mark.parametrize(("name", "says"), ERRORS.items())
def test_a_call_without_a_result_costs_one_verdict(cells, name, says):
    assert ["definition"] == [law for law, verdict in bad(cells[name]).items() if verdict == "error"]
    (cell,) = (cell for cell in cells[name] if cell["verdict"] == "error")
    assert cell["says"].startswith(says)
    assert 3 == cell["witness"]["sizes"]["n"]


def test_inputs_that_are_changed_are_a_breach_and_nothing_else(cells):
    assert {"contract.inputs_unchanged": "fail"} == bad(cells["change"])


def test_a_view_of_an_input_is_a_breach_beside_being_wrong(cells):
    assert "fail" == bad(cells["view"])["contract.fresh_output"]


def test_a_leak_is_not_held_against_results(cells):
    assert {} == bad(cells["leaking"])


def test_a_process_that_dies_at_its_tenth_call_says_that_calls_alone_are_answered(cells):
    errors = [cell for cell in cells["tenth"] if cell["verdict"] == "error"]
    assert errors
    assert all("after earlier calls only: in a new process it is answered" in cell["says"] for cell in errors)


def test_what_misbehaves_does_no_harm_to_what_does_not(cells):
    assert {"pass"} == {cell["verdict"] for cell in cells["softmax"]}


def test_every_witness_can_be_stored(cells):
    assert all(json.dumps(cell, allow_nan=False) for own in cells.values() for cell in own)
