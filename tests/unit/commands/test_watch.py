"""Checks that are made again as soon as a file is saved."""

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.commands import watch
from attnspec.commands.watch import watched
from attnspec.errors import Exit, TargetError, UsageError
from attnspec.runs.options import Options
from attnspec.runs.run import OUTDATED, Run


@pytest.fixture
def saved(monkeypatch):
    """Instead of every pause, the next of these steps is taken; after the last one, Ctrl-C is pressed."""
    steps = []

    def sleep(seconds):
        if not steps:
            raise KeyboardInterrupt
        steps.pop(0)()

    monkeypatch.setattr(watch.time, "sleep", sleep)
    return steps


def ended(*ends):
    """A check that ends so, one time after the other, and those that were made."""
    made = []

    def checked(options, outdated):
        made.append(options)
        end = ends[len(made) - 1]
        if isinstance(end, Exception):
            raise end
        return SimpleNamespace(exit=end)

    return checked, made


def test_a_file_that_is_saved_is_checked_again_until_an_interruption(saved):
    Path("kernel.py").write_text("first")
    saved += [lambda: None, lambda: Path("kernel.py").write_text("second one")]
    checked, made = ended(Exit.CONFORMANT, Exit.VIOLATED)
    assert Exit.VIOLATED == watched(Options(("kernel.py:softmax",)), checked)
    assert 2 == len(made)


def test_what_is_saved_while_it_is_checked_is_checked_again(saved, capsys):
    Path("kernel.py").write_text("first")
    checked, made = ended(Exit.CONFORMANT, Exit.CONFORMANT)

    known = []

    def saving(options, outdated):
        known.append(outdated())
        if not made:
            Path("kernel.py").write_text("second one")
        known.append(outdated())
        return checked(options, outdated)

    watched(Options(("kernel.py",)), saving)
    assert ([False, True, False, False], 2) == (known, len(made))
    assert "a file was saved meanwhile: checking again\nwatching kernel.py" in capsys.readouterr().err


def test_a_file_that_cannot_be_loaded_is_said_and_looked_at_further(saved, capsys):
    Path("kernel.py").write_text("first")
    saved.append(lambda: Path("kernel.py").write_text("second one"))
    checked, made = ended(TargetError("no such thing"), Exit.CONFORMANT)
    assert Exit.CONFORMANT == watched(Options(("kernel.py",)), checked)
    assert 2 == len(made)
    assert "attnspec: no such thing\nwatching kernel.py: save to check again" in capsys.readouterr().err


def test_a_file_that_another_imports_is_waited_for_too(saved):
    Path("kernel.py").write_text("import helpers")
    Path("helpers.py").write_text("first")
    saved.append(lambda: Path("helpers.py").write_text("second one"))
    checked, made = ended(Exit.CONFORMANT, Exit.VIOLATED)
    assert Exit.VIOLATED == watched(Options(("kernel.py",)), checked)
    assert 2 == len(made)


def test_an_interruption_of_a_check_ends_it(saved):
    Path("kernel.py").write_text("first")
    checked, made = ended(Exit.INTERRUPTED)
    assert (Exit.INTERRUPTED, 1) == (watched(Options(("kernel.py",)), checked), len(made))


def test_a_file_that_is_away_for_a_moment_is_waited_for(saved):
    Path("kernel.py").write_text("first")
    saved += [lambda: Path("kernel.py").unlink(), lambda: None, lambda: Path("kernel.py").write_text("second")]
    checked, made = ended(Exit.CONFORMANT, Exit.CONFORMANT)
    watched(Options(("kernel.py",)), checked)
    assert ([], 2) == (saved, len(made))


def test_only_files_are_watched():
    with pytest.raises(UsageError, match="needs a target that is a file"):
        watched(Options(("torch_sdpa",)), lambda options, outdated: None)


RIGHT = """
import numpy as np
def softmax(x):
    with np.errstate(all="ignore"):
        p = np.exp(x - x.max(-1, keepdims=True))
        return p / p.sum(-1, keepdims=True)
"""


