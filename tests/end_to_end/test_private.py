"""Mechanisms of one's own: what is done with the shipped ones is done with those of a folder beside them."""

import datetime
import json
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings

import attnspec
from attnspec.cli import main
from attnspec.errors import Exit, UsageError
from attnspec.mechanisms import loader
from attnspec.mechanisms.loader import Specs, library
from attnspec.strategies import cases

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/private"
FAULTY = """
import numpy as np
from attnspec import adapter

@adapter("quiet_softmax", framework="numpy", dtypes=("float32",))
def loud(x):
    terms = np.exp(x - x.max(-1, keepdims=True))
    return terms / terms.sum(-1, keepdims=True)
"""


@pytest.fixture(autouse=True)
def house(tmp_path):
    """The folder of a house that has a mechanism, a kernel and a reference of its own, and a kernel that is wrong."""
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    Path("faulty.py").write_text(FAULTY)


def run(*arguments, code=Exit.CONFORMANT):
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert code == done.exit_code, done.output
    return done.output


def kept():
    (path,) = Path("attnspec-report/cases").glob("*.json")
    return path.stem


def test_a_folder_is_linted_with_the_evidence_beside_it():
    assert "1 file, no faults\n" == run("lint", "--spec", "specs")
    path = Path("specs/quiet_softmax.yaml")
    path.write_text(path.read_text().replace("x = 1000 +", "x = 900 +"))
    told = run("lint", "--spec", "specs", code=Exit.USAGE)
    assert "'attnspec audit --derive --mechanism quiet_softmax --spec specs' derives it\n1 file, 1 fault" in told


def test_a_folder_is_audited_and_its_evidence_derived():
    expected = Path("specs/evidence/quiet_softmax.json").read_text()
    Path("specs/evidence/quiet_softmax.json").unlink()
    found = run("audit", "--derive", "--spec", "specs", "--reference", "reference.py", "-n", "1")
    assert "quiet_softmax          5 laws, 3 mistakes   ok" in found
    shows = [json.loads(text)["shows"] for text in (expected, Path("specs/evidence/quiet_softmax.json").read_text())]
    assert shows[0] == shows[1]


def test_a_reference_that_differs_from_the_definition_is_found_by_the_audit():
    text = Path("reference.py").read_text().replace("terms[:-1] / terms.sum()", "terms[:-1] / terms[:-1].sum()")
    Path("reference.py").write_text(text)
    found = run("audit", "--spec", "specs", "--reference", "reference.py", "-n", "1", code=Exit.VIOLATED)
    assert "definition and reference differ in p on plain" in found
    assert "no reference: pass a file that has one with --reference FILE" in run("audit", "--spec", "specs", "-n", "1")


def test_a_folder_is_listed_and_explained():
    listed = [run("list", what, "--spec", "specs") for what in ("mechanisms", "laws", "operators", "mistakes")]
    assert all("quiet_softmax" in lines and "sliding_window" in "".join(listed) for lines in listed)
    assert "Softmax that may be silent" in run("explain", "quiet_softmax", "--spec", "specs")
    assert "specs/quiet_softmax.yaml" in run("explain", "quiet_softmax.silent", "--spec", "specs")
    assert "quiet_softmax" not in run("list", "mechanisms")


def test_a_right_kernel_is_conformant_and_its_word_identified():
    assert "CONFORMANT      quiet_softmax_kernel" in run("check", "kernel.py", "--spec", "specs")
    assert "quiet_softmax has no conventions" in run("identify", "kernel.py", "--spec", "specs")
    assert "3 of 3 known mistakes would be detected" in run("audit", "--for", "kernel.py", "--spec", "specs")


def test_a_wrong_kernel_is_named_replayed_and_waived():
    found = run("check", "faulty.py", "--spec", "specs", code=Exit.VIOLATED)
    assert "quiet_softmax.loud" in found
    case = kept()
    assert ["specs"] == json.loads(Path(f"attnspec-report/cases/{case}.json").read_text())["specs"]
    assert "quiet_softmax" in run("replay", case, code=Exit.VIOLATED)
    shutil.move("specs", "moved")
    told = "there is no folder specs; --spec takes a folder of specifications"
    assert told in run("replay", case, code=Exit.USAGE)
    run("replay", case, "--spec", "moved", code=Exit.VIOLATED)
    day = datetime.date.today() + datetime.timedelta(20)
    answers = ("--reason", "Known.", "--issue", "https://a.example/1", "--owner", "Someone", "--expires", day)
    assert "law: quiet_softmax." in run("waive", case, "--spec", "moved", *answers)
    shutil.move("moved", "specs")
    found = run("check", "faulty.py", "--spec", "specs", "--waivers", "attnspec-waivers.yaml", code=Exit.CONFORMANT)
    assert "waived" in found


def test_commands_on_results_find_the_folders_that_a_project_declares():
    table = '[tool.attnspec]\nspecs = ["specs"]\nreport_dir = "found"\nwaivers = "known.yaml"\n'
    Path("pyproject.toml").write_text(table)
    run("check", "faulty.py", code=Exit.VIOLATED)
    (case,) = (path.stem for path in Path("found/cases").glob("*.json"))
    run("replay", case, code=Exit.VIOLATED)
    assert "quiet_softmax" in run("report")
    assert f"repro_{case}.py" in run("repro", case)
    day = datetime.date.today() + datetime.timedelta(20)
    run("waive", case, "--reason", "Known.", "--issue", "https://a.example/1", "--owner", "Someone", "--expires", day)
    assert Path("known.yaml").is_file()
    assert "no case" in run("replay", case, "--report-dir", "attnspec-report", code=Exit.USAGE)


