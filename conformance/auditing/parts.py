"""What an audit reports of one mechanism, of a correct variant, or of a faulty function."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..mechanisms.evidence import Evidence
from ..reporting.typesetting import aligned
from .mutation import Refutation


@dataclass(slots=True)
class Part:
    """What the audit of one mechanism, or of the controls, found."""

    name: str
    kills: dict[str, list[Refutation]] = field(default_factory=dict)
    """For each mistake, how laws refute it."""
    laws: tuple[str, ...] = ()
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    evidence: Evidence | None = None
    """Of a mechanism: which scenarios show which mistakes."""

    def lines(self, *, table: bool) -> Iterator[str]:
        """The part as text; with `table`, every mistake with the laws that refute it, and how."""
        note = f"{len(self.laws)} laws, {len(self.kills)} mistakes" if self.kills else ", ".join(self.notes)
        yield f"{self.name:<22} {note}" + ("" if self.faults else "   ok")
        yield from (f"    {note}" for note in self.notes if self.kills)
        if table and self.kills:
            yield from self.matrix()
        for fault in self.faults:
            yield f"    FAULT {fault}"

    def matrix(self) -> Iterator[str]:
        """Which law refutes which mistake: on which case, after how many checks, in what time, how far beyond doubt."""
        rows = [("mistake", "law", "case", "checks", "CPU", "x bound")]
        for mistake, refutations in self.kills.items():
            rows += [
                ("" if i else mistake, r.law, r.case, str(r.checks), f"{1e3 * r.seconds:.1f} ms", f"{r.excess:.0e}")
                for i, r in enumerate(refutations)
            ] or [(mistake, "-", "", "", "", "")]
        yield from (f"    {row}" for row in aligned(rows, left=3))
        credited = {refutation.law for refutations in self.kills.values() for refutation in refutations}
        idle = [law for law in self.laws if law not in credited]
        if idle:
            yield f"    refute nothing: {', '.join(idle)}"
        hanging = self.evidence.hanging("float32") if self.evidence is not None else {}
        if hanging:
            pairs = (f"{mistake} ({label})" for mistake, label in hanging.items())
            yield f"    shown by one scenario alone: {', '.join(pairs)}"
