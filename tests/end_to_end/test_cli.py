"""The command line: what the commands say, and what they leave with."""

import errno
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cases.profiles import PROFILES
from attnspec.cli import main
from attnspec.commands.listing import listed
from attnspec.commands.pages import explained
from attnspec.errors import Exit
from attnspec.runs import run, runner
from attnspec.runs.options import OPTIONS
from attnspec.vectors import sets

LISTS = ("mechanisms", "laws", "operators", "adapters", "mistakes", "conventions", "functions")
SOFTMAX = """
import numpy as np
from attnspec import adapter

@adapter("softmax", framework="numpy", conventions={"empty_row": "zeros"})
def kernel(x):
    with np.errstate(all="ignore"):
        terms = np.exp(x - np.maximum(x.max(-1, keepdims=True), -1e30))
        p = terms / np.maximum(terms.sum(-1, keepdims=True), 1e-30)
    return RESULT
"""
CONFORMANT = SOFTMAX.replace("RESULT", "p")
SLOPES = """
import numpy as np
from attnspec import adapter

@adapter("alibi_slopes", framework="numpy")
def kernel(*, heads):
    return (2.0 ** (-8 * np.arange(1, heads + 1) / max(heads, 1))).astype("float32")
"""
FILES = {
    "kernel.py": CONFORMANT,
    "half.py": SOFTMAX.replace("RESULT", "p / 2"),
    "slopes.py": SLOPES,
    "none.py": SOFTMAX.replace("RESULT", "None"),
    "cut.py": SOFTMAX.replace("RESULT", "p[..., :1]"),
    "named.py": SOFTMAX.replace("RESULT", "{'q': p}"),
    "raises.py": SOFTMAX.replace("RESULT", "[][len(x)]"),
    "stopped.py": CONFORMANT
    + SOFTMAX.replace("RESULT", "(_ for _ in ()).throw(KeyboardInterrupt)").replace("def kernel", "def later"),
    "empty.py": "x = 1\n",
    "imports.py": "import math\n\nimport no_such_module\n",
    "syntax.py": "x = 1\ndef kernel(x:\n",
    "convention.py": CONFORMANT.replace("empty_row", "emty_row"),
    "word.py": CONFORMANT.replace('"zeros"', '"zeroes"'),
    "framework.py": CONFORMANT.replace('"numpy"', '"numpi"'),
    "operator.py": CONFORMANT.replace('"softmax"', '"sofmax"'),
    "dtype.py": CONFORMANT.replace("framework=", 'dtypes=("flot32",), framework='),
    "grade.py": CONFORMANT.replace("framework=", 'grade="fp23", framework='),
    "limits.py": CONFORMANT.replace("framework=", 'limits={"row": (1, 2)}, framework='),
    "parameter.py": CONFORMANT.replace("(x)", "(x, *, axis)"),
    "twice.py": CONFORMANT * 2,
}


@pytest.fixture(autouse=True)
def _files(monkeypatch):
    """Files to check, and what a run sets in the environment set already, so that it is taken back."""
    for name in ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    for name, text in FILES.items():
        Path(name).write_text(text)


def attnspec(*args):
    return CliRunner().invoke(main, [str(arg) for arg in args])


def cells():
    lines = map(json.loads, Path("attnspec-report/results.ndjson").read_text().splitlines())
    return {(c["law"], c["dtype"]): c["verdict"] for c in lines if c["kind"] == "cell"}


# Exit codes


@pytest.mark.parametrize(
    ("args", "code", "last"),
    [
        (["kernel.py"], Exit.CONFORMANT, "CONFORMANT      kernel (float32)   24 cells: 24 pass"),
        (["half.py"], Exit.VIOLATED, "NOT CONFORMANT  kernel (float32)   24 cells: 19 pass, 3 fail, 2 not tested"),
        (["kernel.py", "--law", "softmax.ratio"], Exit.CONFORMANT, "CONFORMANT      kernel (float32)   1 cell: 1 pass"),
        (
            ["stopped.py", "--no-isolate"],
            Exit.INTERRUPTED,
            "  PARTIAL: the run did not finish; the results so far are valid",
        ),
        (["raises.py", "--law", "ratio"], Exit.VIOLATED, "NOT CONFORMANT  kernel (float32)   1 cell: 1 error"),
    ],
)
def test_a_run_ends_with_its_verdict(args, code, last):
    result = attnspec("check", *args)
    assert (code, "") == (result.exit_code, result.stderr)
    assert last in result.stdout.splitlines()


