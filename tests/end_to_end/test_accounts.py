"""A run keeps account: no cell is lost without a word, and a fault of attnspec costs its own cells alone."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.data.plain import storable
from attnspec.errors import Exit
from attnspec.reporting.results import read
from attnspec.runs import explaining, pool, runner

KERNELS = """
import numpy as np
from attnspec import adapter

def softmax(x):
    with np.errstate(all="ignore"):
        terms = np.exp(x - np.maximum(x.max(-1, keepdims=True), -1e30))
        return terms / np.maximum(terms.sum(-1, keepdims=True), 1e-30)

@adapter("softmax", framework="numpy", conventions={"empty_row": "zeros"})
def right(x):
    return softmax(x)

@adapter("softmax", framework="numpy", conventions={"empty_row": "zeros"})
def other(x):
"""
HALVES = "    return softmax(x) / 2\n"
UNSPEAKABLE = r"""    raise ValueError("no \ud800 here, \x1b[31m and \x00")
"""
DIES = """
    import os
    os.kill(os.getpid(), 9)
"""


@pytest.fixture
def check(monkeypatch):
    for name in ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")

    def check(body, *args):
        Path("kernels.py").write_text(KERNELS + body)
        laws = [part for law in ("share", "definition") for part in ("--law", law)]
        result = CliRunner().invoke(main, ["check", "kernels.py", "--profile", "smoke", *laws, *args])
        return result, read(Path("attnspec-report/results.ndjson"))

    return check


def verdicts(lines):
    return {line["subject"]: line["verdict"] for line in lines if line["kind"] == "subject"}


def reasons(lines, subject="other"):
    return next(line["reasons"] for line in lines if line["kind"] == "subject" and line["subject"] == subject)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_exception_that_cannot_be_sent_is_an_error_beside_a_good_kernel(check, workers):
    result, lines = check(UNSPEAKABLE, "-n", workers)
    assert (Exit.VIOLATED, {"right": "conformant", "other": "violated"}) == (result.exit_code, verdicts(lines))
    assert 4 == sum(line["kind"] == "cell" for line in lines)
    assert {"error"} == {c["verdict"] for c in lines if c["kind"] == "cell" and c["law"] == "definition"} - {"pass"}
    assert "\\ud800" in result.stdout
    assert result.stdout.isascii()
    assert "\x1b" not in result.stdout


def test_a_process_that_dies_costs_the_group_that_it_ran(check):
    result, lines = check(DIES, "-n", "2", "--no-isolate")
    found = {(c["subject"], c["verdict"]) for c in lines if c["kind"] == "cell"}
    assert {("right", "pass"), ("other", "internal")} == found
    assert (Exit.INTERNAL, {"right": "conformant", "other": "partial"}) == (result.exit_code, verdicts(lines))
    assert (
        "the process that ran it was killed (SIGKILL), which usually means that memory ran out, 2 times"
        in result.stdout
    )
    assert "PARTIAL         other" in result.stdout


def test_processes_that_never_come_to_run_anything_leave_a_partial_run(check, monkeypatch):
    monkeypatch.setattr(pool, "PROGRAM", "import no_such_module")
    result, lines = check("    return softmax(x)\n", "-n", "2")
    assert (Exit.NOTHING_TESTED, {"right": "partial", "other": "partial"}) == (result.exit_code, verdicts(lines))
    assert reasons(lines)[0].startswith("2 of 2 cells are missing ")
    assert reasons(lines)[0].endswith("status 1: ModuleNotFoundError: No module named 'no_such_module'")
    assert 'errors="0"' not in Path("attnspec-report/junit.xml").read_text()


def failing(name, original, *, wanted=lambda *args: True):
    def fails(*args, **keywords):
        if wanted(*args):
            raise MemoryError(f"no room for {name}")
        return original(*args, **keywords)

    return fails


def test_a_group_that_cannot_be_run_costs_its_own_cells(check, monkeypatch):
    wanted = lambda request: request.subject.name == "other"  # noqa: E731
    monkeypatch.setattr(runner, "run", failing("run", runner.run, wanted=wanted))
    result, lines = check(HALVES)
    found = {(c["subject"], c["law"]): c["verdict"] for c in lines if c["kind"] == "cell"}
    assert ({"internal"}, {"pass"}) == tuple({found[s, law] for s, law in found if s == n} for n in ("other", "right"))
    assert ({"right": "conformant", "other": "partial"}, Exit.INTERNAL) == (verdicts(lines), result.exit_code)
    assert reasons(lines)[0].startswith("attnspec failed on 2 cells (")
    assert "MemoryError: no room for run" in result.stdout
    assert "no room for run" in next(c["trace"] for c in lines if c["kind"] == "cell" and c["subject"] == "other")
    assert "Traceback" not in result.stdout
    assert "CONFORMANT      right (float32)   2 cells: 2 pass" in result.stdout.splitlines()


@pytest.mark.parametrize("step", ["made_small", "diagnose", "mapped", "describe"])
def test_a_failure_that_cannot_be_explained_keeps_its_verdict(check, monkeypatch, step):
    monkeypatch.setattr(explaining, step, failing(step, getattr(explaining, step)))
    result, lines = check(HALVES)
    assert (Exit.VIOLATED, "violated") == (result.exit_code, verdicts(lines)["other"])
    troubles = [t for c in lines if c["kind"] == "cell" for t in c.get("unexplained", ())]
    assert {f"MemoryError: no room for {step}"} == {trouble["says"] for trouble in troubles}
    assert f"could not be explained: MemoryError: no room for {step}" in result.stdout
    assert (step == "describe") == ("Replay    attnspec replay" not in result.stdout)


def test_an_array_beside_a_default_of_none_is_explained():
    laws = ["--law", "definition", "--dtype", "float32", "--profile", "smoke"]
    result = CliRunner().invoke(main, ["check", "mistake:generate.last_chunk_alone", *laws])
    assert Exit.VIOLATED == result.exit_code
    assert "chunks = [" in result.stdout


def test_a_file_that_disappears_in_the_middle_costs_what_it_had_left(check, monkeypatch):
    original = runner.run

    def removes(request):
        if request.subject.name == "other":
            Path("kernels.py").unlink(missing_ok=True)
            raise FileNotFoundError("kernels.py")
        return original(request)

    monkeypatch.setattr(runner, "run", removes)
    result, lines = check(HALVES)
    assert (Exit.INTERNAL, "conformant") == (result.exit_code, verdicts(lines)["right"])


class Loud(str):
    def __str__(self):
        return "another"


@pytest.mark.parametrize(
    ("x", "kept"),
    [
        ({"a": True, "b": None, "c": (1, 2.5)}, {"a": True, "b": None, "c": [1, 2.5]}),
        ("a\ud800\x1b\nb", "a\\ud800\\x1b\\nb"),
        ({"trace": "a\nb\x1b"}, {"trace": "a\nb\\x1b"}),
        (Loud("quiet"), "quiet"),
    ],
)
def test_a_record_holds_exact_types_and_safe_texts(x, kept):
    found = storable(x)
    assert (kept, type(kept)) == (found, type(found))
    json.dumps(found).encode("ascii")


@pytest.mark.parametrize("x", [float("inf"), object(), {1, 2}])
def test_what_is_no_data_is_no_record(x):
    with pytest.raises((ValueError, TypeError)):
        storable(x)
