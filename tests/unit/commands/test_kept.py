"""Lists are kept as they were printed until what they are made of changes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from attnspec.commands.kept import lines_of


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNSPEC_CACHE", str(tmp_path / "cache"))
    Path("specs").mkdir()
    Path("specs/one.yaml").write_text("1")
    return Path("specs")


def printed(made, what="laws", folders=("specs",)):
    return list(lines_of(what, folders, lambda: iter(made)))


def test_a_list_is_made_once():
    assert [["a", "ü"], ["a", "ü"]] == [printed(["a", "ü"]), printed(["other"])]


def test_other_lists_and_folders_are_made_by_themselves():
    assert [["a"], ["b"], ["c"]] == [printed(["a"]), printed(["b"], "mistakes"), printed(["c"], folders=())]


def test_a_list_is_made_again_when_a_file_changes(folder):
    printed(["a"])
    os.utime(folder / "one.yaml", (1, 1))
    assert ["b"] == printed(["b"])
    (folder / "two.yaml").write_text("2")
    assert ["c"] == printed(["c"])


def test_a_list_is_made_again_when_something_is_installed(monkeypatch, tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    printed(["a"])
    (site / "package").mkdir()
    os.utime(site, (1, 1))
    assert ["b"] == printed(["b"])


def test_what_is_kept_is_printed_without_numpy(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNSPEC_CACHE", str(tmp_path / "cache"))
    script = "import sys; from attnspec.cli import main\ntry: main(['list', 'functions'])\nexcept SystemExit: pass\n"
    script += "print('numpy' in sys.modules, file=sys.stderr)"
    first, second = (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True) for _ in range(2)
    )
    assert (first.stdout, "True\n", "False\n") == (second.stdout, first.stderr, second.stderr)
