"""The verdicts on cases of the sizes of production: one for each case, by its name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from ..cases.large import large_sample
from ..errors import SpecError
from ..mechanisms.mechanism import Assignments
from ..mechanisms.serving import at_tiles, has_tiles, serving
from .cells import BOUNDS, LARGE, TILES, Cell
from .course import Course
from .large import Judged, Large, Unroomy
from .settling import Declined

SECONDS = 20.0
"""How long the rows of one case are compared with the definition; those that are left then are not."""


def served(seen: Course) -> Iterator[Cell]:
    """The cells of all large cases of a mechanism that are asked for."""
    beyond, tried = "", 0
    for name, assigned in serving(seen.mechanism).items():
        if seen.request.wants(f"{LARGE}{name}"):
            verdict = _verdict(seen, name, assigned)
            beyond, tried = beyond or verdict.pop("beyond", ""), tried + verdict.get("cases", 0)
            cell = _cell(seen, f"{LARGE}{name}", **verdict)
            yield cell
            if cell.bad and seen.request.first:
                break
    if serving(seen.mechanism) and seen.request.wants(BOUNDS):
        verdict = "fail" if beyond else "pass" if tried else "not_tested"
        yield _cell(seen, BOUNDS, verdict=verdict, cases=tried, says=beyond)
    if has_tiles(seen.mechanism) and seen.request.wants(f"{LARGE}{TILES}"):
        yield _cell(seen, f"{LARGE}{TILES}", **_at_tiles(seen))


def _at_tiles(seen: Course) -> dict[str, Any]:
    """The verdict on lengths on both sides of the tiles that the subject declares: that of the first wrong one."""
    claims = seen.subject.claims
    if not claims.tiles:
        return {"verdict": "not_declared", "says": "declares no tiles"}
    found = []
    for name, assigned in at_tiles(seen.mechanism, claims.tiles, claims.splits).items():
        found.append(_verdict(seen, name, assigned))
        found[-1].pop("beyond", "")
        if found[-1]["verdict"] in ("fail", "error"):
            return found[-1]
    tried = [each for each in found if each["verdict"] == "pass"]
    if not tried:
        return found[-1]
    return {**tried[-1], "cases": len(tried), "worst": max(each["worst"] for each in tried)}


def _verdict(seen: Course, name: str, assigned: Assignments) -> dict[str, Any]:
    request = seen.request
    if request.deadline is not None and time.monotonic() > request.deadline:
        return {"verdict": "not_tested", "says": "time was up"}
    sample = large_sample(seen.mechanism, name, assigned, seen.subject.claims, request.dtype, request.seed)
    if isinstance(sample, str):
        return {"verdict": "not_declared", "says": sample}
    try:
        large = Large(seen.bench, sample, memory=request.memory, seconds=SECONDS)
        found = large.judged(seen.grades)
    except Declined as answer:
        return {"verdict": "not_declared", "says": str(answer)}
    except (Unroomy, SpecError) as answer:
        return {"verdict": "not_tested", "says": str(answer).splitlines()[0]}
    return {"cases": 1, "worst": found.excess, **_told(found, sample.case.label)}


def _told(found: Judged, label: str) -> dict[str, Any]:
    if found.fault is not None:
        return {"verdict": "error", "says": f"{label}: {found.says}"}
    part = "" if found.seen == found.rows else f"{found.seen} of {found.rows} rows were compared with the definition"
    if found.beyond:
        return {"verdict": "fail", "says": f"{label}: {found.says}", "beyond": f"{label}: {found.beyond}"}
    if not found.refuted:
        return {"verdict": "pass", "says": part}
    how = f"the error is {found.excess:.3g} x the bound"
    return {"verdict": "fail", "says": "; ".join(filter(None, [f"{label}: {found.says}", how, part]))}


def _cell(seen: Course, name: str, **more: Any) -> Cell:
    r, m = seen.request, seen.mechanism
    return Cell(r.subject.name, m.operator, m.name, name, "must", r.dtype, r.device, **more)
