"""What a kernel must pass, pinned: an upgrade adds notes and no failures, until the pin is raised."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import attnspec
from attnspec.cli import main
from attnspec.errors import Exit, UsageError
from attnspec.mechanisms.loader import library
from attnspec.runs.options import PIN, Options
from attnspec.runs.pins import Pin, Pinned, pinned, raised, read, under_pin, written

SOFTMAX = library()["softmax"]
WRONG = """
import numpy as np

def softmax(x):
    terms = np.exp(x - x.max(-1, keepdims=True))
    return 1.01 * terms / terms.sum(-1, keepdims=True)
"""
ASKED = ("kernel.py:softmax", "--dtype", "float32")


def pin(known=None, subjects=None):
    mechanisms = {"softmax": pinned(SOFTMAX) if known is None else known}
    return Pin("0.0.9", "smoke", 3, {"mine": ["softmax"]} if subjects is None else subjects, mechanisms)


def run(*arguments, code=Exit.CONFORMANT):
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert code == done.exit_code, done.output
    return done.output


def frozen(**older):
    """A pin of a wrong kernel, as another version of attnspec would have written it."""
    Path("kernel.py").write_text(WRONG)
    run("freeze", *ASKED, "--profile", "smoke")
    if older:
        head, line = Path(PIN).read_text().splitlines()
        Path(PIN).write_text(f"{head}\n{json.dumps({**json.loads(line), **older})}\n")


@pytest.mark.parametrize(
    ("known", "law", "says"),
    [
        ({}, "ratio", ""),
        ({}, "contract.shape", ""),
        ({"laws": {}}, "ratio", "the law is newer than the pin"),
        ({"laws": {"ratio": "other"}}, "ratio", "the law has changed since the pin"),
        ({"digest": "other"}, "ratio", "its specification has changed since the pin"),
    ],
)
def test_a_failure_counts_whose_law_asks_for_what_it_asked_for_then(known, law, says):
    assert says == pin(replace(pinned(SOFTMAX), **known)).note("mine", SOFTMAX, law)


def test_a_mechanism_or_an_operator_that_came_later_is_a_note_and_another_subject_is_none():
    found = pin(subjects={"mine": ["softmax"], "other": []})
    alibi = replace(SOFTMAX, name="other")
    assert "the mechanism is newer than the pin" == found.note("mine", alibi, "ratio")
    assert "attnspec 0.0.9 did not test it against softmax" == found.note("other", SOFTMAX, "ratio")
    assert "" == found.note("a third one", SOFTMAX, "ratio")


def test_prose_and_known_mistakes_are_in_no_digest():
    known = pinned(SOFTMAX)
    assert known == pinned(replace(SOFTMAX, summary="other words", mistakes={}, examples={}, digest="0"))
    assert known.digest != pinned(replace(SOFTMAX, scenarios={})).digest
    law = SOFTMAX.laws["ratio"]
    other = pinned(replace(SOFTMAX, laws={**SOFTMAX.laws, "ratio": replace(law, level="should")}))
    assert ["ratio"] == [name for name in known.laws if known.laws[name] != other.laws[name]]


def test_what_is_written_is_read_again():
    Path(PIN).write_text(written(pin()))
    assert pin() == read(Path(PIN))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", f"{PIN}:1:1: not JSON"),
        ('{"kind": "baseline"}', f"{PIN}:1: the key 'format' is missing"),
        (written(pin()).replace('"format": 1', '"format": 2'), "has format 2 of pins, and this attnspec reads up to 1"),
        (written(pin()).replace('"version": 1', '"version": "one"'), f"{PIN}:2: version is"),
    ],
)
def test_a_file_that_is_no_pin_is_refused(text, says):
    Path(PIN).write_text(text)
    with pytest.raises(UsageError) as caught:
        read(Path(PIN))
    assert says in str(caught.value)


def test_a_run_has_the_profile_and_the_seed_of_its_pin():
    Path(PIN).write_text(written(pin()))
    assert Options(pin=PIN, profile="smoke", seed=3) == under_pin(Options(pin=PIN))
    assert Options() == under_pin(Options())
    with pytest.raises(UsageError, match="pins the profile smoke, and ci was asked for; leave out --profile"):
        under_pin(Options(pin=PIN, profile="ci"))


def test_what_a_raised_pin_asks_for_beyond_the_earlier_one_is_told():
    before = pin(Pinned(1, "a", {"kept": "", "other": "1", "gone": ""}))
    after = pin(Pinned(1, "b", {"kept": "", "other": "2", "new": ""}))
    assert [
        ("softmax", "changed"),
        ("softmax.gone", "gone"),
        ("softmax.new", "new"),
        ("softmax.other", "changed"),
    ] == list(raised(before, after))
    assert [("softmax", "gone")] == list(raised(before, replace(after, mechanisms={})))


def test_a_law_that_is_in_the_pin_fails_the_run():
    frozen()
    told = run("check", *ASKED, "--pin", PIN, code=Exit.VIOLATED)
    assert f"pinned by {PIN}; no newer law fails" in told


def test_an_upgrade_turns_no_build_red_and_says_what_it_would():
    frozen(digest="of another version")
    told = run("check", *ASKED, "--pin", PIN)
    assert "CONFORMANT      softmax (float32)" in told
    assert "1 note" in told
    assert "Note      its specification has changed since the pin; it does not fail a run until" in told
    assert f"fails once the pin is renewed ('attnspec freeze' writes {PIN}):" in told
    assert "    its specification has changed since the pin: softmax softmax.definition" in told
    report = ("report", "attnspec-report/results.ndjson")
    assert run(*report, "--github").startswith("::notice ")
    assert "## Notes: failures once the pin is renewed" in run(*report, "--markdown")
    assert "note: its specification has changed since the pin: " in Path("attnspec-report/junit.xml").read_text()
    run(*report, "--html", "page.html")
    assert "its specification has changed since the pin" in Path("page.html").read_text()

    assert "  changed since attnspec 0.1.0: softmax" in run("freeze", *ASKED, "--profile", "smoke")
    run("check", *ASKED, "--pin", PIN, code=Exit.VIOLATED)


def test_a_function_of_ones_own_is_judged_under_a_pin():
    frozen(laws={})
    import numpy as np

    def softmax(x):
        terms = np.exp(x - x.max(-1, keepdims=True))
        return 1.01 * terms / terms.sum(-1, keepdims=True)

    report = attnspec.check(softmax, framework="numpy", dtypes=["float32"], pin=PIN)
    assert {"the law is newer than the pin"} == {cell["note"] for cell in report.cells if "note" in cell}
    report.expect_conformant()
