"""The Python interface."""

import importlib
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import attnspec
from attnspec import NotConformantError
from attnspec.cli import main
from attnspec.errors import Exit
from attnspec.judging.cells import law_names
from attnspec.mechanisms.loader import library
from attnspec.reporting.results import read


def softmax(x):
    with np.errstate(all="ignore"):
        terms = np.exp(x - np.maximum(x.max(-1, keepdims=True), -1e30))
        return terms / np.maximum(terms.sum(-1, keepdims=True), 1e-30)


def half(x):
    return softmax(x) / 2


class Kernel:
    """A softmax that holds its factor."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return softmax(x) * self.factor


@pytest.fixture(scope="module")
def right():
    return attnspec.check(softmax, conventions={"empty_row": "zeros"})


@pytest.fixture(scope="module")
def wrong():
    return attnspec.check(half, operator="softmax", name="halved")


def test_a_conformant_function_gives_a_true_report(right):
    right.expect_conformant()
    assert (True, True, []) == (bool(right), right.conformant, right.failures)
    assert {"softmax": "conformant"} == right.verdicts
    assert len(law_names(library()["softmax"])) == len(right.cells)


def test_a_violation_is_raised_with_the_report(wrong):
    assert (False, {"halved": "violated"}) == (bool(wrong), wrong.verdicts)
    assert ["sums_to_one", "equal_shares", "definition"] == [cell["law"] for cell in wrong.failures]
    with pytest.raises(NotConformantError) as caught:
        wrong.expect_conformant()
    assert isinstance(caught.value, AssertionError)
    assert str(wrong) == str(caught.value)


def test_a_report_prints_as_the_command_line_does(wrong):
    shown = str(wrong).splitlines()
    assert "Law       The entries of a row add up to one." in shown
    assert "NOT CONFORMANT  halved (float32)   24 cells: 19 pass, 3 fail, 2 not tested" in shown
    assert not any("PARTIAL" in line for line in shown)


def test_a_declared_convention_is_tested_and_an_undeclared_one_observed(right, wrong):
    def convention(report):
        return next(cell["says"] for cell in report.cells if cell["law"] == "convention.empty_row")

    assert ("declared: zeros", "observed: zeros") == (convention(right), convention(wrong))


@pytest.mark.parametrize(("factor", "verdict"), [(np.float32(1), "conformant"), (np.float32(2), "violated")])
def test_an_object_that_can_be_called_is_a_function(factor, verdict):
    report = attnspec.check(Kernel(factor), operator="softmax", framework="numpy", laws=["definition"])
    assert {"Kernel": verdict} == report.verdicts


@pytest.mark.parametrize(
    ("target", "verdict"), [("torch_softmax", "conformant"), ("mistake:softmax.base_two", "violated")]
)
def test_a_text_is_a_target_of_the_command_line(target, verdict):
    report = attnspec.check(target, dtypes=["float32"], laws=["definition"], mechanisms=["softmax"])
    assert {target: verdict} == report.verdicts


def test_what_is_asked_for_is_what_is_tried():
    report = attnspec.check(softmax, laws=["share", "softmax.ratio"], dtypes=["float64", "float32"], profile="quick")
    asked = {(law, dtype) for law in ("share", "ratio") for dtype in ("float64", "float32")}
    assert asked == {(cell["law"], cell["dtype"]) for cell in report.cells}


def test_a_seed_gives_the_same_report_again():
    def cells(seed):
        found = attnspec.check(half, operator="softmax", name="halved", laws=["share", "definition"], seed=seed).cells
        return [{key: x for key, x in cell.items() if key not in ("run", "witness")} for cell in found]

    assert cells(5) == cells(5)
    assert [cell["worst"] for cell in cells(5)] != [cell["worst"] for cell in cells(6)]


def test_a_declaration_may_say_whatever_an_adapter_may():
    limited = attnspec.check(softmax, laws=["share"], limits={"n": (2,)}, dtypes=["float32"])
    free = attnspec.check(softmax, laws=["share"])
    assert limited.cells[0]["run"]["calls"] < free.cells[0]["run"]["calls"]


def test_results_are_written_where_they_are_asked_for():
    report = attnspec.check(softmax, laws=["share"], report_dir="out")
    assert list(report.lines) == read(Path("out/results.ndjson"))


@pytest.mark.parametrize(
    ("function", "more", "error", "says"),
    [
        (half, {}, attnspec.UsageError, "the name 'half' does not say which operator it is"),
        (softmax, {"operator": "sofmax"}, attnspec.UsageError, "unknown operator 'sofmax'; did you mean 'softmax'?"),
        (softmax, {"operator": "causal_mask"}, attnspec.UsageError, "it is a mechanism of the operator 'attention'"),
        (softmax, {"laws": ["shar"]}, attnspec.UsageError, "unknown law 'shar'; did you mean 'share'?"),
        (softmax, {"mechanisms": ["sofmax"]}, attnspec.UsageError, "unknown mechanism 'sofmax'"),
        (softmax, {"profile": "slow"}, attnspec.UsageError, "unknown profile 'slow'"),
        (softmax, {"dtypes": ["flot32"]}, attnspec.UsageError, "unknown dtype 'flot32'; did you mean 'float32'?"),
        (softmax, {"device": "gpu"}, attnspec.UsageError, "device 'gpu': no installed framework has it"),
        (softmax, {"conventions": {"empty": "nans"}}, attnspec.UsageError, "unknown convention 'empty'"),
        (softmax, {"kind": 1}, attnspec.UsageError, "a declaration has no 'kind'"),
        (lambda: 0, {"operator": "softmax"}, attnspec.TargetError, "softmax passes 1 inputs by position (x)"),
        ("nope.py", {}, attnspec.TargetError, "no such file: nope.py"),
        (math.exp, {"operator": "attention"}, attnspec.TargetError, "exp: attention passes 3 inputs by position"),
    ],
)
def test_what_is_wrong_is_raised_with_its_name(function, more, error, says):
    with pytest.raises(error) as caught:
        attnspec.check(function, **more)
    assert says in str(caught.value)


def test_nothing_to_test_is_not_conformant():
    report = attnspec.check(softmax, mechanisms=["attention"])
    assert (False, {}, []) == (bool(report), report.verdicts, report.cells)
    with pytest.raises(NotConformantError, match="nothing was tested"):
        report.expect_conformant()


def test_public_names_are_found_and_others_are_not():
    assert set(attnspec.__all__) <= set(dir(attnspec))
    assert [] == [name for name in attnspec.__all__ if not hasattr(attnspec, name)]
    with pytest.raises(AttributeError, match="module 'attnspec' has no attribute 'chek'"):
        _ = attnspec.chek


HALVED = """
import numpy as np
import attnspec

