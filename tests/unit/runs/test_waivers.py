"""Waivers: what they excuse, and when they are found fault with."""

import datetime
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.errors import Exit, SpecErrors
from attnspec.reporting.results import read
from attnspec.runs.waivers import waivers_of

KERNEL = """
import numpy as np
from attnspec import adapter

@adapter("softmax", framework="numpy", conventions={"empty_row": "nans"})
def kernel(x):
    p = np.exp(x - x.max(-1, keepdims=True))
    return RESULT
"""
RIGHT = "p / p.sum(-1, keepdims=True)"
WRONG = "p / p.sum(-1, keepdims=True) * (0.5 if x.shape[-1] > 2 else 1)"
OTHER = "p / p.sum(-1, keepdims=True) * (0.25 if x.shape[-1] > 2 else 1)"
FILE = "waivers.yaml"
ANSWERS = ["--issue", "https://example.org/1", "--owner", "@me", "--reason", "a tile: it is being fixed"]


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """A folder in which a check has kept the failure of a kernel."""
    folder = tmp_path_factory.mktemp("failing")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        check(WRONG)
    return folder


@pytest.fixture(autouse=True)
def folder(failing, tmp_path, monkeypatch):
    """A copy of that folder."""
    shutil.copytree(failing, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def attnspec(*args):
    return CliRunner().invoke(main, list(args))


def check(result, *args):
    Path("kernel.py").write_text(KERNEL.replace("RESULT", result))
    return attnspec("check", "kernel.py", *args)


def day(offset):
    return (datetime.date.today() + datetime.timedelta(offset)).isoformat()


def cells(*verdicts):
    lines = read(Path("attnspec-report/results.ndjson"))
    return [line for line in lines if line["kind"] == "cell" and line["verdict"] in verdicts]


def waived(*more, expires=90):
    """The failure of the kernel is waived."""
    (key,) = (path.stem for path in Path("attnspec-report/cases").glob("*.json"))
    return attnspec("waive", key, *ANSWERS, "--expires", day(expires), "--waivers", FILE, *more)


def test_a_waiver_is_written_with_a_copy_of_its_case():
    result = waived("--ceiling", "1e9")
    assert 0 == result.exit_code
    (waiver,) = waivers_of(Path(FILE))
    assert result.output == Path(FILE).read_text()
    assert ("kernel", "@me", "a tile: it is being fixed", "float32", 1e9) == (
        waiver.target,
        waiver.owner,
        waiver.reason,
        waiver.dtype,
        waiver.ceiling,
    )
    (kept,) = Path("cases").glob("*.json")
    assert kept.samefile(waiver.case)
    assert waiver.law == f"softmax.{json.loads(kept.read_text())['law']}"


def test_what_is_waived_fails_nothing_and_is_shown():
    waived()
    result = check(WRONG, "--waivers", FILE)
    assert 0 == result.exit_code
    assert "WAIVED          kernel" in result.output
    assert "CONFORMANT" not in result.output
    assert {f"until {day(90)}, 90 days left: a tile: it is being fixed (https://example.org/1)"} == {
        c["says"] for c in cells("waived")
    }
    assert [] == cells("fail", "error")


def test_a_waiver_whose_case_holds_is_stale():
    waived()
    result = check(RIGHT, "--waivers", FILE)
    assert 1 == result.exit_code
    last = len(Path(FILE).read_text().splitlines())
    (says,) = {cell["says"] for cell in cells("fail")}
    assert f"the waiver at {FILE}:3:5 is stale: its case passes now; remove lines 3-{last}" == says
    assert says in result.output


@pytest.mark.parametrize("kernel", [WRONG, RIGHT], ids=["wrong", "right"])
def test_a_waiver_excuses_nothing_from_the_day_after_it_expires(kernel, monkeypatch):
    waived(expires=1)

    monkeypatch.setattr("attnspec.runs.runner.today", lambda: datetime.date.today() + datetime.timedelta(2))
    assert 1 == check(kernel, "--waivers", FILE).exit_code
    assert [] == cells("waived")
    assert all(f"the waiver at {FILE}:3:5 expired on {day(1)}; remove lines" in c["says"] for c in cells("fail"))


def test_an_error_over_the_ceiling_is_not_excused():
    waived("--ceiling", "2")
    assert 1 == check(WRONG, "--waivers", FILE).exit_code
    assert any("does not cover it: the error is" in cell["says"] for cell in cells("fail"))


def test_another_fault_than_the_one_that_was_waived_is_not_excused():
    waived()
    text = Path(FILE).read_text()
    Path(FILE).write_text(text.replace("    case:", "    signature: mistake:softmax.other\n    case:"))
    assert 1 == check(OTHER, "--waivers", FILE).exit_code
    assert any("not like mistake:softmax.other" in cell["says"] for cell in cells("fail"))


def test_a_waiver_of_another_target_dtype_or_law_excuses_nothing():
    waived()
    text = Path(FILE).read_text()
    for old, new in (("target: kernel", "target: other"), ("dtype: float32", "dtype: float16")):
        Path(FILE).write_text(text.replace(old, new))
        assert 1 == check(WRONG, "--waivers", FILE).exit_code
        assert [] == cells("waived")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("    reason: ", "    reasn: ", f"{FILE}:7:5: waivers.0: unknown key 'reasn'; did you mean 'reason'?"),
        ('    owner: "@me"\n', "", f"{FILE}:3:5: waivers.0: the key 'owner' is missing"),
        ("softmax.", "[softmax.a]  # ", f"{FILE}:3:5: waivers.0.law: ['softmax.a'] is not a text"),
        ("    where: {", "    also: one\n    where: {", f"{FILE}:5:11: waivers.0.also: 'one' is not a list"),
        (
            "    where: {",
            "    ceiling: -1\n    where: {",
            f"{FILE}:5:14: waivers.0.ceiling: '-1' is not a number above",
        ),
        ("    where: {", "    where: x # {", f"{FILE}:5:12: waivers.0.where: 'x' is not a mapping of names"),
        ("  - law", "  - one\n  - law", f"{FILE}:3:5: waivers.0: 'one' is not a mapping of names"),
        ("softmax.", "sofmax.", f"{FILE}:3:10: unknown mechanism 'sofmax'; did you mean 'softmax'?"),
        ("cases/", "case/", f"{FILE}:6:11: no such case: case/"),
        (day(90), day(400), f"{FILE}:11:14: a waiver lasts 180 days at most"),
        (day(90), "soon", f"{FILE}:11:14: waivers.0.expires: 'soon' is not a day such as 2027-02-28"),
        (day(90), "2027-02-30", f"{FILE}:11:14: '2027-02-30' is not a day such as 2027-02-28"),
        ("version: 1", "version: 2", f"{FILE}:1:10: version: '2' is not 1, the version of such files"),
        ("version: 1\n", "version: 1\nmax_active: 0\n", f"{FILE}:2:13: there are 1 waivers, and max_active is 0"),
        ("version: 1\n", "version: 1\nwaiver: 0\n", f"{FILE}:2:1: unknown key 'waiver'; did you mean 'waivers'?"),
        (
            "dtype: float32",
            "dtypes: float32",
            f"{FILE}:5:13: waivers.0.where: unknown key 'dtypes'; did you mean 'dtype'?",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(old, new, says):
    waived()
    text = Path(FILE).read_text()
    text = "".join(line for line in text.splitlines(True) if "also:" not in line and "signature:" not in line)
    assert old in text
    Path(FILE).write_text(text.replace(old, new))
    with pytest.raises(SpecErrors) as raised:
        waivers_of(Path(FILE))
    assert str(raised.value).splitlines()[0].startswith(says)
    result = check(WRONG, "--waivers", FILE)
    assert (4, True) == (result.exit_code, result.stderr.startswith(f"attnspec: {says}"))


def test_a_waiver_that_would_be_refused_is_not_written():
    (key,) = (path.stem for path in Path("attnspec-report/cases").glob("*.json"))
    result = attnspec("waive", key, *ANSWERS, "--expires", day(365), "--waivers", FILE)
    assert (4, False) == (result.exit_code, Path(FILE).exists())


@pytest.mark.parametrize(("offset", "code"), [(-1, 4), (0, 0)])
def test_a_day_that_has_passed_excuses_nothing_and_is_refused(offset, code):
    result = waived(expires=offset)
    assert (code, code == 0) == (result.exit_code, Path(FILE).exists())
    says = f"--expires {day(-1)} has passed, and today is {day(0)}; give a date in the future"
    assert ("" if code == 0 else f"attnspec: {says}\n") == result.stderr


def test_what_is_no_day_is_refused_by_its_option():
    (key,) = (path.stem for path in Path("attnspec-report/cases").glob("*.json"))
    result = attnspec("waive", key, *ANSWERS, "--expires", "soon", "--waivers", FILE)
    says = "attnspec: --expires 'soon' is not a day such as 2027-02-28\n"
    assert (4, says, False) == (result.exit_code, result.stderr, Path(FILE).exists())


def test_a_second_waiver_of_one_case_is_refused():
    waived(expires=30)
    (case,) = Path("attnspec-report/cases").glob("*.json")
    before, last = Path(FILE).read_text(), len(Path(FILE).read_text().splitlines())
    for named in (case.stem, str(case), f"cases/{case.name}"):
        result = attnspec("waive", named, *ANSWERS, "--expires", day(60), "--waivers", FILE)
        says = f"the case {case.stem} is already waived until {day(30)}: {FILE}, lines 3-{last}; edit or remove these"
        assert (4, f"attnspec: {says} lines\n") == (result.exit_code, result.stderr)
    assert before == Path(FILE).read_text()


def test_a_name_that_yaml_would_read_otherwise_is_quoted():
    Path("kernel.py").write_text(
        KERNEL.replace("RESULT", WRONG).replace('"softmax",', '"softmax", name="a: \\x1b #b",')
    )
    attnspec("check", "kernel.py", "--report-dir", "own")
    (case,) = Path("own/cases").glob("*.json")
    result = attnspec("waive", str(case), *ANSWERS, "--expires", day(9), "--waivers", FILE)
    assert 0 == result.exit_code
    assert [r"a: \x1b #b"] == [waiver.target for waiver in waivers_of(Path(FILE))]
    assert 0 == attnspec("check", "kernel.py", "--waivers", FILE).exit_code


def test_a_file_that_does_not_exist_yet_waives_nothing_and_that_is_said(monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    laws = ["--law", "softmax.share", "--dtype", "float32", "--profile", "smoke"]
    result = CliRunner().invoke(main, ["check", "reference", *laws, "--waivers", "attnspec-waivers.yaml"])
    assert Exit.CONFORMANT == result.exit_code
    assert "  waivers: attnspec-waivers.yaml does not exist, so nothing is waived" in result.stdout.splitlines()