def test_property_based_tests_draw_cases_of_a_folder():
    known = {"specs": ["specs"], "references": ["reference.py"]}
    drawn = cases("quiet_softmax", **known)

    @settings(max_examples=1, deadline=None, database=None)
    @given(drawn)
    def draws(case):
        assert ("quiet_softmax", {"x"}) == (case.mechanism, set(case.inputs))

    draws()
    with pytest.raises(UsageError, match="unknown mechanism 'quiet_softmax'"):
        cases("quiet_softmax")


def test_the_mistakes_of_a_folder_are_subjects():
    found = run("check", "mistake:quiet_softmax.small_denominator", "--spec", "specs", code=Exit.VIOLATED)
    assert "NOT CONFORMANT  mistake:quiet_softmax.small_denominator" in found


def test_the_reference_is_a_subject_where_it_is_named():
    asked = ("check", "reference", "--spec", "specs", "--mechanism", "quiet_softmax")
    assert "CONFORMANT      reference" in run(*asked, "--reference", "reference.py")
    run(*asked, code=Exit.NOTHING_TESTED)


def test_a_definition_by_a_reference_needs_one():
    path = Path("specs/quiet_softmax.yaml")
    head, _, rest = path.read_text().partition("definition:\n")
    path.write_text(f"{head}definition: reference\n\n{rest[rest.index('outputs:') : rest.index('mistakes:')]}")
    told = run("lint", "--spec", "specs", code=Exit.USAGE)
    assert "quiet_softmax.yaml:19:13: definition: the operator 'quiet_softmax' has no function" in told
    assert "name a file that has one by --reference" in told
    told = run("lint", "--spec", "specs", "--reference", "reference.py", code=Exit.USAGE)
    assert "quiet_softmax.json: not of this text" in told
    assert "1 file, 1 fault\n" in told


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("def softmax(x): return x", Exit.USAGE, "has no function that is called like an operator without a reference"),
        ("1 / 0", Exit.NOT_LOADED, "cannot be run: ZeroDivisionError: division by zero"),
        (None, Exit.NOT_LOADED, "no such file: other.py"),
    ],
)
def test_a_file_that_is_no_reference_is_told(text, code, told):
    if text is not None:
        Path("other.py").write_text(text)
    assert told in run("check", "kernel.py", "--spec", "specs", "--reference", "other.py", code=code)


def test_a_name_that_is_taken_is_refused_with_both_places():
    Path("specs/quiet_softmax.yaml").rename("specs/softmax.yaml")
    told = run("check", "kernel.py", "--spec", "specs", code=Exit.USAGE)
    assert "spec/softmax.yaml and specs/softmax.yaml both state 'softmax'; rename one of them" in told
    shutil.copytree(EXAMPLE / "specs", "first")
    shutil.copytree(EXAMPLE / "specs", "second")
    told = run("list", "laws", "--spec", "first", "--spec", "second", code=Exit.USAGE)
    assert "first/quiet_softmax.yaml and second/quiet_softmax.yaml both state 'quiet_softmax'" in told


@pytest.mark.parametrize(
    ("folder", "told"), [("none", "there is no folder none"), (".", "there is no .yaml file in .")]
)
def test_a_folder_without_specifications_is_told(folder, told):
    assert told in run("check", "kernel.py", "--spec", folder, code=Exit.USAGE)


def test_an_unknown_operator_points_to_folders():
    assert "(--spec DIR adds those of a folder)" in run("check", "kernel.py", code=Exit.USAGE)


def test_a_project_declares_its_folder():
    Path("pyproject.toml").write_text('[tool.attnspec]\ntargets = ["kernel.py"]\nspecs = ["specs"]\n')
    assert "CONFORMANT      quiet_softmax_kernel" in run("check")
    assert "1 file, no faults\n" == run("lint")
    assert "Softmax that may be silent" in run("explain", "quiet_softmax")


def test_programs_name_folders():
    assert attnspec.check("kernel.py", specs=["specs"]).conformant
    assert not attnspec.check("faulty.py", specs=(Path("specs"),)).conformant


def test_a_function_is_checked_by_its_name():
    def quiet_softmax(x):
        return x

    assert not attnspec.check(quiet_softmax, framework="numpy", specs=["specs"], profile="smoke").conformant


def test_workers_know_the_folder():
    assert "CONFORMANT      quiet_softmax_kernel" in run("check", "kernel.py", "--spec", "specs", "-n", "1")


def test_pytest_runs_the_laws_of_a_folder(pytester, tmp_path):
    shutil.copytree(EXAMPLE, pytester.path, dirs_exist_ok=True)
    done = pytester.runpytest_subprocess(
        "--attnspec", "kernel.py", "--attnspec-spec", "specs", "-p", "no:cacheprovider"
    )
    done.assert_outcomes(passed=30)


def test_packages_register_folders(monkeypatch, tmp_path):
    package = tmp_path / "site/house"
    shutil.copytree(EXAMPLE / "specs", package / "specs")
    (package / "__init__.py").write_text("raise RuntimeError('a specification runs no code')")
    info = tmp_path / "site/house-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[attnspec.specs]\nhouse = house.specs\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    library.cache_clear()
    loader._library.cache_clear()
    try:
        assert "quiet_softmax" in library()
        assert "CONFORMANT      quiet_softmax_kernel" in run("check", "kernel.py", "--no-isolate")
        with pytest.raises(UsageError, match="both state 'quiet_softmax'"):
            Specs(("specs",)).library()
    finally:
        library.cache_clear()
        loader._library.cache_clear()
        sys.modules.pop("house", None)
