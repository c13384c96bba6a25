"""The results file, and what is left of a run that ends early."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.errors import Error, Exit, UsageError
from attnspec.judging.cells import law_names
from attnspec.mechanisms.loader import library
from attnspec.reporting.chain import Chain
from attnspec.reporting.results import Results, environment, grades, observed, read

CELL = {
    "kind": "cell",
    "subject": "mine",
    "operator": "softmax",
    "mechanism": "softmax",
    "law": "share",
    "level": "must",
    "dtype": "float32",
    "device": "cpu",
    "verdict": "pass",
    "cases": 3,
    "worst": 0.5,
    "says": "",
    "digest": "1",
}
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

@adapter("softmax", framework="numpy")
def wrong(x):
    return softmax(x) / 2
"""
STOPPED = """
@adapter("softmax", framework="numpy", conventions={"empty_row": "zeros"})
def stopped(x):
    raise KeyboardInterrupt
"""
N = len(law_names(library()["softmax"]))
FOLDER = Path("attnspec-report")


@pytest.fixture
def run(monkeypatch):
    """A check of kernels, with the lines that it leaves on disk."""
    for name in ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")

    def run(text, *args):
        Path("kernels.py").write_text(text)
        result = CliRunner().invoke(main, ["check", "kernels.py", *args])
        lines = [json.loads(line) for line in (FOLDER / "results.ndjson").read_text().splitlines()]
        return result, lines

    return run


def of(kind, lines):
    return [line for line in lines if line["kind"] == kind]


def test_every_line_is_one_object_and_the_kinds_come_in_order(run):
    _, lines = run(KERNELS, "--seed", "3")
    kinds = [line["kind"] for line in lines]
    assert ["run", "expected", "expected", *["cell"] * 2 * N, "subject", "subject", "end"] == kinds
    header, end = lines[0], lines[-1]
    assert ("0.1.0", 3, "quick", "cpu", ["kernels.py"]) == tuple(
        header[key] for key in ("attnspec", "seed", "profile", "device", "targets")
    )
    assert {"numpy", "torch"} <= set(header["packages"])
    assert "attnspec check kernels.py --seed 3" == header["command"]
    assert (False, True) == (end["partial"], end["seconds"] > 0)


def test_a_cell_says_what_was_tried_and_on_which_text(run):
    _, lines = run(KERNELS)
    found = {(c["subject"], c["law"]): c for c in of("cell", lines)}
    right, wrong = found["right", "sums_to_one"], found["wrong", "sums_to_one"]
    keys = ("operator", "mechanism", "level", "dtype", "device", "version", "digest")
    m = library()["softmax"]
    assert ("softmax", "softmax", "must", "float32", "cpu", m.version, m.digest) == tuple(right[key] for key in keys)
    assert ("pass", "fail") == (right["verdict"], wrong["verdict"])
    assert right["cases"] > 1
    assert 0 < right["worst"] <= 1 < wrong["worst"]
    assert ("kernels.py", "sums_to_one") == (wrong["witness"]["target"], wrong["witness"]["law"])
    assert "witness" not in right


def test_a_subject_is_summed_up(run):
    _, lines = run(KERNELS)
    right, wrong = of("subject", lines)
    assert ("right", "conformant", {"pass": N}) == (right["subject"], right["verdict"], right["cells"])
    assert ("wrong", "violated", {"float32": "fp32"}) == (wrong["subject"], wrong["verdict"], wrong["grades"])
    assert ({}, {"float32": {"empty_row": "zeros"}}) == (right["conventions"], wrong["conventions"])


def test_the_junit_file_has_a_case_for_every_cell(run):
    run(KERNELS)
    (suite,) = ET.parse(FOLDER / "junit.xml").getroot()
    assert (str(2 * N), "3", "0", "2") == tuple(suite.get(key) for key in ("tests", "failures", "errors", "skipped"))
    failing = next(case for case in suite.iter("testcase") if case.find("failure") is not None)
    assert ("attnspec.softmax.yaml", "sums_to_one[wrong-float32]") == (failing.get("classname"), failing.get("name"))
    assert "Law       The entries of a row add up to one." in failing.find("failure").text


