"""A report that is sent: what a command writes."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.errors import Exit

KERNEL = """
import numpy as np
from attnspec import adapter


@adapter("softmax", framework="numpy", conventions={"empty_row": "zeros"})
def halved(x):
    terms = np.exp(x - np.maximum(x.max(-1, keepdims=True), -1e30))
    return terms / np.maximum(terms.sum(-1, keepdims=True), 1e-30) / 2
"""
CHECK = ("check", "kernels.py", "--law", "softmax.definition", "--dtype", "float32")


@pytest.fixture
def attnspec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("kernels.py").write_text(KERNEL)
    return lambda *args: CliRunner().invoke(main, list(args))


def test_a_check_writes_its_page_and_report_writes_it_again(attnspec):
    done = attnspec(*CHECK, "--html", "one.html")
    assert (Exit.VIOLATED, "page     one.html") == (done.exit_code, done.stdout.splitlines()[-1])
    page = Path("one.html").read_text("utf-8")
    assert ">halved is not conformant.</h1>" in page
    again = attnspec("report", "--html", "two.html")
    assert (0, "page     two.html\n", page) == (again.exit_code, again.stdout, Path("two.html").read_text("utf-8"))


def test_a_page_that_cannot_be_written_is_told(attnspec):
    attnspec(*CHECK)
    done = attnspec("report", "--html", "nowhere/page.html")
    assert (Exit.USAGE, "attnspec: cannot write to nowhere/page.html: No such file or directory\n") == (
        done.exit_code,
        done.stderr,
    )


def test_where_a_page_goes_can_be_declared(attnspec):
    Path("pyproject.toml").write_text('[tool.attnspec]\nhtml = "declared.html"\n')
    attnspec(*CHECK)
    assert Path("declared.html").is_file()