def test_a_law_that_should_hold_fails_a_subject_only_where_it_is_asked_to():
    found, asked = attnspec("check", "slopes.py"), attnspec("check", "slopes.py", "--fail-on", "should")
    assert (Exit.CONFORMANT, Exit.VIOLATED) == (found.exit_code, asked.exit_code)
    assert "  failing `should` laws (~): kernel alibi_slopes.no_heads" in found.stdout.splitlines()
    (verdict,) = [line for line in found.stdout.splitlines() if line.startswith("CONFORMANT")]
    assert verdict.endswith(", 1 fails a `should`")
    (verdict,) = [line for line in asked.stdout.splitlines() if line.startswith("NOT CONFORMANT")]
    assert ", 1 fail" in verdict
    assert "should" not in verdict


@pytest.mark.parametrize(("where", "what"), [(runner, "run"), (run, "groups"), (run.Run, "keep")])
def test_a_fault_of_ours_is_told_apart_from_one_of_the_subject(monkeypatch, where, what):
    monkeypatch.setattr(where, what, lambda *_: 1 / 0)
    result = attnspec("check", "kernel.py", "--law", "ratio")
    first, second = result.stderr.splitlines()
    assert Exit.INTERNAL == result.exit_code
    assert first.startswith("attnspec: internal error: ")
    assert first.endswith("ZeroDivisionError: division by zero")
    assert "attnspec: this is an error in attnspec; -v shows where" == second
    again = attnspec("check", "kernel.py", "--law", "ratio", "-v")
    assert "lambda *_: 1 / 0" in again.stdout + again.stderr


def test_a_command_without_v_shows_where_a_fault_of_ours_is(monkeypatch):
    monkeypatch.setattr(sets, "files", lambda *_: 1 / 0)
    result = attnspec("vectors", "softmax", "-o", "vectors")
    first, *_, last = result.stderr.splitlines()
    assert (Exit.INTERNAL, "") == (result.exit_code, result.stdout)
    assert "attnspec: internal error: ZeroDivisionError: division by zero" == first
    assert last.endswith("ZeroDivisionError: division by zero")
    assert "-v" not in result.stderr