def half_softmax(x):
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) / 2
"""


def test_a_case_that_was_found_can_be_run_again_by_the_command_that_is_printed(monkeypatch):
    Path("halved.py").write_text(HALVED)
    monkeypatch.syspath_prepend(".")
    function = importlib.import_module("halved").half_softmax
    report = attnspec.check(function, laws=["sums_to_one"], profile="smoke", report_dir="out")
    (command,) = [line for line in str(report).splitlines() if line.startswith("Replay")]
    _, _, *words = command.split()
    again = CliRunner().invoke(main, words)
    assert (Exit.VIOLATED, True) == (again.exit_code, "The entries of a row add up to one." in again.stdout)


def test_every_failure_of_a_target_is_kept_and_its_command_works():
    report = attnspec.check("mistake:softmax.base_two", mechanisms=["softmax"], profile="smoke", report_dir="out")
    kept = {path.stem for path in Path("out/cases").glob("*.json")}
    assert {cell["witness"]["key"] for cell in report.failures if "witness" in cell} == kept != set()
    (command,) = [line for line in str(report).splitlines() if line.startswith("Replay")]
    again = CliRunner().invoke(main, command.split()[2:])
    assert (Exit.VIOLATED, True) == (again.exit_code, kept >= {command.split()[3]})
    assert ["junit.xml", "results.ndjson"] == sorted(path.name for path in Path("out").iterdir() if path.is_file())


def test_without_time_for_explanations_a_failure_is_kept_as_it_was_drawn():
    how = {"mechanisms": ["softmax"], "laws": ["definition"], "profile": "smoke", "dtypes": ["float32"]}
    full, plain = (attnspec.check("mistake:softmax.base_two", explain_time=t, **how) for t in (2.0, 0))
    assert ({"mistake:softmax.base_two": "violated"},) * 2 == (full.verdicts, plain.verdicts)
    (told,), (bare,) = (report.failures for report in (full, plain))
    assert (True, False) == (told["witness"]["full"], bare["witness"]["full"])
    assert told["witness"]["key"] != bare["witness"]["key"]
    with pytest.raises(attnspec.UsageError, match=r"^the explain time must be a number of seconds, not -1"):
        attnspec.check("mistake:softmax.base_two", explain_time=-1, **how)


def test_the_header_has_the_call_as_it_may_have_been_typed():
    report = attnspec.check(softmax, laws=["share"], profile="smoke", conventions={"empty_row": "zeros"})
    typed = "attnspec.check(softmax, laws=['share'], profile='smoke', conventions={'empty_row': 'zeros'})"
    assert typed == report.lines[0]["command"]


def test_time_that_has_run_out_and_shards_and_waivers_are_options_of_a_function():
    assert {"softmax": "partial"} == attnspec.check(softmax, laws=["share"], max_time=0).verdicts
    first, second = (
        attnspec.check(softmax, laws=["share"], dtypes=["float32", "float64"], profile="smoke", shard=shard).cells
        for shard in ("1/2", "2/2")
    )
    assert ["float32", "float64"] == [cell["dtype"] for cell in (*first, *second)]
    Path("waivers.yaml").write_text("version: 1\nwaivers: 1\n")
    with pytest.raises(attnspec.SpecErrors, match=r"waivers\.yaml:2"):
        attnspec.check(softmax, laws=["share"], waivers=Path("waivers.yaml"))


def test_a_command_that_would_not_work_is_not_printed(wrong):
    report = attnspec.check(half, operator="softmax", laws=["sums_to_one"], name="halved", report_dir="out")
    assert "Replay    call the same function again: it is in no file" in str(report)
    assert "Replay    no case was stored: pass report_dir" in str(wrong)
    assert "attnspec waive" not in str(wrong)


def test_a_decorated_function_goes_by_what_it_declares(monkeypatch):
    monkeypatch.setattr(attnspec.adapters, "_registered", list(attnspec.adapters.registered()))

    @attnspec.adapter("softmax", framework="numpy", name="declared_by_itself", dtypes=("float16",))
    def of_another_name(x):
        wide = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
        return (wide / wide.sum(-1, keepdims=True)).astype(x.dtype)

    report = attnspec.check(of_another_name, laws=["softmax.definition"], profile="smoke")
    assert {("declared_by_itself", "float16")} == {(cell["subject"], cell["dtype"]) for cell in report.cells}
    given = attnspec.check(of_another_name, operator="softmax", framework="numpy", laws=["softmax.definition"])
    assert {("of_another_name", "float32")} == {(cell["subject"], cell["dtype"]) for cell in given.cells}
