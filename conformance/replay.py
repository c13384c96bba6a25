"""Running a kept witness again: the same arrays, the same call, the same law."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .cases import Sample
from .cells import Failure, Request, law_names, law_of
from .engine import run
from .errors import Exit, UsageError
from .grades import looser
from .judge import Kind, judged
from .loader import library, mechanism_named
from .plans import PROFILES
from .report.blocks import block
from .subject import Subject
from .supervisor import SECONDS, available, supervisor
from .targets import file_of, resolve
from .texts import safe, safe_data, safe_lines
from .trial import Bench, Trial
from .typesetting import page_width, terminal
from .witness import describe, find, read_case, runnable

Say = Callable[[str], Any]


def replayed(
    name: str,
    folder: Path,
    operator: str | None,
    framework: str | None,
    say: Say,
    *,
    note: Say = lambda text: None,
    trusted: bool = True,
) -> Exit:
    """Run the witness and say how it went: violated, or conformant where it holds now.

    A file that the case names is run, which a `note` says before; if it is not `trusted`, it has to lie in the present
    folder.
    """
    witness = find(name, folder)
    mechanism = mechanism_named(witness["mechanism"])
    _admit(witness["target"], name, note, trusted=trusted)
    subject = _subject(witness, operator or mechanism.operator, framework)
    if witness["law"] not in law_names(mechanism):
        raise UsageError(f"{mechanism.name} has no law {witness['law']!r} any more")
    if witness["digest"] != mechanism.digest:
        say(f"note: {mechanism.path} has changed since this case was kept")
    with subject.session(), runnable(name):
        sample = Sample(mechanism, read_case(witness["case"]), witness["dtype"])
        bench = Bench(subject, mechanism, witness["dtype"], witness["device"], witness["words"])
        failure, verdict, says = again(bench, sample, witness["law"])
        if failure is None:
            address = mechanism.address(witness["law"])
            say(f"{subject.name} {address}: {verdict} on this case now" + (f": {says}" if says else ""))
            return Exit.CONFORMANT
        data = describe(failure, bench, witness["target"], None, [])
    cell = {
        "subject": subject.name,
        "mechanism": mechanism.name,
        "law": witness["law"],
        "dtype": bench.dtype,
        "device": bench.device,
        "verdict": verdict,
        "says": says,
    }
    kept = {key: witness[key] for key in ("from", "likeness", "nearest", "map", "broken", "key") if key in witness}
    for line in block(safe_data({**data, **kept}), safe_data(cell), page_width(terminal())):
        say(line)
    if data["trace"]:
        say(safe_lines(data["trace"]))
    return Exit.VIOLATED


def _admit(target: str, name: str, note: Say, *, trusted: bool) -> None:
    """Say which file a case names before it is run; a `UsageError` for one that nobody has vouched for."""
    path = file_of(target)
    if path is None:
        return
    shown = safe(str(path))
    if not trusted and not path.resolve().is_relative_to(Path.cwd().resolve()):
        raise UsageError(
            f"the case {safe(name)} names {shown}, a program outside the present folder; --trust has it run"
        )
    note(f"runs {shown}, which the case names")


def _subject(witness: dict[str, Any], operator: str, framework: str | None) -> Subject:
    supervised = supervisor(SECONDS, witness["device"]) if available() else None
    found = resolve(witness["target"], operator=operator, framework=framework, supervisor=supervised)
    own = [s for s in found if s.name == witness["subject"] and s.operator == library()[witness["mechanism"]].operator]
    if not own:
        raise UsageError(f"{witness['target']} has no subject {witness['subject']!r} any more")
    return own[0]


def again(bench: Bench, sample: Sample, name: str) -> tuple[Failure | None, str, str]:
    """The failure, if it is found again; the verdict, and what is said of it."""
    law = law_of(bench.mechanism, name)
    if law is None:
        return _run_again(bench, sample, name)
    grades = looser(bench.dtype, bench.subject.claims.grade(bench.dtype))
    outcome = judged(Trial(bench, sample), law, grades)
    if outcome.kind is Kind.REFUTED:
        outcome = judged(Trial(bench, sample), law, grades[:1])
    if not outcome.bad:
        return None, outcome.kind, ""
    return Failure(name, outcome, sample, sample), "error" if outcome.kind is Kind.FAULTED else "fail", outcome.says


def _run_again(bench: Bench, sample: Sample, name: str) -> tuple[Failure | None, str, str]:
    """A contract or a reject: it is about all calls that the laws make of the case, and so all of them are made."""
    request = Request(bench.subject, bench.mechanism, bench.dtype, PROFILES["quick"], bench.device, only=(sample,))
    cell = next(c for c in run(request).cells if c.law == name)
    return cell.failure if cell.bad else None, cell.verdict, cell.says