def test_a_disk_without_room_is_no_fault_of_ours(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(run, "groups", full)
    result = attnspec("check", "kernel.py", "--law", "ratio")
    assert (Exit.USAGE, "attnspec: cannot write: No space left on device\n") == (result.exit_code, result.stderr)


# Messages


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        ("nope.py", 6, "no such file: nope.py"),
        (
            "empty.py",
            6,
            "empty.py declares no adapter; decorate a function with @attnspec.adapter(...), or name one, as",
        ),
        (
            "imports.py",
            6,
            "imports.py cannot be imported, line 3: ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("syntax.py", 6, "syntax.py cannot be imported, line 2: SyntaxError: "),
        ("kernel.py:kernle", 6, "kernel.py has no function 'kernle'; did you mean 'kernel'?"),
        ("parameter.py", 6, "parameter.py:5: kernel: the parameter 'axis' is not an input or option of softmax"),
        ("torch_softmx", 6, "unknown target 'torch_softmx'; did you mean 'torch_softmax'?"),
        ("zzz", 6, "unknown target 'zzz'; a file is given as path/to/file.py, and 'attnspec list adapters' lists them"),
        ("operator.py", 4, "operator.py:5: kernel: unknown operator 'sofmax'; did you mean 'softmax'?"),
        ("framework.py", 4, "framework.py:5: kernel: unknown framework 'numpi'; did you mean 'numpy'?"),
        ("convention.py", 4, "convention.py:5: kernel: unknown convention 'emty_row'; did you mean 'empty_row'?"),
        (
            "word.py",
            4,
            "word.py:5: kernel: empty_row is one of zeros, nans, mean_value, not 'zeroes'; did you mean 'zeros'?",
        ),
        ("dtype.py", 4, "dtype.py:5: kernel: unknown dtype 'flot32'; did you mean 'float32'?"),
        ("grade.py", 4, "grade.py:5: kernel: unknown grade 'fp23'; did you mean 'fp32'? (grades: fp64, fp32, "),
        (
            "limits.py",
            4,
            "limits.py:5: kernel: limits and fixed take sizes and options, not 'row'; did you mean 'rows'?",
        ),
        ("twice.py", 4, "two subjects are named 'kernel'; rename one"),
        ("mistake:softmax.bass_two", 4, "softmax has no mistake 'bass_two'; did you mean 'base_two'?"),
        ("mistake:sofmax.base_two", 4, "unknown mechanism 'sofmax'; did you mean 'softmax'?"),
        ("kernel.py --mechanism sofmax", 4, "unknown mechanism 'sofmax'; did you mean 'softmax'?"),
        ("kernel.py --law sum_to_one", 4, "unknown law 'sum_to_one'; did you mean 'sums_to_one'?"),
        ("kernel.py --law softmax.share --mechanism attention", 4, "unknown law 'softmax.share'"),
        ("kernel.py --dtype flot32", 4, "unknown dtype 'flot32'; did you mean 'float32'? (dtypes: float64, float32, "),
        (
            "kernel.py --profile quik",
            4,
            "unknown profile 'quik'; did you mean 'quick'? (profiles: smoke, quick, ci, nightly, serving)",
        ),
        ("kernel.py --device cpus", 4, "unknown device 'cpus'; did you mean 'cpu'? ('attnspec doctor' lists "),
        ("kernel.py --shard 3/2", 4, "a shard must be written as in 1/4, not '3/2'"),
        ("kernel.py --report-dir kernel.py", 4, "cannot write to kernel.py: "),
        ("kernel.py --dtype float16", 5, "nothing to test: no target claims these mechanisms and dtypes"),
        ("kernel.py --mechanism attention", 5, "nothing to test: no target claims these mechanisms and dtypes"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(args, code, message):
    result = attnspec("check", *args.split())
    said = result.stderr.splitlines()
    assert (code, 1, "") == (result.exit_code, len(said), result.stdout)
    assert said[0].startswith(f"attnspec: {message}")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("check", "name a target, or use --all ('attnspec list adapters' lists adapters)"),
        ("check kernel.py --fail-on maybe", "'maybe' is not one of 'must', 'should', 'new'"),
        ("check kernel.py --dtipe float32", "No such option '--dtipe'"),
        ("list adapers", "'adapers' is not one of 'mechanisms', 'laws', 'operators', 'adapters'"),
        ("chek kernel.py", "No such command 'chek'"),
        ("explain", "Missing argument 'NAME'"),
    ],
)
def test_bad_usage_shows_the_usage(args, message):
    result = attnspec(*args.split())
    assert Exit.USAGE == result.exit_code
    assert result.stderr.startswith("Usage: ")
    assert message in result.stderr


def test_without_a_command_the_commands_are_listed():
    result = attnspec()
    assert Exit.USAGE == result.exit_code
    assert "Test this suite:" in result.stdout


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("none.py", "returned None, and no 'p'"),
        ("cut.py", "p has the shape [1, 1], not [1, 2]"),
        ("named.py", "returned an output 'q'; softmax has p"),
        ("raises.py", "IndexError: list index out of range"),
    ],
)
def test_a_call_without_a_result_is_an_error_of_the_subject(file, says):
    result = attnspec("check", file, "--law", "definition")
    assert (Exit.VIOLATED, "") == (result.exit_code, result.stderr)
    assert f"Result    {says}" in result.stdout.splitlines()
    assert "Traceback" not in result.stdout


def test_the_trace_is_shown_when_it_is_asked_for():
    quiet, verbose = attnspec("check", "imports.py"), attnspec("check", "-v", "imports.py")
    assert verbose.stderr.startswith(quiet.stderr)
    assert "Traceback" in verbose.stderr
    result = attnspec("check", "-v", "raises.py", "--law", "definition")
    assert "-- trace of kernel, case " in result.stdout
    assert "return [][len(x)]" in result.stdout


