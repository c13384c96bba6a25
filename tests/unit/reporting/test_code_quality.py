"""Flaws as a report on code quality, in the form that GitLab documents."""

import jsonschema

from attnspec.reporting.code_quality import document
from attnspec.reporting.flaws import Flaw

FLAWS = [
    Flaw("softmax.share", "Rows sum to one.", "k", "float32", "error", "head", "text", "own.py", 7, "abc"),
    Flaw("softmax.share", "Rows sum to one.", "k", "float16", "note", "head", "text", waived="until then"),
    Flaw("softmax.ratio", "", "k", "float32", "warning", "head", "text"),
]
TEXT = {"type": "string", "minLength": 1}
LINES = {"type": "object", "required": ["begin"], "properties": {"begin": {"type": "integer", "minimum": 1}}}
LOCATION = {
    "type": "object",
    "required": ["path", "lines"],
    "properties": {"path": {**TEXT, "pattern": r"^(?!\./|/)"}, "lines": LINES},
}
DOCUMENTED = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "location", "severity"],
        "properties": {
            "description": TEXT,
            "check_name": TEXT,
            "fingerprint": TEXT,
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": LOCATION,
        },
    },
}
"""The table of https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format as a schema."""


def test_the_report_has_what_gitlab_asks_for():
    found = document(FLAWS)
    jsonschema.validate(found, DOCUMENTED)
    assert ["major", "info", "minor"] == [one["severity"] for one in found]
    assert {"path": "own.py", "lines": {"begin": 7}} == found[0]["location"]


def test_what_is_waived_says_until_when():
    assert "head (waived until then)" == document(FLAWS)[1]["description"]


def test_a_flaw_has_a_fingerprint_of_its_own_that_stays_the_same():
    found = [one["fingerprint"] for one in document(FLAWS)]
    assert (3, found) == (len(set(found)), [one["fingerprint"] for one in document(FLAWS)])
