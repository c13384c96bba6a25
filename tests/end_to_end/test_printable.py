"""Whatever a subject calls itself, raises, prints or returns, no command writes it raw."""

import html
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.commands import packages as doctor
from attnspec.reporting.results import read

WICKED = r"""
import os
import sys

import numpy as np
from attnspec import Unsupported, adapter

EVIL = "\x1b]0;owned\x07\x1b[2J\r\n\u202e\ud800|`<b>"


def softmax(x):
    with np.errstate(all="ignore"):
        terms = np.exp(x - np.maximum(x.max(-1, keepdims=True), -1e30))
        return terms / np.maximum(terms.sum(-1, keepdims=True), 1e-30)


@adapter("softmax", framework="numpy", name="raises" + EVIL + "n" * 5000)
def raises(x):
    raise ValueError(EVIL + "e" * 5000)


@adapter("softmax", framework="numpy", name="refuses" + EVIL)
def refuses(x):
    raise Unsupported(EVIL)


@adapter("softmax", framework="numpy", name="names" + EVIL)
def names(x):
    return {EVIL: softmax(x)}


@adapter("softmax", framework="numpy", name="dies" + EVIL)
def dies(x):
    sys.stderr.buffer.write(EVIL.encode("utf-8", "surrogatepass") + b"\xff")
    sys.stderr.flush()
    os._exit(3)


@adapter("softmax", framework="numpy", name="wrong" + EVIL)
def wrong(x):
    return softmax(x) / 2
"""
NAMES = ("raises", "refuses", "names", "dies", "wrong")
SHOWN = r"\x1b]0;owned\x07\x1b[2J\r\n\u202e\ud800|`<b>"
ANSWERS = ("--issue", "\x1b[31mu", "--owner", "o\x07", "--reason", "r\ud800", "--expires", "2027-01-01")


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """A folder in which a file of wicked adapters has been checked, and what the command said."""
    folder, before = tmp_path_factory.mktemp("wicked"), Path.cwd()
    os.chdir(folder)
    try:
        Path("wicked.py").write_text(WICKED, "utf-8")
        laws = ("--law", "softmax.definition", "--law", "softmax.sums_to_one")
        done = CliRunner().invoke(main, ["check", "wicked.py", *laws, "-v"])
    finally:
        os.chdir(before)
    return folder, done


@pytest.fixture
def attnspec(checked, monkeypatch):
    monkeypatch.chdir(checked[0])
    return lambda *args: CliRunner().invoke(main, list(args))


def raw(done):
    """What would do something to a terminal, beside ends of lines."""
    return [c for c in done.stdout + done.stderr if not (c.isprintable() or c == "\n")]


def test_a_run_shows_names_and_what_was_raised_escaped_and_cut(checked):
    done = checked[1]
    assert (1, []) == (done.exit_code, raw(done))
    assert [] == [name for name in NAMES if name + SHOWN not in done.stdout]
    assert max(map(len, done.stdout.splitlines())) < 700


def test_the_records_are_plain_letters(checked):
    assert (checked[0] / "attnspec-report/results.ndjson").read_bytes().isascii()


def test_junit_is_xml_that_prints(checked):
    report = (checked[0] / "attnspec-report/junit.xml").read_bytes()
    texts = [text for e in ElementTree.fromstring(report).iter() for text in (*e.attrib.values(), e.text or "")]
    assert [] == [text for text in texts if not text.replace("\n", "").isprintable()]
    assert any(SHOWN in text for text in texts)


def test_a_page_shows_names_escaped_and_is_free_of_their_markup(attnspec):
    assert 0 == attnspec("report", "--html", "page.html").exit_code
    page = Path("page.html").read_text("utf-8")
    assert [] == [c for c in page if not (c.isprintable() or c == "\n")]
    assert (True, False) == (html.escape(NAMES[4] + SHOWN) in page, "<b>" in page)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("report", 0),
        ("report --markdown", 0),
        ("identify wicked.py", 0),
        ("audit --for wicked.py --mechanism softmax", 0),
        ("check wicked.py:\x1b[31mno_such\n\udcff", 6),
        ("check \x1b[31mno_such\n\udcff.py", 6),
        ("check \x1b[31mno_such\n\udcff", 6),
        ("explain \x1b[31mno_such\n\udcff", 4),
        ("replay \x1b[31mno_such\n\udcff", 4),
        ("report \x1b[31mno_such\n\udcff", 4),
    ],
)
def test_no_command_writes_a_text_raw(attnspec, command, code):
    done = attnspec(*command.split(" "))
    assert (code, []) == (done.exit_code, raw(done))
    assert "x1b[" in done.output


def test_cases_of_wicked_subjects_are_replayed_and_waived(attnspec):
    witnesses = [line["witness"] for line in read(Path("attnspec-report/results.ndjson")) if "witness" in line]
    assert 4 == len(witnesses)
    for witness in witnesses[-2:]:
        done = attnspec("replay", witness["key"])
        assert (1, []) == (done.exit_code, raw(done))
        assert SHOWN in done.stdout
    done = attnspec("waive", witnesses[0]["key"], *ANSWERS)
    assert ([], True) == (raw(done), "\\ud800" in done.output)


@pytest.mark.parametrize(
    "code",
    [
        '@adapter("softmax", framework="numpy", conventions={"empty_row": "\\x1b[31m"})\ndef k(x): ...',
        '@adapter("softmax", framework="numpy", conventions={"\\x1b[31m": "zeros"})\ndef k(x): ...',
        '@adapter("\\x1b[31m", framework="numpy")\ndef k(x): ...',
        '@adapter("softmax", framework="numpy", dtypes=("\\x1b[31m",))\ndef k(x): ...',
        '@adapter("softmax", framework="numpy", limits={"\\x1b[31m": (1,)})\ndef k(x): ...',
        '@adapter("softmax", framework="numpy", grade="\\x1b[31m")\ndef k(x): ...',
        'raise ValueError("\\x1b[31m\\ud800")',
    ],
)
@pytest.mark.parametrize("verbose", [(), ("-v",)])
def test_a_declaration_that_is_wrong_is_told_escaped(attnspec, code, verbose, tmp_path):
    path = tmp_path / "declared.py"
    path.write_text(f"from attnspec import adapter\n\n{code}\n")
    done = attnspec("check", str(path), "--no-isolate", *verbose)
    assert done.exit_code in (4, 6)
    assert ([], True) == (raw(done), "\\x1b[31m" in done.stderr)


def test_doctor_shows_what_an_import_says_escaped(attnspec, monkeypatch):
    monkeypatch.setattr(doctor, "importing", lambda name: "cannot be imported: \x1b[31m\ud800")
    done = attnspec("doctor")
    assert ([], True) == (raw(done), "cannot be imported: \\x1b[31m\\ud800" in done.stdout)
