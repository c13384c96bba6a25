"""Programs in any language are checked by the protocol as functions of Python are, whatever becomes of them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import attnspec
from attnspec.cli import main
from attnspec.errors import TargetError, UsageError
from attnspec.execution.calling import Call
from attnspec.execution.offers import wrong
from attnspec.execution.supervisor import Supervisor, supervisor
from attnspec.subjects.targets import resolve

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/protocol"
C = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
RUST = pytest.mark.skipif(not shutil.which("rustc"), reason="no Rust compiler")
PYTHON = f"{sys.executable} {EXAMPLES / 'kernels.py'}"
SERVER = """
import json, os, sys, time
import numpy as np
mode, calls = sys.argv[1], 0
for line in sys.stdin:
    asked = json.loads(line)
    if asked["ask"] == "capabilities":
        functions = [{"name": "softmax", "operator": "softmax"}]
        print(json.dumps({"id": asked["id"], "protocol": 1, "functions": functions}), flush=True)
        continue
    calls += 1
    print("it was called", file=sys.stderr, flush=True)
    if mode == "crash" or (mode == "once" and not os.path.exists("crashed")):
        open("crashed", "w").close()
        os.abort()
    if mode == "hang":
        time.sleep(100)
    if mode == "print":
        print("loading the model", flush=True)
    if mode == "flood":
        sys.stdout.write("x" * (3 << 20))
    if mode == "log":
        for _ in range(300):
            sys.stderr.write("x" * (1 << 16) + "\\n")
    if mode == "refuse":
        error = {"kind": "unsupported", "says": "not on this machine"}
        print(json.dumps({"id": asked["id"], "error": error}), flush=True)
        continue
    said = asked["inputs"]["x"]
    if mode == "write":
        with open(asked["arrays"], "r+b") as file:
            file.seek(said["offset"])
            file.write(bytes(4))
    with open(asked["arrays"], "rb") as file:
        x = np.ndarray(said["shape"], said["dtype"], file.read(), said["offset"])
    with np.errstate(all="ignore"):
        p = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    p = (p / p.sum(-1, keepdims=True)).astype(np.float32)
    p.tofile(asked["results"])
    outputs = {"p": {"dtype": "float32", "shape": p.shape if mode != "beyond" else [1 << 40]}}
    print(json.dumps({"id": asked["id"] + (mode == "other"), "outputs": outputs}), flush=True)