def test_a_misspelt_key_is_said_with_its_place():
    Path("softmax.yaml").write_text("mechanism: softmax\ntitle: Softmax\nversion: 1\nscenaros:\n  plain: n = 7\n")
    result = attnspec("lint", "softmax.yaml")
    assert Exit.USAGE == result.exit_code
    assert "softmax.yaml:4:1: unknown key 'scenaros'; did you mean 'scenarios'?" in result.stdout.splitlines()
    assert result.stdout.splitlines()[-1].startswith("1 file, ")


# Options of a check


def test_shards_are_parts_of_the_whole():
    Path("double.py").write_text(CONFORMANT.replace("framework=", 'dtypes=("float32", "float64"), framework='))
    parts = []
    for shard in ("1/2", "2/2"):
        attnspec("check", "double.py", "--law", "share", "--shard", shard)
        parts += cells()
    assert [("share", "float32"), ("share", "float64")] == sorted(parts)


def test_the_first_failure_ends_a_run_where_it_is_to():
    attnspec("check", "half.py", "-x")
    assert {("sums_to_one", "float32"): "fail"} == cells()


def test_time_that_has_run_out_makes_a_run_partial():
    result = attnspec("check", "kernel.py", "--law", "ratio", "--max-time", "0")
    assert Exit.NOTHING_TESTED == result.exit_code
    assert "PARTIAL" in result.stdout


# Lists and pages


@pytest.mark.parametrize("what", LISTS)
def test_everything_can_be_listed(what):
    result = attnspec("list", what)
    assert (0, list(listed(what))) == (result.exit_code, result.stdout.splitlines())


def test_a_name_is_explained():
    result = attnspec("explain", "softmax.share")
    assert (0, list(explained("softmax.share"))) == (result.exit_code, result.stdout.splitlines())


def test_an_unknown_name_is_not_explained():
    result = attnspec("explain", "sums_to_on")
    said = "attnspec: nothing is named 'sums_to_on'; did you mean 'sums_to_one'?\n"
    assert (Exit.USAGE, said) == (result.exit_code, result.stderr)


@pytest.mark.parametrize("command", [[], *([name] for name in main.commands)])
def test_help_fits_eighty_columns_and_cuts_nothing_off(command):
    said = CliRunner().invoke(main, [*command, "--help"], terminal_width=80).stdout.splitlines()
    assert max(map(len, said)) <= 80
    assert [] == [line for line in said if line.endswith("...") and not line.startswith("Usage")]


def test_every_help_names_every_profile():
    for said in (attnspec("check", "--help").stdout, OPTIONS["profile"].says):
        assert [] == [name for name in PROFILES if name not in said]


def test_the_version_is_that_of_the_package():
    assert f"attnspec {version('attnspec')}\n" == attnspec("--version").stdout


# Processes


def test_help_and_lists_import_nothing_heavy():
    script = """
import sys
from click.testing import CliRunner
from attnspec.cli import main

for args in (["--help"], ["check", "--help"], ["list", "adapters"]):
    assert CliRunner().invoke(main, args).exit_code == 0
    print(sorted({"torch", "numpy", "yaml", "pytest", "hypothesis", "transformers", "onnx"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    helped, checked, listed = done.stdout.splitlines()
    assert ("[]", "[]") == (helped, checked)
    assert "torch" not in listed
    assert "transformers" not in listed


def test_a_check_runs_without_pytest():
    script = """
import sys
from click.testing import CliRunner
from attnspec.cli import main

assert CliRunner().invoke(main, ["check", "kernel.py", "--law", "share", "--profile", "smoke"]).exit_code == 0
print(sorted({"pytest", "_pytest", "xdist", "attnspec.plugin", "attnspec.api"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ("[]\n", "") == (done.stdout, done.stderr)


def test_a_reader_who_has_seen_enough_is_no_fault():
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "attnspec.cli", "list", "laws"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (0, "") == (done.returncode, done.stderr)
