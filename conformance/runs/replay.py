"""Running a kept witness again: the same arrays, the same call, the same law."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..cases.large import LargeSample, large_again
from ..cases.profiles import PROFILES
from ..cases.samples import Case, Sample
from ..data.texts import safe, safe_data, safe_lines
from ..diagnosis.history import prepared
from ..diagnosis.stored import find, library_of, read_case, runnable
from ..diagnosis.witness import describe
from ..errors import Exit, TargetError, UsageError
from ..execution.interpreters import parted
from ..execution.supervisor import SECONDS, available, supervisor
from ..judging.bench import Bench
from ..judging.cells import Failure, Request, every_name, is_large, law_of
from ..judging.engine import run
from ..judging.first_call import differentiated
from ..judging.judge import Kind, judged
from ..judging.serving import served_again
from ..judging.trial import Trial
from ..mechanisms.library import Library
from ..mechanisms.loader import NONE, Specs, mechanism_named
from ..mechanisms.mechanism import Mechanism
from ..numerics.grades import looser
from ..reporting.blocks import block
from ..reporting.typesetting import page_width, terminal
from ..subjects.subject import Subject
from ..subjects.targets import file_of, resolve

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
    seconds: float = SECONDS,
    specs: Specs = NONE,
) -> Exit:
    """Run the witness and say how it went: violated, or conformant where it holds now.

    Where it holds by itself, it is run once more in a new process, after what was tried before it.
    A file that the case names is run, which a `note` says before; if it is not `trusted`, it has to lie in the present
    folder. A call may take so many `seconds`.
    """
    witness = find(name, folder, specs)
    known = library_of(witness, specs)
    mechanism = mechanism_named(witness["mechanism"], known)
    admit(witness["target"], name, note, trusted=trusted)
    subject = subject_of(witness, known, operator or mechanism.operator, framework, seconds)
    if witness["law"] not in every_name(mechanism):
        raise UsageError(f"{mechanism.name} has no law {witness['law']!r} any more")
    if witness["digest"] != mechanism.digest:
        say(f"note: {mechanism.path} has changed since this case was kept")
    bench = bench_of(witness, mechanism, subject)
    with subject.session(), runnable(name):
        sample = sample_of(witness, mechanism, subject)
        earlier = _earlier(bench, witness) if witness.get("retraced") else ()
        if earlier:
            say(f"note: makes {'an earlier call' if len(earlier) == 1 else f'{len(earlier)} earlier calls'} first")
        failure, verdict, says = again(bench, sample, witness["law"], earlier)
    if failure is None and witness.get("before") and not earlier:
        anew = subject_of(witness, known, operator or mechanism.operator, framework, seconds, fresh=True)
        bench = bench_of(witness, mechanism, anew)
        with runnable(name):
            failure, *found = _after(bench, witness, sample)
        if failure is not None:
            verdict, says = found
            say(f"note: by itself it holds now, and it fails after {_counted(witness)}: earlier calls matter")
    if failure is None:
        address = mechanism.address(witness["law"])
        both = "" if earlier else "by itself and "
        also = f", {both}after {_counted(witness)}" if witness.get("before") else ""
        say(f"{subject.name} {address}: {verdict} on this case now{also}" + (f": {says}" if says else ""))
        return Exit.CONFORMANT
    with bench.subject.session():
        if earlier:
            prepared(bench, earlier)
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
    kept = {
        key: witness[key]
        for key in ("from", "likeness", "nearest", "map", "when", "after", "before", "broken", "key")
        if key in witness
    }
    for line in block(safe_data({**data, **kept}), safe_data(cell), page_width(terminal())):
        say(line)
    if data["trace"]:
        say(safe_lines(data["trace"]))
    return Exit.VIOLATED


def admit(target: str, name: str, note: Say, *, trusted: bool) -> None:
    """Say which file and interpreter a case names before they are run; a `UsageError` if nobody has vouched for one."""
    path, python = file_of(target), parted(target)[1]
    programs = {path: path.resolve()} if path is not None else {}
    if python:  # in an environment this is a link to what lies elsewhere
        programs[Path(python)] = Path(python).parent.resolve() / Path(python).name
    for path, whole in programs.items():
        shown = safe(str(path))
        if not trusted and not whole.is_relative_to(Path.cwd().resolve()):
            raise UsageError(
                f"the case {safe(name)} names {shown}, a program outside the present folder; --trust has it run"
            )
        note(f"runs {shown}, which the case names")


def bench_of(witness: dict[str, Any], mechanism: Mechanism, subject: Subject) -> Bench:
    return Bench(subject, mechanism, witness["dtype"], witness["device"], witness["words"])


def sample_of(witness: dict[str, Any], mechanism: Mechanism, subject: Subject) -> Sample:
    """The case of a witness with its arrays; `UsageError` for one of the sizes of production that is not there."""
    case = read_case(witness["case"])
    if not is_large(witness["law"]):
        return Sample(mechanism, case, witness["dtype"])
    found = large_again(mechanism, case, subject.claims, witness["dtype"])
    if found is None:
        raise UsageError(f"{mechanism.name} has no case {case.scenario!r} any more")
    return found


def _counted(witness: dict[str, Any]) -> str:
    count = len(witness["before"])
    return f"the {count} cases that were tried before it" if count > 1 else "the case that was tried before it"


def _after(bench: Bench, witness: dict[str, Any], sample: Sample) -> tuple[Failure | None, str, str]:
    """The failure after what was tried before it, in that order; the verdict, and what is said of it.

    Last of that is the case on which it was found, before it was made small; it may fail there already.
    """
    earlier = [Sample(bench.mechanism, read_case(case), bench.dtype) for case in witness["before"]]
    return _run_again(bench, (*earlier, sample), witness["law"])


def subject_of(
    witness: dict[str, Any],
    known: Library,
    operator: str,
    framework: str | None,
    seconds: float,
    *,
    fresh: bool = False,
) -> Subject:
    supervised = supervisor(seconds, witness["device"]) if available() else None
    if fresh and supervised is not None:
        supervised.close()
    named = witness["target"]
    more: dict[str, Any] = {key: witness.get(key, "") for key in ("layout", "like")}
    more |= {"supervisor": supervised, "known": known}
    found: list[Subject] = []
    if source := known[known.operator_of(witness["mechanism"])].gradient_of:
        with suppress(UsageError, TargetError):  # as of a function that states gradients itself
            whole = resolve(named, operator=source, framework=framework, **more)
            found += [one for s in whole if (one := differentiated(s, witness["device"], known)[0]) is not None]
    found = found or resolve(named, operator=operator, framework=framework, **more)
    own = [s for s in found if s.name == witness["subject"] and s.operator == known.operator_of(witness["mechanism"])]
    if not own:
        raise UsageError(f"{witness['target']} has no subject {witness['subject']!r} any more")
    return own[0]


def _earlier(bench: Bench, witness: dict[str, Any]) -> tuple[Case, ...]:
    """The calls that a retraced failure needs; none where no new process can be had to make them in."""
    cases = tuple(read_case(case) for case in witness["before"])
    return cases if prepared(bench, ()) else ()


def again(bench: Bench, sample: Sample, name: str, earlier: Sequence[Case] = ()) -> tuple[Failure | None, str, str]:
    """The failure, if it is found again; the verdict, and what is said of it.

    With `earlier` cases, it is sought after their calls in a new process.
    """
    if isinstance(sample, LargeSample):
        request = Request(bench.subject, bench.mechanism, bench.dtype, PROFILES["serving"], bench.device)
        cell = served_again(request, bench, name, sample)
        return cell.failure if cell.bad else None, cell.verdict, cell.says
    law = law_of(bench.mechanism, name)
    if law is None:
        return _run_again(bench, (sample,), name)
    grades = looser(bench.dtype, bench.subject.claims.grade(bench.dtype))
    if earlier:
        prepared(bench, earlier)
    outcome = judged(Trial(bench, sample), law, grades)
    if outcome.kind is Kind.REFUTED and not earlier:
        outcome = judged(Trial(bench, sample), law, grades[:1])
    if not outcome.bad:
        return None, outcome.kind, ""
    return Failure(name, outcome, sample, sample), "error" if outcome.kind is Kind.FAULTED else "fail", outcome.says


def _run_again(bench: Bench, samples: Sequence[Sample], name: str) -> tuple[Failure | None, str, str]:
    """A run of some cases alone, with all calls that laws and contracts make of them."""
    request = Request(bench.subject, bench.mechanism, bench.dtype, PROFILES["quick"], bench.device, only=samples)
    if name.startswith("convention."):  # what word is followed is found without any law
        request = replace(request, laws=frozenset({name}))
    cell = next(c for c in run(request).cells if c.law == name)
    return cell.failure if cell.bad else None, cell.verdict, cell.says