"""


def built(folder, *flags):
    """The example in C as a program."""
    path = folder / "kernels"
    command = [
        "cc",
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-O2",
        *flags,
        EXAMPLES / "kernels.c",
        "-lm",
        "-o",
        path,
    ]
    subprocess.run(command, check=True, timeout=120)
    return path


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.py").write_text(SERVER)
    return tmp_path


@pytest.fixture
def supervised():
    made = Supervisor(1.0)
    yield made
    made.close()


def served(mode):
    return f"exec:{sys.executable} server.py {mode}"


def law(report, name):
    (found,) = [cell for cell in report.cells if (cell["mechanism"], cell["law"]) == ("softmax", name)]
    return found["verdict"], found["says"]


@C
def test_kernels_in_c_are_conformant(here):
    report = attnspec.check(f"exec:{built(here)}")
    assert {"softmax_c": "conformant", "attention_c": "conformant"} == report.verdicts


@C
def test_a_wrong_kernel_in_c_is_called_by_its_mistake_and_fails_again_when_it_is_replayed(here):
    program = built(here, "-DSEES_NEXT")
    run = CliRunner().invoke(main, ["check", "exec:./kernels::attention_c", "--mechanism", "causal_mask", "-n", "2"])
    lines = run.stdout.splitlines()
    assert 1 == run.exit_code
    assert "Like      causal_mask.sees_next: A query sees one key too many." in lines
    (key,) = [line.split()[-1] for line in lines if line.startswith("Replay")]
    again = CliRunner().invoke(main, ["replay", key])
    assert (1, True) == (again.exit_code, "runs kernels, which the case names" in again.stderr)
    program.write_bytes(built(here).read_bytes())
    assert 0 == CliRunner().invoke(main, ["replay", key]).exit_code
    assert "a call of a program cannot be written" in CliRunner().invoke(main, ["repro", key]).stderr


@RUST
def test_a_kernel_in_rust_is_conformant_and_keeps_the_protocol(here):
    subprocess.run(["rustc", "-D", "warnings", EXAMPLES / "kernels.rs", "-o", "kernels"], check=True, timeout=120)
    assert {"softmax_rust": "conformant"} == attnspec.check("exec:./kernels").verdicts
    assert 0 == CliRunner().invoke(main, ["check-protocol", "./kernels"]).exit_code


def test_kernels_in_numpy_are_conformant(here):
    report = attnspec.check(f"exec:{PYTHON}")
    assert {"softmax_numpy": "conformant", "rms_norm_numpy": "conformant"} == report.verdicts


def test_conventions_of_a_program_are_identified(here):
    found = CliRunner().invoke(main, ["identify", f"exec:{PYTHON}::rms_norm_numpy"])
    assert (0, True) == (found.exit_code, '"eps_place": "inside"' in found.stdout)


@pytest.mark.parametrize(
    ("mode", "kind", "says"),
    [
        ("crash", "died", "the process died of SIGABRT"),
        ("print", "died", "the program wrote an invalid reply: 'loading the model'"),
        ("flood", "flooded", "bytes without the end of a line"),
        ("log", "flooded", "printed"),
        ("hang", "hung", "did not reply within 4 s"),
        ("other", "died", "the program answered question 2, not 1"),
        ("beyond", "returned", "of 4,398,046,511,104 bytes from 0 on; the file of outputs has"),
        ("refuse", "unsupported", "not on this machine"),
    ],
)
def test_whatever_a_program_does_costs_its_call_alone(here, supervised, mode, kind, says):
    (subject,) = resolve(served(mode), supervisor=supervised)
    call = Call({"x": np.zeros((2, 3))}, {}, "float32")
    for _ in range(1 if mode == "hang" else 2):
        fault = subject.call(call).fault
        assert (kind, True) == (fault.kind, says in fault.says)
    assert mode not in ("crash", "log") or "it was called" in fault.trace or "xxx" in fault.trace


def test_a_program_that_is_lost_is_found_again_by_the_next_call(here, supervised):
    (subject,) = resolve(served("once"), supervisor=supervised)
    call = Call({"x": np.zeros((2, 3))}, {}, "float32")
    assert "died" == subject.call(call).fault.kind
    assert 6 == (subject.call(call).outputs["p"] == np.float32(1 / 3)).sum()


def test_an_input_that_a_program_writes_to_is_noticed(here):
    report = attnspec.check(served("write"), laws=("softmax.contract.inputs_unchanged",))
    assert ("fail", "the call changed its input 'x'") == law(report, "contract.inputs_unchanged")


@pytest.mark.parametrize(
    ("target", "error", "says"),
    [
        ("exec:", UsageError, "is followed by a command"),
        ("exec:no_such_program", TargetError, "no_such_program cannot be run: No such file or directory"),
        ("exec:false", TargetError, "the program exited with status 1"),
        ("exec:echo hello", TargetError, "the program wrote"),
        ("exec:cat", TargetError, "its capabilities do not fit the protocol: 'functions' is a required property"),
        (f"exec:{PYTHON}::softmax_nump", TargetError, "did you mean 'softmax_numpy'?"),
    ],
)
def test_what_offers_nothing_is_told_why(here, target, error, says):
    with pytest.raises(error) as found:
        attnspec.check(target)
    assert says in str(found.value)


def test_a_program_is_not_called_without_isolation(here):
    with pytest.raises(UsageError) as found:
        attnspec.check(f"exec:{PYTHON}", isolate=False)
    assert "leave out --no-isolate" in str(found.value)


def test_a_project_names_a_program_beside_its_file(here, monkeypatch):
    (here / "pyproject.toml").write_text(
        f'[tool.attnspec]\ntargets = ["exec:{sys.executable} server.py fine"]\nlaws = ["softmax.definition"]\n'
    )
    (here / "inner").mkdir()
    monkeypatch.chdir(here / "inner")
    run = CliRunner().invoke(main, ["check"])
    assert (0, True) == (run.exit_code, "CONFORMANT      softmax (float32)" in run.stdout)


def test_nothing_is_left_of_arrays_or_programs(here):
    before = {path.name for path in Path("/dev/shm").glob("attnspec-arrays-*")}
    attnspec.check(served("fine"), laws=("softmax.definition",))
    supervisor(30.0, "cpu").close()
    assert before >= {path.name for path in Path("/dev/shm").glob("attnspec-arrays-*")}
    assert [] == running("server.py fine")


def running(text):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path] if text.encode() in path.read_bytes().replace(b"\0", b" ") else []
        except OSError:
            continue
    return found


@C
def test_the_example_in_c_keeps_every_clause(here):
    built(here)
    run = CliRunner().invoke(main, ["check-protocol", "./kernels"])
    assert (0, "KEPT    every clause") == (run.exit_code, run.stdout.splitlines()[-1])


def test_every_message_of_the_page_fits_the_schema():
    page = (EXAMPLES.parents[1] / "docs/protocol.md").read_text("utf-8")
    shown = [json.loads(part.partition("```")[0]) for part in page.split("```json\n")[1:]]
    kinds = ["AskCapabilities", "Capabilities", "AskCall", "Outputs", "Error"]
    assert ([], 5) == ([says for one, kind in zip(shown, kinds, strict=True) if (says := wrong(one, kind))], len(shown))
