"""The first files of a project."""

import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.adapters import Adapter
from attnspec.cli import main
from attnspec.commands import init
from attnspec.commands.init import STEPS, WORKFLOW, Start, adapter_text, functions_in, write
from attnspec.errors import TargetError, UsageError
from attnspec.subjects.targets import subject

ROOT = Path(__file__).resolve().parents[3]
KERNELS = """
import numpy as np


def my_softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rms_norm(x, weight, eps=1e-6):
    wide = x.astype(np.float64)
    return (wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + eps) * weight).astype(x.dtype)


def helper(x):
    return x


class Attention:
    pass
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("kernels.py").write_text(KERNELS)


def called(*arguments):
    return CliRunner().invoke(main, ["init", *arguments])


def test_what_is_written_is_what_a_check_reads():
    Path("pyproject.toml").write_text('[project]\nname = "mine"')
    result = called("kernels.py")
    assert (0, "") == (result.exit_code, result.stderr)
    first, second, third, *wrote = result.stdout.splitlines()
    assert "my_softmax is treated as softmax" == first
    assert "rms_norm is treated as rms_norm" == second
    assert third.startswith("helper is skipped: the name 'helper' does not say which operator it is")
    assert ["wrote kernels_attnspec.py", f"wrote {WORKFLOW}", "added [tool.attnspec] to pyproject.toml"] == wrote
    project = tomllib.loads(Path("pyproject.toml").read_text())
    assert {"project": {"name": "mine"}, "tool": {"attnspec": {"targets": ["kernels_attnspec.py"]}}} == project
    text = Path("kernels_attnspec.py").read_text()
    assert 'framework="numpy",' in text
    assert '        "weight_form": "plain",  # shown by ' in text
    assert "def rms_norm(x, weight, *, eps=1e-06):\n    return kernels.rms_norm(x, weight, eps=eps)\n" in text
    checked = CliRunner().invoke(main, ["check", "--profile", "smoke", "--mechanism", "rms_norm"])
    assert "CONFORMANT      rms_norm (float32) " in checked.stdout


def test_a_function_of_a_known_interface_is_declared_by_it():
    def kernel(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, *, verbose=False): ...

    own = subject(Adapter("kernel", "", kernel, "numpy", like="flash_attn_func"))
    assert [
        "@adapter(",
        '    like="flash_attn_func",',
        '    framework="numpy",',
        '    dtypes=("float32",),  # and the others that it takes',
        ")",
        "def kernel(q, k, v, *, softmax_scale=None, causal=False):",
        "    return mine.kernel(q, k, v, softmax_scale=softmax_scale, causal=causal)",
    ] == adapter_text("mine", "kernel", own, iter(())).splitlines()


@pytest.mark.parametrize("there", ["kernels_attnspec.py", str(WORKFLOW)])
def test_nothing_is_written_over_a_file_and_nothing_beside_it(there):
    Path(there).parent.mkdir(parents=True, exist_ok=True)
    Path(there).write_text("mine")
    before = sorted(path for path in Path().rglob("*") if path.is_file())
    result = called("kernels.py")
    says = f"attnspec: {there} already exists and is not overwritten: move it away, or edit it\n"
    assert (4, says) == (result.exit_code, result.stderr)
    assert "mine" == Path(there).read_text()
    assert before == sorted(path for path in Path().rglob("*") if path.is_file())


def test_what_was_written_is_taken_back_where_something_cannot_be():
    start = Start(files={Path("one.py"): "1\n", Path("kernels.py", "two.py"): "2\n"})
    with pytest.raises(UsageError, match=r"cannot be written: .*; nothing was written$"):
        write(start)
    assert not Path("one.py").exists()
    assert KERNELS == Path("kernels.py").read_text()


def test_a_table_that_is_there_stays(monkeypatch):
    monkeypatch.setattr(init, "_adapters", lambda *_: "")
    Path("pyproject.toml").write_text('[tool.attnspec]\ntargets = ["a.py"]\n')
    assert (
        "pyproject.toml has a table [tool.attnspec]; add 'kernels_attnspec.py' to its targets"
        in called("kernels.py").stdout
    )
    assert '[tool.attnspec]\ntargets = ["a.py"]\n' == Path("pyproject.toml").read_text()


def test_a_table_without_a_file_is_told(monkeypatch):
    monkeypatch.setattr(init, "_adapters", lambda *_: "")
    assert '[tool.attnspec]\ntargets = ["kernels_attnspec.py"]\n' in called("kernels.py").stdout
    assert not Path("pyproject.toml").exists()


def test_a_file_that_declares_adapters_is_the_target_itself():
    Path("kernels.py").write_text(
        KERNELS + "\nimport attnspec\n\nmine = attnspec.module(Attention, 'swiglu', weights={})\n"
    )
    result = called("kernels.py")
    assert "kernels.py declares adapters by itself" == result.stdout.splitlines()[0]
    assert '[tool.attnspec]\ntargets = ["kernels.py"]\n' in result.stdout
    assert not Path("kernels_attnspec.py").exists()


def test_a_class_that_is_no_module_is_told_and_nothing_is_written():
    result = called("kernels.py:Attention")
    assert 6 == result.exit_code
    assert result.stderr.startswith("attnspec: Attention is not a module of torch, Flax or Keras")
    assert [Path("kernels.py")] == [path for path in Path().rglob("*") if path.is_file() and path.suffix != ".pyc"]


def test_the_functions_of_a_file_are_read_without_running_it():
    Path("kernels.py").write_text("raise SystemExit\n\ndef one(): ...\n\ndef _two(): ...\n")
    assert (["one"], False) == functions_in(Path("kernels.py"))
    with pytest.raises(TargetError, match=r"^kernels.py has no function or class 'two'$"):
        functions_in(Path("kernels.py"), "two")
    with pytest.raises(TargetError, match=r"^nowhere.py cannot be read: No such file or directory$"):
        functions_in(Path("nowhere.py"))


def test_a_file_of_which_nothing_can_be_called_gives_no_files():
    Path("kernels.py").write_text("def helper(x): return x\n")
    result = called("kernels.py")
    assert 4 == result.exit_code
    assert "no function of kernels.py can be called as an operator; name one with --operator" in result.stderr
    assert not WORKFLOW.exists()


def test_the_workflow_is_of_the_steps_in_the_documentation():
    page = (ROOT / "docs" / "ci.md").read_text("utf-8")
    for line in STEPS.splitlines():
        step = line.strip()
        assert step in page or step in ("- run: attnspec check --profile ci --workers 2", "name: conformance")
