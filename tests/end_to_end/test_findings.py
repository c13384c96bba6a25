"""The page of findings shows what its reproductions print, and names what exists."""

import contextlib
import io
import os
import re
import subprocess
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from unittest.mock import patch

import pytest

from attnspec.execution.devices import counted
from attnspec.judging.cells import has_name
from attnspec.mechanisms.loader import library
from attnspec.subjects.registered import find

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "findings.md").read_text("utf-8")
FINDING = re.compile(r"^## (\S+) (\S+): (.*?)\n.*?```python\n(.*?)```\n\n```text\n(.*?)```", re.MULTILINE | re.DOTALL)
FINDINGS = FINDING.findall(PAGE)
COMMAND = re.compile(r"`attnspec check (\w+)(?: --profile serving)?(?: --device cuda)?((?: --law [\w.]+)+)`")
APART = ("TRITON_INTERPRET", "os.fork", '"cuda"')
"""What is in programs that run in a process of their own."""
COMMANDS = COMMAND.findall(PAGE)


def installed(package: str) -> str | None:
    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError:
        return None


def test_every_finding_has_a_reproduction_and_a_command():
    findings, disputable = PAGE.split("\n## Deliberate")
    assert findings.count("\n## ") == len(FINDINGS)
    assert [] == [part.partition("\n")[0] for part in findings.split("\n## ")[1:] if not COMMAND.search(part)]
    assert [] == [part.partition("\n")[0] for part in disputable.split("\n- ")[1:] if not COMMAND.search(part)]


@pytest.mark.parametrize(("package", "tested", "title", "code", "printed"), FINDINGS, ids=[f[2] for f in FINDINGS])
def test_a_reproduction_prints_what_the_page_shows(package, tested, title, code, printed):
    if installed(package) != tested:
        pytest.skip(f"{package} {tested} is not installed")
    if '"cuda"' in code and not counted()[1]:
        pytest.skip("there is no CUDA device")
    shown = apart(code) if any(word in code for word in APART) else said_by(code)
    assert (printed, True) == (shown, len(code.splitlines()) <= 12)


def apart(code: str) -> str:
    """What a program prints in a process of its own: it forks, or has Triton interpreted, which is not imported yet."""
    command = [sys.executable, "-W", "ignore", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def said_by(code: str) -> str:
    """What a program prints."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as said,
        warnings.catch_warnings(),
        patch.dict(os.environ),
    ):
        warnings.simplefilter("ignore")
        exec(code, {})
    return said.getvalue()


@pytest.mark.parametrize(("adapter", "laws"), COMMANDS, ids=[c[0] + c[1].replace(" --law ", " ") for c in COMMANDS])
def test_a_command_names_an_adapter_and_laws_of_its_operator(adapter, laws):
    operator = find(adapter).operator
    for law in laws.split()[1::2]:
        mechanism, _, name = law.partition(".")
        assert (operator, True) == (library()[mechanism].operator, has_name(library()[mechanism], name))
