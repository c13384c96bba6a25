"""`attnspec replay`: a failure that a check has kept is shown again as it was."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.errors import Exit
from attnspec.reporting.blocks import block

KERNELS = """
import os
import numpy as np
from attnspec import adapter

def softmax(x):
    with np.errstate(all="ignore"):
        terms = np.exp(x - np.maximum(x.max(-1, keepdims=True), -1e30))
        return terms / np.maximum(terms.sum(-1, keepdims=True), 1e-30)

def declared(function):
    return adapter("softmax", framework="numpy", dtypes=("float32", "float64"), deterministic=True)(function)

@declared
def half(x):
    return softmax(x) / 2 if "FAULTY" in os.environ else softmax(x)

@declared
def raises(x):
    if "FAULTY" in os.environ and x.shape[-1] > 16:
        raise ValueError("a tile holds 16")
    return softmax(x)

@declared
def in_place(x):
    p = softmax(x)
    if "FAULTY" in os.environ and x.flags.writeable and x.shape[-1] == 33:
        x[..., 0] = 0
    return p

@declared
def alternating(x, calls=[0]):
    calls[0] += 1
    return softmax(x) * x.dtype.type(1 + ("FAULTY" in os.environ) * (calls[0] % 2) * np.finfo(x.dtype).eps)

@declared
def narrow(x):
    return softmax(x).astype("float32" if "FAULTY" in os.environ else x.dtype).astype(x.dtype)

@adapter("alibi_slopes", framework="numpy", conventions={"slopes": "geometric"})
def slopes(*, heads):
    if heads < 1 and "FAULTY" not in os.environ:
        raise ValueError("no heads")
    return (2.0 ** (-8 * np.arange(1, heads + 1) / max(heads, 1))).astype("float32")
