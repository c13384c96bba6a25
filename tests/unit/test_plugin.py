"""`pytest --attnspec TARGET`: the cells of a check as items of pytest."""

import gc
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from click.testing import CliRunner

from attnspec import adapters, plugin
from attnspec.cli import main
from attnspec.errors import Exit, SpecError
from attnspec.judging.cells import law_names
from attnspec.mechanisms.loader import library
from attnspec.runs import runner

CELLS = len(law_names(library()["softmax"]))
"""Cells of one subject of softmax in one dtype."""
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
def wrong(x):
    return softmax(x) / 2
"""
SLOPES = """
import numpy as np
from attnspec import adapter

@adapter("alibi_slopes", framework="numpy", conventions={"slopes": "geometric"})
def slopes(*, heads):
    return (2.0 ** (-8 * np.arange(1, heads + 1) / max(heads, 1))).astype("float32")
"""
IDS = [
    f"attnspec/softmax.yaml::{law}[{subject}-float32]"
    for subject in ("right", "wrong")
    for law in law_names(library()["softmax"])
]
FAILING = [
    f"attnspec/softmax.yaml::{law}[wrong-float32]"
    for law in law_names(library()["softmax"])
    if law in ("sums_to_one", "equal_shares", "definition")
]


@pytest.fixture
def run(pytester, monkeypatch):
    """Pytest in this process, with kernels to check, every run as if it were the first."""
    known = list(adapters.registered())
    pytester.makepyfile(kernels=KERNELS, slopes=SLOPES)
    for name in ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")

    def run(*args, target="kernels.py", plugins=("attnspec.plugin", "xdist")):
        monkeypatch.setattr(adapters, "_registered", list(known))
        loaded = [part for name in plugins for part in ("-p", name)]
        given = (*loaded, "--noconftest", "--attnspec", target, *args)
        return pytester.runpytest_inprocess(*given, no_reraise_ctrlc=True)

    return run


def outcomes(result, word):
    return [line.split(f"{word} ")[1].split(" - ")[0] for line in result.outlines if line.startswith(f"{word} ")]


def cells(folder):
    lines = map(json.loads, Path(folder, "results.ndjson").read_text().splitlines())
    return {
        (c["subject"], c["law"]): (c["verdict"], c["cases"], c["worst"], c.get("witness", {}).get("key"))
        for c in lines
        if c["kind"] == "cell"
    }


# Items


def test_every_cell_is_an_item_with_a_stable_id(run):
    result = run("--collect-only", "-q", "--attnspec-report-dir", "out")
    assert IDS == [line for line in result.outlines if "::" in line]
    assert not Path("out").exists()


def test_items_pass_and_fail_as_the_cells_do(run):
    result = run("--attnspec-report-dir", "out")
    result.assert_outcomes(passed=2 * CELLS - 5, failed=3, skipped=2)
    assert sorted(FAILING) == sorted(outcomes(result, "FAILED"))
    assert {("wrong", law.split("::")[1].split("[")[0]) for law in FAILING} == {
        name for name, (verdict, *_) in cells("out").items() if verdict == "fail"
    }
    result.stdout.fnmatch_lines(
        [
            "*softmax.sums_to_one [[]wrong, float32[]]*",
            "== wrong   softmax.sums_to_one   float32 cpu *",
            "Law       The entries of a row add up to one.",
            "*softmax.definition [[]wrong, float32[]]*",
            "wrong   softmax.definition   float32   *",
            f"CONFORMANT      right (float32)   {CELLS} cells: {CELLS} pass",
            f"NOT CONFORMANT  wrong (float32)   {CELLS} cells: {CELLS - 5} pass, 3 fail, 2 not tested",
            "reports  out/results.ndjson",
        ]
    )
    assert 1 == len(list(Path("out/cases").glob("*.json")))


def test_a_shipped_adapter_is_a_target_wherever_attnspec_is_installed(run, monkeypatch):
    assert torch.__version__  # loaded before pytest runs inside pytest, for it cannot be loaded twice
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    args = ("--attnspec-dtype", "float32", "-k", "share and not equal")
    result = run(*args, target="torch_softmax", plugins=())
    result.assert_outcomes(passed=1, deselected=CELLS - 1)


def test_a_group_is_run_once_and_only_for_the_laws_that_are_left(run, monkeypatch):
    asked, original = [], runner.run
    monkeypatch.setattr(runner, "run", lambda request: asked.append(request) or original(request))
    run("-k", "right and (ratio or reordered)").assert_outcomes(passed=2, deselected=2 * CELLS - 2)
    assert [("right", {"ratio", "reordered"})] == [(request.subject.name, set(request.laws)) for request in asked]


def test_an_id_names_an_item(run):
    run(IDS[1], IDS[-9]).assert_outcomes(passed=2)


def test_the_last_failures_alone_are_run_again(run):
    run("-k", "share or sums or definition").assert_outcomes(passed=5, failed=3, deselected=2 * CELLS - 8)
    result = run("--lf", "-v")
    result.assert_outcomes(failed=3, deselected=2 * CELLS - 3)
    assert sorted(FAILING) == sorted(line.split()[0] for line in result.outlines if line.endswith("%]"))


def test_what_is_not_claimed_is_skipped_and_what_should_hold_is_an_expected_failure(run):
    run(target="slopes.py").assert_outcomes(passed=19, skipped=2, xfailed=1)
    result = run("--attnspec-fail-on", "should", "-k", "no_heads", target="slopes.py")
    result.assert_outcomes(failed=1, deselected=21)


def test_items_run_beside_the_tests_of_a_project(run, pytester):
    pytester.makepyfile(test_own="def test_own():\n    pass\n")
    run("-k", "own or ratio", "test_own.py").assert_outcomes(passed=3, deselected=2 * CELLS - 2)
    run("-k", "own or ratio").assert_outcomes(passed=2, deselected=2 * CELLS - 2)


def test_without_a_target_nothing_is_collected(pytester):
    assert pytest.ExitCode.NO_TESTS_COLLECTED == pytester.runpytest_inprocess("-p", "no:cacheprovider").ret


def test_junit_files_are_those_of_pytest(run):
    run("--junitxml", "junit.xml", "-k", "sums_to_one")
    (suite,) = ET.parse("junit.xml").getroot()
    assert ["sums_to_one[right-float32]", "sums_to_one[wrong-float32]"] == [case.get("name") for case in suite]
    assert [0, 1] == [len(case) for case in suite]


def test_a_specification_that_cannot_be_evaluated_is_told_without_a_trace(run, monkeypatch):
    def broken(request):
        raise SpecError("softmax.yaml:1:1: no")

    monkeypatch.setattr(runner, "run", broken)
    result = run("-k", "right and ratio")
    result.assert_outcomes(failed=1, deselected=2 * CELLS - 1)
    result.stdout.fnmatch_lines(["right   softmax.ratio   float32   attnspec itself failed: *softmax.yaml:1:1: no"])
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--attnspec", "nope.py"), "no such file: nope.py"),
        (("--attnspec-law", "shar"), "unknown law 'shar'; did you mean 'share'?"),
        (
            ("--attnspec-device", "no device"),
            "unknown device 'no device' (devices: cpu, cuda, cuda:N, or what a framework has)",
        ),
        (("--attnspec-profile", "slow"), "unknown profile 'slow' (profiles: smoke, quick, ci, nightly, serving)"),
        *(
            (("-n", "2", "--dist", way), f"attnspec does not run with --dist {way}; use worksteal or load")
            for way in ("loadgroup", "loadscope", "loadfile")
        ),
    ],
)
def test_bad_usage_ends_a_run_before_it_starts(run, args, says):
    result = run(*args)
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    assert f"ERROR: {says}" in result.errlines


def test_a_run_that_is_interrupted_before_it_starts_is_partial(run, monkeypatch):
    def interrupt(collector):
        raise KeyboardInterrupt

    monkeypatch.setattr(plugin.SpecFile, "collect", interrupt)
    result = run("--attnspec-report-dir", "out")
    assert pytest.ExitCode.INTERRUPTED == result.ret
    assert json.loads(Path("out/results.ndjson").read_text().splitlines()[-1])["partial"]


# Several processes


def test_two_processes_find_what_one_finds(run):
    run("--attnspec-report-dir", "one")
    run("--attnspec-report-dir", "two", "-n", "2", "--dist", "worksteal")
    assert 2 * CELLS == len(cells("one"))
    assert cells("one") == cells("two")
    end = json.loads(Path("two/results.ndjson").read_text().splitlines()[-1])
    assert ("end", False) == (end["kind"], end["partial"])


def test_the_plain_way_to_distribute_is_taken_as_well(run):
    result = run("-n", "2", "--dist", "load", "--collect-only", "-q")
    assert IDS == [line for line in result.outlines if "::" in line]


def test_an_unused_plugin_imports_nothing_heavy(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile("""
        import sys

        def test_light():
            heavy = {"numpy", "torch", "yaml", "hypothesis", "jsonschema", "attnspec.runs.run", "attnspec.mechanisms"}
            assert "attnspec.plugin" in sys.modules
            assert set() == heavy & set(sys.modules)
    """)
    pytester.runpytest_subprocess("-p", "attnspec.plugin").assert_outcomes(passed=1)


# Where things are


def test_a_case_is_kept_without_a_folder_and_its_command_works(run):
    result = run("-k", "wrong and sums_to_one")
    (key,) = {path.stem for path in Path("attnspec-report/cases").glob("*.json")}
    result.stdout.fnmatch_lines([f"Replay    attnspec replay {key}"])
    assert not Path("attnspec-report/results.ndjson").exists()
    again = CliRunner().invoke(main, ["replay", key])
    assert (Exit.VIOLATED, True) == (again.exit_code, "sums_to_one" in again.stdout)


def test_the_header_has_the_command_as_it_was_typed(run):
    run("-k", "ratio and right", "--attnspec-report-dir", "out")
    command = json.loads(Path("out/results.ndjson").read_text().splitlines()[0])["command"]
    assert command.startswith("pytest ")
    assert "--attnspec kernels.py -k 'ratio and right' --attnspec-report-dir out" in command


def test_a_case_in_another_folder_says_so_in_its_command(run):
    result = run("-k", "wrong and sums_to_one", "--attnspec-report-dir", "out")
    result.stdout.fnmatch_lines(["Replay    attnspec replay * --report-dir out"])


def test_that_a_projects_own_tests_are_left_out_is_said(run, pytester):
    pytester.makepyfile(test_own="def test_own():\n    pass\n")
    assert plugin.ALONE in run("-k", "ratio").outlines
    both = run("-k", "own or ratio", ".")
    both.assert_outcomes(passed=3, deselected=2 * CELLS - 2)
    assert plugin.ALONE not in both.outlines


@pytest.mark.parametrize(("paths", "registered"), [((), [gc.freeze]), ((".",), [])])
def test_no_garbage_is_searched_for_at_the_end_unless_a_projects_tests_may_have_left_some(
    run, monkeypatch, paths, registered
):
    ending = []
    monkeypatch.setattr(plugin, "atexit", SimpleNamespace(register=ending.append))
    run("-k", "nothing", *paths)
    assert registered == ending


@pytest.mark.parametrize("mode", ["prepend", "append", "importlib"])
def test_no_conftest_beside_the_specifications_is_loaded(pytester, monkeypatch, mode):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(kernels=KERNELS)
    pytester.makeconftest("LOADED = True")
    args = ("-p", "attnspec.plugin", "--attnspec", "kernels.py", f"--import-mode={mode}", "-k", "ratio")
    result = pytester.runpytest_subprocess(*args, "--trace-config")
    result.assert_outcomes(passed=2, deselected=2 * CELLS - 2)
    assert {str(pytester.path)} >= {
        str(Path(found).parent) for line in result.outlines for found in re.findall(r"/\S*conftest\.py", line)
    }
