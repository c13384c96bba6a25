"""Flaws as SARIF, in the shape that its schema asks for."""

import json

import pytest

from attnspec.reporting.flaws import Flaw
from attnspec.reporting.sarif import KEY, document

FLAWS = [
    Flaw("softmax.share", "Rows sum to one.", "k", "float32", "error", "head", "text", "own.py", 7, "abc"),
    Flaw("softmax.share", "Rows sum to one.", "other", "float32", "note", "head", "text", waived="until then"),
    Flaw("partial", "", "k", "", "error", "PARTIAL", "PARTIAL"),
]


def test_every_law_is_a_rule_and_every_flaw_a_result_of_its_rule():
    (run,) = document(FLAWS, "1.2.3")["runs"]
    rules, results = run["tool"]["driver"]["rules"], run["results"]
    assert ["softmax.share", "partial"] == [rule["id"] for rule in rules]
    assert [result["ruleId"] for result in results] == [rules[result["ruleIndex"]]["id"] for result in results]
    assert ["error", "note", "error"] == [result["level"] for result in results]


def test_a_result_has_a_place_only_where_one_is_known():
    first, second, _ = document(FLAWS, "1.2.3")["runs"][0]["results"]
    place = {"artifactLocation": {"uri": "own.py"}, "region": {"startLine": 7}}
    assert place == first["locations"][0]["physicalLocation"]
    assert "physicalLocation" not in second["locations"][0]
    assert "k softmax.share float32" == first["partialFingerprints"][KEY]


def test_what_somebody_answers_for_is_suppressed():
    first, second, _ = document(FLAWS, "1.2.3")["runs"][0]["results"]
    assert (False, "until then") == ("suppressions" in first, second["suppressions"][0]["justification"])


def test_the_document_is_sarif():
    sarif = pytest.importorskip("sarif_pydantic")
    found = sarif.Sarif.model_validate(json.loads(json.dumps(document(FLAWS, "1.2.3"))))
    assert ("2.1.0", 3) == (found.version, len(found.runs[0].results))