def test_a_check_is_made_again_in_the_same_process(monkeypatch):
    Path("kernel.py").write_text("import numpy as np\ndef softmax(x):\n    return x\n")
    sleeps = []

    def sleep(seconds):
        sleeps.append(Path("kernel.py").write_text(RIGHT) if not sleeps else os.kill(os.getpid(), 2))

    monkeypatch.setattr(watch, "time", SimpleNamespace(sleep=sleep))
    asked = "kernel.py:softmax --framework numpy --dtype float32 --profile smoke --watch"
    started = time.monotonic()
    result = CliRunner().invoke(main, ["check", *asked.split()])
    assert 0 == result.exit_code, result.output
    first, _, second = result.output.partition("watching kernel.py")
    assert (" fails in float32 ..." in first, "NOT CONFORMANT" in first) == (True, True)
    assert ("NOT CONFORMANT" in second, "CONFORMANT" in second) == (False, True)
    assert time.monotonic() - started < 60


WRONG = RIGHT.replace("/ p.sum(-1, keepdims=True)", "/ p.sum(-1, keepdims=True) * 2")
"""Wrong in several mechanisms of its operator, and in two dtypes."""


def test_the_first_failure_is_shown_once_and_before_the_page(monkeypatch):
    Path("kernel.py").write_text(WRONG)
    monkeypatch.setattr(watch, "time", SimpleNamespace(sleep=lambda seconds: os.kill(os.getpid(), 2)))
    asked = "kernel.py:softmax --framework numpy --dtype float32 --dtype float64 --profile smoke --watch"
    result = CliRunner().invoke(main, ["check", *asked.split()])
    above, _, page = result.output.partition("attnspec 0.")
    assert (1, 0) == (above.count("Smallest"), page.count("Smallest")), result.output
    key = above.partition(" case ")[2].split()[0]
    assert f"   case {key}\n" in page
    assert "failures are shown in full" not in page


TWICE = """
import numpy as np
def softmax(x):
    with np.errstate(all="ignore"):
        x = 2 * x if x.dtype == np.float32 else x
        p = np.exp(x - x.max(-1, keepdims=True))
        return p / p.sum(-1, keepdims=True) if x.dtype == np.float32 else p
"""
"""Wrong in one way in float32 and in another in float64."""


@pytest.mark.parametrize(("further", "explained"), [((), 2), (("--watch",), 1)])
def test_in_a_round_one_fault_of_a_function_is_explained_and_others_keep_their_cases(further, explained, monkeypatch):
    Path("kernel.py").write_text(TWICE)
    monkeypatch.setattr(watch, "time", SimpleNamespace(sleep=lambda seconds: os.kill(os.getpid(), 2)))
    asked = "kernel.py:softmax --framework numpy --dtype float32 --dtype float64 --profile smoke --mechanism softmax"
    result = CliRunner().invoke(main, ["check", *asked.split(), *further])
    assert 1 == result.exit_code, result.output
    cells = map(json.loads, Path("attnspec-report/results.ndjson").read_text().splitlines())
    shown = [cell["witness"] for cell in cells if "witness" in cell]
    assert [explained, 2] == [sum(witness["full"] for witness in shown), len(shown)]
    for witness in shown:
        assert f"case {witness['key']}" in result.output
        assert Path(f"attnspec-report/cases/{witness['key']}.json").exists()


def test_a_check_ends_where_its_file_is_saved_and_gives_no_page(monkeypatch):
    Path("kernel.py").write_text(WRONG)
    expected = Run.expect
    began = []

    def saved(run, group, laws):
        if not began:
            Path("kernel.py").write_text(RIGHT)
        began.append(run)
        return expected(run, group, laws)

    monkeypatch.setattr(Run, "expect", saved)
    monkeypatch.setattr(watch, "time", SimpleNamespace(sleep=lambda seconds: os.kill(os.getpid(), 2)))
    asked = "kernel.py:softmax --framework numpy --dtype float32 --dtype float64 --profile smoke --watch"
    result = CliRunner().invoke(main, ["check", *asked.split()])
    assert 0 == result.exit_code, result.output
    first, _, second = result.output.partition("a file was saved meanwhile: checking again\n")
    assert ("SUMMARY" in first, second.count("SUMMARY"), "NOT CONFORMANT" in second) == (False, 1, False)
    assert OUTDATED == next(run for run in began).ended