"""
RUNS = "attnspec: runs kernels.py, which the case names\n"
BOTH = {
    "half": "sums_to_one",
    "raises": "definition",
    "in_place": "contract.inputs_unchanged",
    "alternating": "contract.repeatable",
}
KEPT = [
    *((name, dtype, law) for name, law in BOTH.items() for dtype in ("float32", "float64")),
    ("narrow", "float64", "contract.precision"),
    ("slopes", "float32", "no_heads"),
]


def attnspec(*args):
    return CliRunner().invoke(main, list(args))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of faulty kernels: its folder, and the cells that fail with a witness."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("FAULTY", "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            patch.setenv(name, "1")
        patch.setenv("MKL_NUM_THREADS", "1")
        Path("kernels.py").write_text(KERNELS)
        attnspec("check", "kernels.py", "--fail-on", "should", "--seed", "11")
    lines = map(json.loads, (folder / "attnspec-report/results.ndjson").read_text().splitlines())
    return folder, {(c["subject"], c["dtype"], c["law"]): c for c in lines if "witness" in c}


@pytest.fixture
def failures(run, monkeypatch):
    """The cells that fail, where they failed, with the kernels as faulty as they were."""
    monkeypatch.chdir(run[0])
    monkeypatch.setenv("FAULTY", "1")
    return run[1]


def key(failures, name="half", law="sums_to_one"):
    return failures[name, "float32", law]["witness"]["key"]


def test_every_failure_is_kept_under_a_key_of_its_own(failures):
    assert set(KEPT) == set(failures)
    kept = {path.stem for path in Path("attnspec-report/cases").iterdir()}
    assert kept == {cell["witness"]["key"] for cell in failures.values()}
    assert len(KEPT) == len(kept)


@pytest.mark.parametrize("failure", KEPT, ids="-".join)
def test_a_replay_shows_the_failure_as_it_was(failures, failure):
    cell = failures[failure]
    shown = block(cell["witness"], cell)
    result = attnspec("replay", cell["witness"]["key"])
    assert (Exit.VIOLATED, RUNS) == (result.exit_code, result.stderr)
    assert shown == result.stdout.splitlines()[: len(shown)]


@pytest.mark.parametrize("failure", KEPT, ids="-".join)
def test_a_mended_kernel_passes_its_case(failures, failure, monkeypatch):
    monkeypatch.delenv("FAULTY")
    cell = failures[failure]
    result = attnspec("replay", cell["witness"]["key"])
    word = "held" if cell["law"] in ("sums_to_one", "definition") else "pass"
    said = f"{cell['subject']} {cell['mechanism']}.{cell['law']}: {word} on this case now"
    assert (Exit.CONFORMANT, RUNS) == (result.exit_code, result.stderr)
    assert result.stdout.startswith(said)


def test_a_call_that_raises_is_replayed_with_its_trace(failures):
    shown = attnspec("replay", key(failures, "raises", "definition")).stdout
    assert "Traceback (most recent call last)" in shown
    assert shown.rstrip().endswith("ValueError: a tile holds 16")


def test_a_case_is_found_by_its_folder_or_by_its_path(failures):
    for args in ([f"attnspec-report/cases/{key(failures)}.json"], [key(failures), "--report-dir", "attnspec-report"]):
        assert Exit.VIOLATED == attnspec("replay", *args).exit_code
    assert Exit.USAGE == attnspec("replay", key(failures), "--report-dir", "elsewhere").exit_code


def test_the_arrays_that_are_kept_take_the_place_of_draws(failures):
    kept = json.loads(Path(f"attnspec-report/cases/{key(failures)}.json").read_text())
    array = {"dtype": "float64", "shape": [1, 2], "entries": [0.0, "-inf"]}
    kept["case"].update(seed=1, fixed={"rows": 1, "n": 2}, literals={"x": array})
    Path("changed.json").write_text(json.dumps(kept))
    assert "input     x = [[  0., -inf]]" in attnspec("replay", "changed.json").stdout.splitlines()


def test_an_unknown_case_is_refused_with_those_there_are(failures):
    result = attnspec("replay", "zzz")
    assert Exit.USAGE == result.exit_code
    assert result.stderr.startswith("attnspec: no case 'zzz' in attnspec-report/cases (available: ")
    assert min(path.stem for path in Path("attnspec-report/cases").iterdir()) in result.stderr


@pytest.mark.parametrize("text", ["{", "{}", '{"case": {}}'])
def test_a_file_that_is_no_case_is_refused(text):
    Path("broken.json").write_text(text)
    result = attnspec("replay", "broken.json")
    assert Exit.USAGE == result.exit_code
    assert result.stderr.startswith("attnspec: broken.json:1:")


def test_a_file_that_a_case_names_is_run_only_in_the_present_folder_or_with_trust(failures, tmp_path):
    kept = json.loads(Path(f"attnspec-report/cases/{key(failures)}.json").read_text())
    marker, program = tmp_path / "was-run", tmp_path / "program.py"
    program.write_text(f"open({str(marker)!r}, 'w')\n" + KERNELS)
    Path("foreign.json").write_text(json.dumps({**kept, "target": str(program)}))
    result = attnspec("replay", "foreign.json")
    says = f"the case foreign.json names {program}, a program outside the current folder; --trust runs it"
    assert (Exit.USAGE, f"attnspec: {says}\n", False) == (result.exit_code, result.stderr, marker.exists())
    result = attnspec("replay", "foreign.json", "--trust")
    assert (Exit.VIOLATED, True) == (result.exit_code, marker.exists())
    assert f"attnspec: runs {program}, which the case names\n" == result.stderr


def test_a_plain_function_is_replayed_as_the_operator_that_it_was(monkeypatch):
    for name in ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    Path("wrong.py").write_text("import numpy as np\n\ndef kernel(x):\n    return np.exp(x)\n")
    attnspec("check", "wrong.py:kernel", "--operator", "softmax", "--law", "sums_to_one")
    (case,) = Path("attnspec-report/cases").glob("*.json")
    result = attnspec("replay", case.stem)
    assert (Exit.VIOLATED, "attnspec: runs wrong.py, which the case names\n") == (result.exit_code, result.stderr)
    assert "== kernel   softmax.sums_to_one   float32 cpu " in result.stdout
