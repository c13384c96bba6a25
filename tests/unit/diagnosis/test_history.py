"""A failure that needs earlier calls is retraced to few of them, which a replay makes first."""

import re
import subprocess
import sys

import pytest

from attnspec.cases.profiles import Profile
from attnspec.diagnosis.history import fewest_of, retraced
from attnspec.diagnosis.stored import save
from attnspec.diagnosis.witness import describe
from attnspec.errors import Exit
from attnspec.execution.supervisor import SECONDS, supervisor
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.judging.shrinking import made_small
from attnspec.mechanisms.loader import library
from attnspec.reporting.repro import program
from attnspec.runs.opening import Kept
from attnspec.runs.replay import replayed
from attnspec.runs.repro import program_of
from attnspec.subjects.targets import resolve

SCENARIOS = Profile("scenarios", covering=0, draws=0, admitted=1)
STALE = """
import numpy as np
from attnspec import adapter

WIDTHS = []

@adapter("softmax", framework="numpy", conventions={"empty_row": "zeros"})
def stale(x):
    WIDTHS.append(x.shape[-1])
    seen = x[..., :WIDTHS[0]] if WIDTHS[0] < x.shape[-1] < 1000 else x
    with np.errstate(all="ignore"):
        terms = np.exp(x - np.maximum(x.max(-1, keepdims=True), -1e30))
        known = np.exp(seen - np.maximum(x.max(-1, keepdims=True), -1e30))
        return terms / np.maximum(known.sum(-1, keepdims=True), 1e-30)
"""
"""The width of the first call is that of later ones, as long as they are not very long."""


@pytest.mark.parametrize(
    ("needed", "count"), [({3}, 9), ({0, 8}, 9), ({2, 3, 7}, 8), ({0}, 1), (set(range(6)), 6), ({5, 6}, 7)]
)
def test_as_few_as_are_needed_are_left_in_their_order(needed, count):
    found = fewest_of(range(count), lambda some: needed <= set(some))
    assert sorted(needed) == list(found)


@pytest.fixture(scope="module")
def stale(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stale")
    path = folder / "stale.py"
    path.write_text(STALE)
    (one,) = resolve(str(path), supervisor=supervisor(SECONDS, "cpu"))
    result = run(Request(one, library()["softmax"], "float32", SCENARIOS, laws=frozenset({"definition"})))
    failure = made_small(next(cell.failure for cell in result.cells if cell.law == "definition"), result)
    found = retraced(result.bench, failure, result)
    witness = describe(found.failure, result.bench, str(path), None, [], after=found.says)
    save(folder, witness)
    return failure, found, witness, folder


def test_it_is_said_what_of_the_earlier_call_matters(stale):
    failure, found, *_ = stale
    assert failure.dependent
    assert len(failure.before) > 1
    assert 1 == len(found.failure.before)
    assert "wrong only after a call with a smaller n; right in a new process" == found.says


def test_the_witness_holds_the_calls_that_are_needed_and_no_others(stale):
    *_, witness, _ = stale
    assert 1 == len(witness["before"])
    assert witness["retraced"]
    assert witness["before"][0]["fixed"]["n"] < witness["case"]["fixed"]["n"]
    assert witness["outcome"]["units"] > 1


def test_a_replay_makes_them_first(stale):
    *_, witness, folder = stale
    lines = []
    assert Exit.VIOLATED is replayed(Kept(witness["key"], folder), lines.append)
    assert "note: makes an earlier call first" == lines[0]
    assert any(line.startswith("When      wrong only after a call with a smaller n") for line in lines)


def test_a_program_makes_them_first(stale):
    *_, witness, folder = stale
    path = folder / "repro.py"
    path.write_text(program(program_of(Kept(witness["key"], folder), beside=folder)))
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    said = done.stderr.strip().splitlines()[-1]
    assert (1, "AssertionError: p[") == (done.returncode, said[:18])
    assert ["# Call 1 of 2", "# Call 2 of 2"] == re.findall("# Call . of .", path.read_text())


def test_a_replay_of_what_was_mended_says_so(stale):
    *_, witness, folder = stale
    path = folder / "stale.py"
    path.write_text(STALE.replace("x[..., :WIDTHS[0]]", "x"))
    lines = []
    assert Exit.CONFORMANT is replayed(Kept(witness["key"], folder), lines.append)
    address = "stale softmax.definition: held on this case now, after the case that ran before it"
    assert address == lines[-1]
