"""The failures of a run as SARIF 2.1.0, for code scanning.

The format is OASIS' Static Analysis Results Interchange Format,
https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from .flaws import Flaw

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
KEY = "attnspecCase/v1"
"""Under which a result has what tells it from others, so that it is found again in a later run."""


def document(found: Sequence[Flaw], version: str) -> dict[str, Any]:
    """All of the file; `version` is that of attnspec."""
    laws = {flaw.law: flaw for flaw in found}
    rules = [_rule(flaw) for flaw in laws.values()]
    results = [_result(flaw, [*laws].index(flaw.law)) for flaw in found]
    driver = {"name": "attnspec", "semanticVersion": version, "rules": rules}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _rule(flaw: Flaw) -> dict[str, Any]:
    rule: dict[str, Any] = {"id": flaw.law, "name": flaw.law.replace(".", "-")}
    if flaw.sentence:
        rule["shortDescription"] = {"text": flaw.sentence}
    return rule


def _result(flaw: Flaw, index: int) -> dict[str, Any]:
    location: dict[str, Any] = {
        "logicalLocations": [{"fullyQualifiedName": flaw.subject, "kind": "function"}],
    }
    if flaw.file:
        uri = PurePath(flaw.file).as_posix()
        location["physicalLocation"] = {"artifactLocation": {"uri": uri}, "region": {"startLine": flaw.line}}
    result: dict[str, Any] = {
        "ruleId": flaw.law,
        "ruleIndex": index,
        "level": flaw.weight,
        "message": {"text": flaw.head, "markdown": f"{flaw.head}\n\n```\n{flaw.text}\n```"},
        "locations": [location],
        "partialFingerprints": {KEY: f"{flaw.subject} {flaw.law} {flaw.dtype}"},
        "properties": {"dtype": flaw.dtype, "case": flaw.key},
    }
    if flaw.waived:
        result["suppressions"] = [{"kind": "external", "justification": flaw.waived}]
    return result
