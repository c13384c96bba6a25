"""What a project declares in its pyproject.toml."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec import UsageError
from attnspec.cli import main
from attnspec.errors import Exit
from attnspec.reporting.results import read
from attnspec.runs.project import declared

KERNEL = """
import numpy as np
from attnspec import adapter

@adapter("softmax", framework="numpy", dtypes=("float32", "float64"), conventions={"empty_row": "nans"})
def kernel(x):
    with np.errstate(all="ignore"):
        p = np.exp(x - x.max(-1, keepdims=True))
        return p / p.sum(-1, keepdims=True)
"""
TABLE = """
[tool.attnspec]
targets = ["kernel.py"]
dtypes = ["float32"]
laws = ["share"]
profile = "smoke"
report_dir = "out"
"""


def check(*args):
    return CliRunner().invoke(main, ["check", *args])


def test_a_check_without_arguments_checks_what_the_project_declares(monkeypatch):
    Path("pyproject.toml").write_text(TABLE)
    Path("kernel.py").write_text(KERNEL)
    Path("inside").mkdir()
    monkeypatch.chdir("inside")
    result = check()
    assert Exit.CONFORMANT == result.exit_code, result.output
    lines = read(Path("../out/results.ndjson"))
    assert (["../kernel.py"], "smoke", "attnspec check") == tuple(
        lines[0][k] for k in ("targets", "profile", "command")
    )
    assert [("share", "float32")] == [(c["law"], c["dtype"]) for c in lines if c["kind"] == "cell"]


def test_the_command_line_wins_over_the_file():
    Path("pyproject.toml").write_text(TABLE)
    Path("kernel.py").write_text(KERNEL)
    assert Exit.CONFORMANT == check("kernel.py:kernel", "--dtype", "float64", "--report-dir", "here").exit_code
    header, *lines = read(Path("here/results.ndjson"))
    assert ["kernel.py:kernel"] == header["targets"]
    assert [("share", "float64")] == [(c["law"], c["dtype"]) for c in lines if c["kind"] == "cell"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "[tool.attnspec]\ndtype = ['float32']\n",
            r"\[tool.attnspec\] has the unknown key 'dtype'; did you mean 'dtypes'",
        ),
        ("[tool.attnspec]\nresume = true\n", r"has the unknown key 'resume'"),
        ("[tool.attnspec]\nfail_on = 'may'\n", r"fail_on is 'may'; expected one of must, should, new"),
        ("[tool.attnspec]\nseed = true\n", r"seed is true or false; expected an integer"),
        ("[tool]\nattnspec = 1\n", r"tool.attnspec is not a table; write \[tool.attnspec\]"),
        ("[tool.attnspec\n", r"cannot be read: "),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_key(text, says):
    Path("pyproject.toml").write_text(text)
    with pytest.raises(UsageError, match=f"pyproject.toml.*{says}"):
        declared(Path.cwd())
    result = check()
    assert (Exit.USAGE, True) == (result.exit_code, result.stderr.startswith("attnspec: pyproject.toml"))


@pytest.mark.parametrize("text", [None, "", "[tool.ruff]\nline-length = 120\n"])
def test_a_project_need_not_declare_anything(text):
    if text is not None:
        Path("pyproject.toml").write_text(text)
    assert {} == declared(Path.cwd())
    assert "name a target" in check().stderr


def test_pytest_takes_what_the_project_declares_once_it_is_asked_to_check(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(kernel=KERNEL)
    pytester.makepyprojecttoml(TABLE)
    pytester.runpytest_inprocess("-p", "attnspec.plugin", "--noconftest", "--attnspec", "kernel.py").assert_outcomes(
        passed=1
    )
    none = pytester.runpytest_inprocess("-p", "attnspec.plugin", "--noconftest")
    assert pytest.ExitCode.NO_TESTS_COLLECTED == none.ret
