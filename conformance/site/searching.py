"""The search of a site: names, descriptions and addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..reporting.findings import findings
from .implementations import Implementation
from .mechanisms import MechanismPage
from .places import of_mechanism, of_subject

Entry = tuple[str, str, str, str]
"""Kind, name, what it says, and its address."""
LONGEST = 120
"""Characters of what is said."""


def index(mechanisms: Iterable[MechanismPage], implementations: Iterable[Implementation]) -> list[Entry]:
    """Everything that has a place on the site."""
    return [(kind, name, _short(says), at) for kind, name, says, at in _entries(mechanisms, implementations)]


def _entries(mechanisms: Iterable[MechanismPage], implementations: Iterable[Implementation]) -> Iterator[Entry]:
    for m in mechanisms:
        at = of_mechanism(m.name)
        yield "mechanism", m.name, m.title, at
        yield from (("law", f"{m.name}.{law.name}", law.says, f"{at}#law-{law.name}") for law in m.laws)
        yield from (
            ("mistake", f"{m.name}.{wrong.name}", wrong.says, f"{at}#mistake-{wrong.name}") for wrong in m.mistakes
        )
        if m.name == m.operator:
            for name, words in m.conventions:
                says = ", ".join(word.name for word in words)
                yield "convention", f"{m.name}: {name}", says, f"{at}#convention-{name}"
    for one in implementations:
        yield "implementation", one.name, one.summary, of_subject(one.name)
    for finding in findings():
        yield "finding", finding.id, finding.heading, f"findings.html#{finding.id}"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
