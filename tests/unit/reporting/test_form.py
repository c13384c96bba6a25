"""What results hold is stated once, and is what runs write."""

import datetime
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

import attnspec
from attnspec.cli import main
from attnspec.errors import UsageError
from attnspec.reporting.form import DIFF, PAGE, SCHEMA, diff_page, page, schema, written
from attnspec.reporting.records import FORMAT, KINDS
from attnspec.reporting.results import Results, read
from attnspec.runs import runner

ROOT = Path(__file__).resolve().parents[3]
KERNELS = """
import numpy as np
from attnspec import adapter

def softmax(x):
    with np.errstate(all="ignore"):
        terms = np.exp(x - np.maximum(x.max(-1, keepdims=True), -1e30))
        return terms / np.maximum(terms.sum(-1, keepdims=True), 1e-30)

@adapter("softmax", framework="numpy", conventions={"empty_row": "zeros"})
def right(x):
    return softmax(x)

@adapter("softmax", framework="numpy")
def half(x):
    return softmax(x) / 2

@adapter("softmax", framework="numpy")
def raises(x):
    raise ValueError("no")

@adapter("softmax", framework="numpy")
def refuses(x):
    raise __import__("attnspec").Unsupported("no")
"""
LAWS = [part for law in ("definition", "sums_to_one", "share") for part in ("--law", law)]
STRICT = Draft202012Validator(schema(closed=True))


def test_the_files_are_made_of_the_types():
    assert json.loads(SCHEMA.read_text()) == schema()
    assert (ROOT / PAGE).read_text() == page()
    assert (ROOT / DIFF).read_text() == diff_page()
    assert {SCHEMA, PAGE, DIFF} == {*written()}


def check(*args):
    result = CliRunner().invoke(main, ["check", "kernels.py", "--profile", "smoke", *LAWS, *args])
    lines = [json.loads(line) for line in Path("attnspec-report/results.ndjson").read_text().splitlines()]
    for line in lines:
        STRICT.validate(line)
    return result, lines


def test_runs_of_every_kind_hold_what_is_stated(monkeypatch):
    Path("kernels.py").write_text(KERNELS)
    _, lines = check()
    verdicts = {line["verdict"] for line in lines if line["kind"] == "cell"}
    assert {"pass", "fail", "error"} <= verdicts
    assert {"conformant", "violated", "partial"} >= {line["verdict"] for line in lines if line["kind"] == "subject"}
    assert [*KINDS] == list(dict.fromkeys(line["kind"] for line in lines))
    key = next(c["witness"]["key"] for c in lines if c["kind"] == "cell" and "witness" in c and c["subject"] == "half")
    day = (datetime.date.today() + datetime.timedelta(9)).isoformat()
    answers = ("--reason", "r", "--issue", "i", "--owner", "o", "--expires", day)
    assert 0 == CliRunner().invoke(main, ["waive", key, *answers]).exit_code
    _, waived = check("--waivers", "attnspec-waivers.yaml")
    assert "waived" in {line.get("verdict") for line in waived}
    _, resumed = check("--waivers", "attnspec-waivers.yaml", "--resume")
    assert {True} == {line.get("resumed") for line in resumed if line["kind"] == "cell"}
    check("--max-time", "0", "--waivers", "none.yaml", "--no-isolate")
    monkeypatch.setattr(runner, "run", lambda *_: 1 / 0)
    _, broken = check()
    assert {"internal"} == {line["verdict"] for line in broken if line["kind"] == "cell"}


def test_a_check_from_python_holds_what_is_stated():
    for line in attnspec.check("mistake:softmax.base_two", profile="smoke", mechanisms=["softmax"]).lines:
        STRICT.validate(line)


def test_a_file_of_a_later_format_is_refused_with_its_number():
    Results(Path("out"), {"format": FORMAT + 1}).finish()
    with pytest.raises(UsageError, match=f"has format {FORMAT + 1} of results, and this attnspec reads up to {FORMAT}"):
        read(Path("out/results.ndjson"))
    Results(Path("out"), {}).finish()
    assert 2 == len(read(Path("out/results.ndjson")))
    assert ["results.ndjson"] == os.listdir("out")
