"""All pages of a site, written into a folder."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..mechanisms.library import Library
from ..reporting import rendering
from ..reporting.changes import KINDS, changes
from ..reporting.findings import findings, standing
from . import places
from .history import Run, latest
from .implementations import implementation, names
from .mechanisms import mechanism_page
from .searching import index
from .tables import rows

TEMPLATES = Path(__file__).with_name("templates")
BADGES = {
    "pass": "#1d7a3a",
    "should": "#1d7a3a",
    "waived": "#8a5a00",
    "known": "#8a5a00",
    "fail": "#b3261e",
    "not_tested": "#59616b",
}
"""The grounds of badges, on all of which white stands out."""
WIDE = 6.6
"""Units of a letter of a badge, about."""


def build(folder: Path, runs: Sequence[Run], library: Library) -> int:
    """Write a site of runs and of the mechanisms of a library; returns how many files it has.

    A folder that cannot be written to is a `UsageError`.
    """
    pages = dict(_pages(runs, library))
    try:
        for name, text in pages.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from None
    return len(pages)


def _pages(runs: Sequence[Run], library: Library) -> dict[str, str]:
    """The texts of all files by their names."""
    templates, groups = _templates(), latest(runs)
    mechanisms = [mechanism_page(m, groups) for _, m in sorted(library.items())]
    subjects = [implementation(name, groups) for name in names(groups)]
    table = list(rows(groups))
    pairs = [(before, after, changes(before.state, after.state)) for before, after in itertools.pairwise(runs)]
    shared = {
        "runs": [*reversed(runs)],
        "library": library,
        "subjects_known": {one.name for one in subjects},
        "findings_known": {finding.id for finding in findings()},
    }

    def page(template: str, at: str, **more: Any) -> str:
        return templates.get_template(template).render(**shared, **more, root="../" * at.count("/"), at=at)

    found = {
        "index.html": page("index.html", "index.html", mechanisms=mechanisms, subjects=subjects),
        "matrix.html": page("matrix.html", "matrix.html", rows=table, filters=filters(table)),
        "findings.html": page("findings.html", "findings.html", findings=[(f, standing(f)) for f in findings()]),
        "changes.html": page("changes.html", "changes.html", pairs=pairs),
        "search.html": page("search.html", "search.html", entries=index(mechanisms, subjects)),
        "site.css": "".join(
            (folder / name).read_text("utf-8")
            for folder, name in ((rendering.TEMPLATES, "report.css"), (TEMPLATES, "site.css"))
        ),
        "site.js": "".join(
            (folder / name).read_text("utf-8")
            for folder, name in ((rendering.TEMPLATES, "copy.js"), (TEMPLATES, "site.js"))
        ),
    }
    for m in mechanisms:
        at = places.of_mechanism(m.name)
        found[at] = page("mechanism.html", at, m=m)
    for one in subjects:
        at = places.of_subject(one.name)
        found[at] = page("implementation.html", at, one=one)
        found[places.of_badge(one.name)] = badge(
            templates, one.verdict, f"{one.counts} laws" if one.counts else one.told
        )
    for before, after, own in pairs:
        at = places.of_changes(before.name, after.name)
        kinds = [(kind, says, [change for change in own if change.kind == kind]) for kind, says in KINDS.items()]
        found[at] = page("difference.html", at, before=before, after=after, kinds=kinds)
    for run in runs:
        if run.lines:
            found[places.of_report(run.name)] = rendering.rendered([rendering.Source(run.lines, run.folder)])
    return found


def filters(table: Sequence[Any]) -> Mapping[str, list[str]]:
    """What rows may be chosen by, each with its values."""
    keys = ("mechanism", "dtype", "framework", "device", "day", "verdict")
    return {key: [x for x in sorted(Counter(getattr(row, key) for row in table)) if x] for key in keys}


def badge(templates: Any, verdict: str, text: str) -> str:
    """A badge as SVG."""
    left, right = (round(WIDE * len(part)) + 12 for part in ("attnspec", text))
    ground = BADGES[verdict]
    return templates.get_template("badge.svg").render(text=text, left=left, right=right, ground=ground)


def _templates() -> Any:
    found = rendering.templates_of(TEMPLATES)
    found.globals["places"] = places
    return found
