"""The failures of a run as GitHub annotations at the lines of adapters.

The commands are those of
https://docs.github.com/actions/reference/workflow-commands-for-github-actions#setting-an-error-message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .flaws import Flaw

KINDS = {"error": "error", "warning": "warning", "note": "notice"}
SHOWN = 10
"""How many of a kind GitHub shows of a step."""


def github(found: Sequence[Flaw]) -> Iterator[str]:
    """A command for each flaw; of a kind that has too many, the last says how many there are beside."""
    for weight, kind in KINDS.items():
        own = [flaw for flaw in found if flaw.weight == weight]
        shown = own if len(own) <= SHOWN else own[: SHOWN - 1]
        yield from (_command(kind, flaw) for flaw in shown)
        if len(own) > len(shown):
            yield f"::{kind} title=attnspec::{len(own) - len(shown)} more; 'attnspec report' has all of them"


def _command(kind: str, flaw: Flaw) -> str:
    where = {"file": flaw.file, "line": flaw.line} if flaw.file else {}
    parts = {**where, "title": f"attnspec {flaw.law}"}
    told = ",".join(f"{name}={_escaped(str(x)).replace(':', '%3A').replace(',', '%2C')}" for name, x in parts.items())
    text = flaw.text if flaw.text.startswith(flaw.head) else f"{flaw.head}\n\n{flaw.text}"
    return f"::{kind} {told}::{_escaped(text)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