@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_interrupted_run_keeps_what_it_found(run, workers):
    result, lines = run(
        KERNELS + STOPPED, "--no-isolate", "-n", workers, *([] if workers == "0" else ["--law", "share"])
    )
    assert Exit.INTERRUPTED == result.exit_code
    assert {"right", "wrong"} >= {c["subject"] for c in of("cell", lines)}
    assert {"kind": "end", "partial": True} == {key: lines[-1][key] for key in ("kind", "partial")}
    assert {"stopped": "partial"}.items() <= {c["subject"]: c["verdict"] for c in of("subject", lines)}.items()
    assert "  PARTIAL: the run did not finish; the results so far are valid" in result.stdout.splitlines()
    assert [{k: x for k, x in line.items() if k != "chain"} for line in lines] == read(FOLDER / "results.ndjson")
    if workers == "0":
        assert 2 * N == len(of("cell", lines))
        assert f"NOT CONFORMANT  wrong (float32)   {N} cells: {N - 5} pass, 3 fail, 2 not tested" in result.stdout


INTRUDER = """
@adapter("softmax", framework="numpy", conventions={"empty_row": "zeros"})
def intruder(x):
    WRITES
    return softmax(x)
"""


@pytest.mark.parametrize(
    "writes",
    [
        "open('attnspec-report/results.ndjson', 'a').write('x' * 10**5)",
        "open('attnspec-report/results.ndjson', 'w').close()",
        "import os; os.path.exists('attnspec-report/results.ndjson') and os.unlink('attnspec-report/results.ndjson')",
    ],
)
def test_what_a_subject_writes_into_the_results_is_found_and_undone(run, writes):
    result, lines = run(KERNELS + INTRUDER.replace("WRITES", writes), "--law", "share", "--law", "ratio")
    assert Exit.INTERNAL == result.exit_code
    assert "  ALTERED: another process wrote to attnspec-report/results.ndjson; " in result.stdout
    assert (6, True) == (len(of("cell", lines)), lines[-1]["altered"])
    assert [{k: x for k, x in line.items() if k != "chain"} for line in lines] == read(FOLDER / "results.ndjson")


def test_a_run_without_the_definition_knows_its_cases_and_its_time(run):
    _, lines = run(KERNELS, "--law", "share", "--law", "ratio")
    assert ["share", "share"] == [c["law"] for c in of("cell", lines) if "run" in c]
    assert min(c["run"]["cases"] for c in of("cell", lines) if "run" in c) > 0


@pytest.mark.parametrize("args", [("--law", "share", "--max-time", "0"), ("-x",)])
def test_a_run_that_is_ended_early_is_partial(run, args):
    result, lines = run(KERNELS, *args)
    assert lines[-1]["partial"]
    assert "PARTIAL" in result.stdout


# The file by itself


@pytest.fixture
def results():
    made = Results(FOLDER, {"seed": 1})
    yield made
    made._file.close()


def test_a_line_is_on_disk_as_soon_as_it_is_known(results):
    results.add(CELL)
    assert [{"kind": "run", "seed": 1}, CELL] == read(FOLDER / "results.ndjson")


def test_a_number_that_json_lacks_is_no_line(results):
    with pytest.raises(ValueError, match="not JSON compliant"):
        results.add({"kind": "cell", "worst": float("inf")})


def test_without_a_folder_nothing_is_written():
    Results(None, {}).finish()
    assert [] == list(Path.cwd().iterdir())


def test_a_folder_that_cannot_be_written_to_is_an_error():
    Path("file").touch()
    with pytest.raises(UsageError, match="cannot write to file/folder: Not a directory"):
        Results(Path("file/folder"), {})


def test_a_full_disk_is_an_error(results, monkeypatch):
    def write(text):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(results, "_file", SimpleNamespace(write=write))
        with pytest.raises(Error, match="cannot write the results: No space left on device"):
            results.add({"kind": "cell"})


def written(*lines):
    """The text of a results file with these lines."""
    chain = Chain()
    return "".join(map(chain.text, lines))


RUN, END = {"kind": "run", "seed": 1}, {"kind": "end", "partial": False}
WHOLE = written(RUN, CELL, {**CELL, "law": "ratio"}, END)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (WHOLE, 4),
        (WHOLE[:-1], 4),
        (WHOLE[:-2], 3),
        (WHOLE[:-20], 3),
        (WHOLE[:-20] + "\n", 3),
        (written(RUN) + '{"kind": "ce', 1),
        (written(RUN) + "\n\n" + WHOLE[len(written(RUN)) :], 4),
    ],
)
def test_a_line_that_is_cut_off_is_left_out(text, lines):
    Path("results.ndjson").write_text(text)
    assert lines == len(read(Path("results.ndjson")))


