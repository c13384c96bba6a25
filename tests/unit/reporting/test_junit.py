"""A JUnit file of the records."""

import pytest

from attnspec.errors import Error
from attnspec.reporting.junit import document, write


def cell(law, verdict, **more):
    where = {"subject": "k", "operator": "softmax", "mechanism": "softmax", "dtype": "float32", "device": "cpu"}
    found = {"level": "must", "verdict": verdict, "says": "because", "cases": 1, "worst": 0.0}
    return {"kind": "cell", **where, "law": law, **found, **more}


def lines(*cells, subject="conformant", fail_on="must", **more):
    end = {"kind": "end", "partial": False, "ended": "", "seconds": 2.5}
    told = {"kind": "subject", "subject": "k", "verdict": subject, "reasons": [], "unmet": [], **more}
    return [{"kind": "run", "fail_on": fail_on, "started": "2026-01-01T00:00:00+0000"}, *cells, told, end]


def suite(*args, **keywords):
    (found,) = document(lines(*args, **keywords), "out")
    return found


@pytest.mark.parametrize(
    ("verdict", "level", "fail_on", "expected"),
    [
        ("pass", "must", "must", []),
        ("fail", "must", "must", [("failure", None, "k   softmax.share   float32   because")]),
        ("error", "must", "must", [("failure", None, "k   softmax.share   float32   because")]),
        (
            "internal",
            "must",
            "must",
            [("failure", None, "k   softmax.share   float32   attnspec itself failed: because")],
        ),
        ("fail", "should", "should", [("failure", None, "k   softmax.share   float32   because")]),
        ("fail", "should", "must", [("skipped", "pytest.xfail", "should: because")]),
        ("waived", "must", "must", [("skipped", "pytest.xfail", "waived because")]),
        ("not_declared", "must", "must", [("skipped", "pytest.skip", "not_declared: because")]),
        ("not_tested", "must", "must", [("skipped", "pytest.skip", "not_tested: because")]),
    ],
)
def test_every_verdict_has_its_element(verdict, level, fail_on, expected):
    found = suite(cell("share", verdict, level=level, run={"seconds": 1.25}), fail_on=fail_on)
    (case,) = found.iter("testcase")
    assert ("attnspec.softmax.yaml", "share[k-float32]", "1.250") == tuple(map(case.get, ("classname", "name", "time")))
    assert expected == [(e.tag, e.get("type"), e.text) for e in case]
    counts = [sum(e[0] == kind for e in expected) for kind in ("failure", "error", "skipped")]
    assert [1, *counts] == [int(found.get(key)) for key in ("tests", "failures", "errors", "skipped")]


@pytest.mark.parametrize(
    ("more", "name", "text"),
    [
        ({"subject": "partial", "reasons": ["time"]}, "partial", "PARTIAL: k was not tested completely\ntime"),
        ({"subject": "violated", "unmet": ["law"]}, "required", "REQUIRED: k was not tested as required\nlaw"),
    ],
)
def test_what_was_not_tested_whole_is_an_error(more, name, text):
    *_, last = suite(cell("share", "pass"), **more)
    assert (f"attnspec.{name}[k]", text) == (last.get("name"), last.find("error").text)
    assert 1 == len(suite(cell("share", "internal"), **more).findall("testcase")), "told by the cell already"


def test_the_properties_say_what_was_asked_and_what_came_of_it():
    run, *rest = lines(cell("share", "pass"))
    (found,) = document([{**run, "profile": "smoke", "seed": 0, "packages": {"numpy": "2.0"}}, *rest], "out")
    told = [(one.get("name"), one.get("value")) for one in found.find("properties")]
    asked = [("profile", "smoke"), ("seed", "0"), ("fail_on", "must")]
    assert [*asked, ("version.numpy", "2.0"), ("verdict.k", "conformant")] == told


def test_texts_of_strangers_are_escaped(tmp_path):
    path = tmp_path / "junit.xml"
    write(path, lines(cell("share", "fail", says="\x1b[31m\ud800\x00"), subject="violated"), "out")
    assert "\\x1b[31m\\ud800\\x00" in path.read_text()


def test_a_file_that_cannot_be_written_is_said(tmp_path):
    with pytest.raises(Error, match=r"cannot write .*: Is a directory"):
        write(tmp_path, lines(), "out")


def test_what_is_known_is_skipped_where_a_run_fails_on_what_is_new():
    known, new = cell("share", "fail", finding="a-b"), cell("order", "fail")
    assert ["skipped", "failure"] == [case[0].tag for case in suite(known, new, fail_on="new").iter("testcase")]
    assert ["failure", "failure"] == [case[0].tag for case in suite(known, new).iter("testcase")]
