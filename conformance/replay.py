"""Running a kept witness again: the same arrays, the same call, the same law."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .cases import Sample
from .cells import CONTRACTS, Failure, Request, law_of
from .engine import run
from .errors import Exit, UsageError
from .grades import looser
from .judge import Kind, judged
from .loader import library, mechanism_named
from .plans import PROFILES
from .report.blocks import block
from .subject import Subject
from .targets import resolve
from .trial import Bench, Trial
from .witness import describe, find, read_case

Say = Callable[[str], Any]


def replayed(name: str, folder: Path, operator: str | None, framework: str | None, say: Say) -> Exit:
    """Run the witness and say how it went: violated, or conformant where it holds now."""
    witness = find(name, folder)
    mechanism = mechanism_named(witness["mechanism"])
    subject = _subject(witness, operator or mechanism.operator, framework)
    if witness["digest"] != mechanism.digest:
        say(f"note: {mechanism.path} has changed since this case was kept")
    law = law_of(mechanism, witness["law"])
    with subject.session():
        sample = Sample(mechanism, read_case(witness["case"]), witness["dtype"])
        bench = Bench(subject, mechanism, witness["dtype"], witness["device"], witness["words"])
        if law is None:
            return _again(witness, subject, say)
        grades = looser(bench.dtype, subject.claims.grade(bench.dtype))
        outcome = judged(Trial(bench, sample), law, grades)
        if outcome.kind is Kind.REFUTED:
            outcome = judged(Trial(bench, sample), law, grades[:1])
        if not outcome.bad:
            say(f"{witness['subject']} {mechanism.name}.{law.name}: {outcome.kind} on this case now")
            return Exit.CONFORMANT
        data = describe(Failure(law.name, outcome, sample, sample), bench, witness["target"], None, [])
    cell = {
        "subject": subject.name,
        "mechanism": mechanism.name,
        "law": law.name,
        "dtype": bench.dtype,
        "device": bench.device,
        "verdict": "fail",
        "says": outcome.says,
    }
    kept = {key: witness[key] for key in ("from", "likeness", "broken", "key")}
    for line in block({**data, **kept}, cell):
        say(line)
    if outcome.fault is not None and outcome.fault.trace:
        say(outcome.fault.trace)
    return Exit.VIOLATED


def _subject(witness: dict[str, Any], operator: str, framework: str | None) -> Subject:
    found = resolve(witness["target"], operator=operator, framework=framework)
    own = [s for s in found if s.name == witness["subject"] and s.operator == library()[witness["mechanism"]].operator]
    if not own:
        raise UsageError(f"{witness['target']} has no subject {witness['subject']!r} any more")
    return own[0]


def _again(witness: dict[str, Any], subject: Subject, say: Say) -> Exit:
    """A contract, convention or reject is about more than one call: it is tried again on the scenarios."""
    mechanism, law = library()[witness["mechanism"]], witness["law"]
    laws = {law, "definition"} if law.removeprefix("contract.") in CONTRACTS else {law}
    request = Request(subject, mechanism, witness["dtype"], PROFILES["quick"], witness["device"], laws=frozenset(laws))
    cell = next(c for c in run(request).cells if c.law == law)
    say(f"{subject.name} {cell.address}: {cell.verdict} {cell.says}")
    return Exit.VIOLATED if cell.bad else Exit.CONFORMANT