CHANGED = "it was changed after it was written: its digest is not that of what it says; run the check again"
MOVED = "it does not follow the line before it: lines were removed, added or moved; run the check again"
BARE = "it has no digest at its end, as every line of results has; run the check again"
FIRST, SECOND, THIRD, LAST = WHOLE.splitlines(keepends=True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (FIRST + SECOND.replace('"pass"', '"fail"') + THIRD + LAST, f":2: {CHANGED}"),
        (FIRST + SECOND.replace('": "', '":  "', 1) + THIRD + LAST, f":2: {CHANGED}"),
        (FIRST + THIRD + LAST, f":2: {MOVED}"),
        (FIRST + THIRD + SECOND + LAST, f":2: {MOVED}"),
        (FIRST + SECOND + SECOND + THIRD + LAST, f":3: {MOVED}"),
        (FIRST + SECOND + LAST, f":3: {MOVED}"),
        (FIRST.replace("1", "2", 1) + SECOND + THIRD + LAST, f":1: {CHANGED}"),
        (written(RUN, CELL) + WHOLE, f":3: {MOVED}"),
        (FIRST + json.dumps(CELL) + "\n" + THIRD + LAST, f":2: {BARE}"),
        (FIRST + SECOND + THIRD + LAST.replace("false", "true"), f":4: {CHANGED}"),
        (FIRST + SECOND + THIRD + json.dumps(END) + "\n", f":4: {BARE}"),
        (FIRST + "x\n" + THIRD, ":2:1: not JSON: expecting value"),
        ("", " is not a results file: it does not begin with a line of the kind 'run'"),
        (written(CELL), " is not a results file: it does not begin with a line of the kind 'run'"),
    ],
)
def test_a_file_that_was_changed_or_is_no_results_file_is_refused_with_its_line(text, says):
    Path("results.ndjson").write_text(text)
    with pytest.raises(UsageError) as caught:
        read(Path("results.ndjson"))
    assert f"results.ndjson{says}" == str(caught.value)
    found = CliRunner().invoke(main, ["report", "results.ndjson"])
    assert (4, f"attnspec: results.ndjson{says}\n") == (found.exit_code, found.stderr)


@pytest.mark.parametrize("key", ["subject", "mechanism"])
def test_a_file_of_endless_names_is_refused(key):
    Path("results.ndjson").write_text(written(RUN, *({**CELL, key: f"n{i}"} for i in range(1002))))
    with pytest.raises(UsageError, match=f"results.ndjson speaks of more than 1,000 {key}s, the most that one may"):
        read(Path("results.ndjson"))


def test_a_missing_results_file_is_told():
    with pytest.raises(Error, match=r"cannot read results\.ndjson: No such file or directory"):
        read(Path("results.ndjson"))


def test_what_was_observed_is_told_by_dtype_and_what_was_declared_is_not():
    def cell(dtype, word, how):
        return {"dtype": dtype, "run": {"conventions": {"empty_row": {"word": word, "how": how}}}}

    cells = [cell("a", "zeros", "observed"), cell("b", "nans", "unexplained"), cell("c", "nans", "declared"), {}]
    assert {"a": {"empty_row": "zeros"}, "b": {"empty_row": "nans?"}} == observed(cells)


@pytest.mark.parametrize(
    ("dtype", "needed", "loosest"),
    [
        ("bfloat16", ("bf16", "bf16_naive", "fp32"), "bf16_naive"),
        ("float32", ("fp32", "bf16", "tf32"), "bf16"),
        ("float64", ("fp64", "fp32", "fp64"), "fp32"),
        ("float32", ("fp64",), "fp64"),
        ("float32", ("fp64", "fp32", "fp64"), "fp32"),
    ],
)
def test_the_loosest_grade_of_every_dtype_is_told(dtype, needed, loosest):
    cells = [{"dtype": dtype, "run": {"grade": grade}} for grade in needed]
    assert {dtype: loosest} == grades([*cells, {"dtype": "float16"}])


def test_the_header_has_versions_and_the_command():
    header = environment("attnspec check x", {"seed": 5})
    assert ("attnspec check x", 5) == (header["command"], header["seed"])
    assert set(header["packages"].values()).isdisjoint({""})
