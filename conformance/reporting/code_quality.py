"""The failures of a run as a GitLab code quality report, which is shown in a merge request.

The format is https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from .flaws import Flaw

SEVERITIES = {"error": "major", "warning": "minor", "note": "info"}
ELSEWHERE = "attnspec"
"""The file of what stands in none of the project."""


def document(found: Sequence[Flaw]) -> list[dict[str, Any]]:
    """All of the file: an entry for each flaw, whose fingerprint is the same in a later run."""
    return [_entry(flaw) for flaw in found]


def _entry(flaw: Flaw) -> dict[str, Any]:
    same = f"{flaw.subject} {flaw.law} {flaw.dtype}"
    return {
        "description": f"{flaw.head} (waived {flaw.waived})" if flaw.waived else flaw.head,
        "check_name": flaw.law,
        "fingerprint": hashlib.blake2b(same.encode(), digest_size=16).hexdigest(),
        "severity": SEVERITIES[flaw.weight],
        "location": {
            "path": PurePath(flaw.file or ELSEWHERE).as_posix(),
            "lines": {"begin": max(flaw.line, 1)},
        },
    }
