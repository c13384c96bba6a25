"""Whatever a specification says, it is refused or it works: nothing else happens, and within bounds."""

import os
import random
import runpy
import sys
import time
import warnings
from pathlib import Path

import pytest

from attnspec.cases.samples import Case, Sample
from attnspec.errors import SpecError
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import load
from attnspec.numerics.budget import Meter, OverspentError

HOSTILE = runpy.run_path(str(Path(__file__).resolve().parents[2] / "benchmarks" / "hostile.py"))
DOCUMENTS, EXPRESSIONS = (1, 0, 0), (0, 98, 2)


@pytest.fixture(autouse=True)
def _uncached(monkeypatch):
    """What is read is not kept: whatever writes is told here."""
    monkeypatch.setenv("ATTNSPEC_CACHE", "off")


@pytest.mark.parametrize("first", range(0, 500, 100))
def test_expressions_are_refused_or_work(first, tmp_path):
    outcomes = [HOSTILE["case"](number, tmp_path, EXPRESSIONS) for number in range(first, first + 100)]
    assert [] == [outcome for outcome in outcomes if outcome.wrong]


@pytest.mark.parametrize("first", range(0, 15, 5))
def test_damaged_files_are_refused_or_work(first, tmp_path):
    outcomes = [HOSTILE["case"](number, tmp_path, DOCUMENTS) for number in range(first, first + 5)]
    assert [] == [outcome for outcome in outcomes if outcome.wrong]


@pytest.mark.parametrize("make", ["damaged", "expression", "costly"])
def test_a_number_makes_the_same_case_again(make):
    assert HOSTILE[make](random.Random(7)) == HOSTILE[make](random.Random(7))


def busy():
    while True:
        time.process_time()


@pytest.mark.parametrize(
    ("run", "wrong"),
    [
        (lambda: None, ""),
        (lambda: load([Path("nowhere.yaml")]), ""),
        (lambda: Path("written").write_text("x"), "done outside: ['open written'"),
        (lambda: os.system("true"), "done outside: ['os.system'"),
        (lambda: exec("pass"), "done outside: ['exec'"),
        (lambda: os.environ.update(ATTNSPEC_TEST="1"), "'the environment'"),
        (lambda: print("a word"), r"done outside: ['a word"),
        (lambda: print("a word", file=sys.stderr), r"done outside: ['a word"),
        (lambda: 1 // 0, "ZeroDivisionError"),
        (lambda: sys.exit(3), "SystemExit"),
        (lambda: warnings.warn("doubtful", stacklevel=1), "UserWarning"),
        (busy, "TooLong: more than 0.1 s"),
    ],
)
def test_whatever_else_a_case_does_is_told(run, wrong, monkeypatch):
    monkeypatch.setenv("ATTNSPEC_TEST", "")
    found = HOSTILE["outcome"](0, "document", run, 0.1).wrong
    assert (bool(wrong), True) == (bool(found), wrong in found)


# Files that are in order and ask for too much

HEAD = "sizes: {n: 3}\noutputs: [y]\ntitle: Any\nversion: 1\nsources: [Someone 2020]\nsummary: What it is.\n"


def loaded(name, text, drawn="normal(n)"):
    path = Path(f"{name}.yaml")
    path.write_text(f"mechanism: {name}\n{HEAD}inputs: {{x: {drawn}}}\n{text}", "utf-8")
    return load([path])[name]


def outputs(mechanism, **options):
    sample = Sample(mechanism, Case(mechanism.name, "case", 1), "float32")
    return Frame(mechanism, {**sample.values, **options}, dtype="float32").outputs()


@pytest.fixture
def _usual_depth():
    """Calls may be as deep as they usually may; compilers of frameworks allow more for as long as a process lives."""
    known = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(known)


@pytest.mark.usefixtures("_usual_depth")
def test_a_chain_of_lines_that_is_too_long_to_evaluate_is_refused():
    lines = "".join(f"  l{i}: l{i + 1} + 1\n" for i in range(198))
    mechanism = loaded("chain", f"definition:\n  y: l0\n{lines}  l198: x\n")
    with pytest.raises(SpecError, match="RecursionError"):
        outputs(mechanism)


def test_an_operator_that_calls_itself_without_end_is_refused():
    mechanism = loaded("endless", "definition: {y: endless(x) + endless(x)}\n")
    with pytest.raises(SpecError, match="RecursionError"):
        outputs(mechanism)


@pytest.mark.parametrize("drawn", ["normal(n)", "normal(0 * n)"])
def test_an_operator_that_calls_itself_too_often_is_refused(drawn, monkeypatch):
    monkeypatch.setattr(
        "attnspec.numerics.budget.Meter", lambda array=1 << 23, work=10**6, held=0: Meter(array, 10**6, held)
    )
    text = "options: {times: choice(14)}\ndefinition:\n"
    text += "  y: x if times == 0 else often(x, times = times - 1) + often(x, times = times - 1)\n"
    mechanism = loaded("often", text, drawn)
    with pytest.raises(OverspentError, match="the work limit"):
        outputs(mechanism)
