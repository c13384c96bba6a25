"""What a cell becomes as a line of the results, with what its run has to say."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cases.plans import beyond_limits, directed
from ..data.texts import safe
from ..diagnosis.witness import finite_or_none
from ..frameworks.framework import kind_of
from ..judging.announced import taken_told
from ..judging.cells import Cell, Result, sentence_of
from ..judging.conventions import Finding
from ..mechanisms.evidence import Evidence, evidence_of
from ..numerics.grades import coarser
from ..subjects.subject import AdapterSubject
from .groups import Group


def cell_data(cell: Cell, group: Group, result: Result) -> dict[str, Any]:
    """A cell as one line of the results."""
    data: dict[str, Any] = {
        "kind": "cell",
        "subject": group.name,
        "operator": cell.operator,
        "mechanism": cell.mechanism,
        "law": cell.law,
        "level": cell.level,
        "dtype": cell.dtype,
        "device": cell.device,
        "verdict": cell.verdict,
        "cases": cell.cases,
        "worst": finite_or_none(cell.worst),
        "says": cell.says,
        "version": group.mechanism.version,
        "digest": group.mechanism.digest,
    }
    if cell.bad:
        data["sentence"] = sentence_of(group.mechanism, cell.law)
    if cell.finding:
        data["finding"] = cell.finding
    if cell.note:
        data["note"] = cell.note
    if cell.margins is not None and cell.margins.counts.any():
        data["spread"] = cell.margins.counts.tolist()
    if cell is result.cells[0]:
        data["run"] = {
            "cases": result.cases,
            "calls": result.calls,
            "seconds": round(result.seconds, 4),
            "grade": result.grade.name if result.grade else "",
            "partial": result.partial,
            "ended": result.ended,
            "conventions": {name: convention_data(f) for name, f in result.conventions.items()},
        }
        data["run"] |= taken_data(group)
        known = evidence_of(group.mechanism)
        data["run"] |= coverage_data(group, result)
        data["run"] |= {"interpreted": by} if (by := interpreted_by(group, cell.device)) else {}
        data["run"] |= {"mended": mended} if (mended := unseen(result)) else {}
        data["run"] |= errors_data(result)
        data["run"] |= times_data(result)
        if known is not None and result.bench is not None and any(c.law == "definition" for c in result.cells):
            data["run"]["evidence"] = evidence_data(known, group, result)
    return data


def taken_data(group: Group) -> dict[str, Any]:
    """How a subject is called, where that is not as its operator has it; and what is to be said of it."""
    subject = group.subject
    if not isinstance(subject, AdapterSubject):
        return {}
    layout, taken = subject.form.layout, subject.form.taken
    found = {
        "layout": "" if layout.canonical else layout.name,
        "like": taken.signature.name if taken else "",
        "taken": taken_told(subject),
    }
    return {name: x for name, x in found.items() if x}


def unseen(result: Result) -> list[str]:
    """The known findings whose condition was met, and whose laws all hold nevertheless."""
    verdicts: dict[str, set[str]] = {}
    for mark in result.marks:
        if mark.finding in result.met:
            own = {cell.verdict for cell in result.cells if cell.law in mark.laws}
            verdicts.setdefault(mark.finding, set()).update(own)
    return [finding for finding, own in verdicts.items() if own == {"pass"}]


def coverage_data(group: Group, result: Result) -> dict[str, Any]:
    """What was refused, claimed and left aside, as far as there is any of it."""
    claims, refusals = group.subject.claims, result.refusals
    answered, refused = len({*refusals.answered}), len(refusals.refused)
    grade = claims.grade(group.dtype)
    found: dict[str, Any] = {
        "claimed": grade.name if coarser(group.dtype, grade) else "",
        "untested": list(claims.untested),
        "notes": [*group.notes, *result.observed],
    }
    if answered or refused:
        found["coverage"] = {
            "answered": answered,
            "scenarios": answered + refused,
            "share": group.mechanism.answered,
            "says": next(iter(refusals.refused.values()), ""),
            "by_value": list(refusals.by_value),
            "given": sorted(refusals.given),
        }
    return {name: part for name, part in found.items() if part}


def interpreted_by(group: Group, device: str) -> str:
    """What runs the kernels of a subject in place of a device, as it declares; nothing where there is one."""
    adapter = group.subject.adapter if isinstance(group.subject, AdapterSubject) else None
    return safe(adapter.interpreted) if adapter and kind_of(device) == "cpu" else ""


def errors_data(result: Result) -> dict[str, Any]:
    """How far the worst cases are from the definition, by length and size of scores, of those that keep it.

    One that is not finite can be neither drawn nor kept as JSON.
    """
    margins = next((cell.margins for cell in result.cells if cell.law == "definition"), None)
    own = sorted(margins.cases, key=lambda case: case.length) if margins else []
    found = [
        {"case": c.case, "length": c.length, "units": _short(c.worst), "row": c.row, "rows": c.rows}
        | ({"score": _short(c.score)} if c.score and np.isfinite(c.score) else {})
        for c in own
        if np.isfinite(c.worst)
    ]
    return {"errors": found} if found else {}


def times_data(result: Result) -> dict[str, Any]:
    """How long calls took: their quartiles, in seconds."""
    if not result.times:
        return {}
    quartiles = np.percentile(result.times, (25, 50, 75))
    return {"times": dict(zip(("low", "median", "high"), map(_short, quartiles), strict=True))}


def _short(x: float) -> float:
    """A number by its first three digits."""
    return float(f"{x:.3g}")


def evidence_data(known: Evidence, group: Group, result: Result) -> dict[str, Any]:
    """What the scenarios that were answered would have shown: how many known mistakes, and which of them not."""
    claimed = {case.label for case in directed(group.mechanism, group.subject.claims, 0)}
    beyond = known.unshown(claimed, group.dtype)
    answered = set(result.refusals.answered) - set(beyond_limits(group.mechanism, group.subject.claims, group.dtype))
    unshown = [name for name in known.unshown(answered, group.dtype) if name not in beyond]
    return {
        "scenarios": len(result.refusals.answered),
        "mistakes": len(known.shows),
        "unclaimed": len(beyond),
        "unshown": unshown,
    }


def convention_data(finding: Finding) -> dict[str, Any]:
    return {"word": finding.word, "how": finding.how, "agreed": finding.agreed, "cases": finding.cases}
