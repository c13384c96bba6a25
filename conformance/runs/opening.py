"""Opening a stored case: its mechanism, subject and arrays, and its law evaluated again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..cases.large import LargeSample, large_again
from ..cases.profiles import PROFILES
from ..cases.samples import Case, Sample
from ..cases.workloads import WORKED, worked
from ..data.texts import safe
from ..diagnosis.history import prepared
from ..diagnosis.stored import find, library_of, mechanism_of, read_case
from ..errors import TargetError, UsageError
from ..execution import addresses
from ..execution.addresses import EXEC, words_of
from ..execution.interpreters import parted
from ..execution.supervisor import SECONDS, available, supervisor
from ..judging.bench import Bench
from ..judging.cells import BACKWARD, Failure, Request, has_name, is_large, law_of
from ..judging.engine import run
from ..judging.first_call import differentiated
from ..judging.judge import Kind, judged
from ..judging.serving import served_again
from ..judging.trial import Trial
from ..mechanisms.library import Library
from ..mechanisms.loader import NONE, Specs, mechanism_named
from ..mechanisms.mechanism import Mechanism
from ..numerics.grades import looser
from ..subjects.subject import AdapterSubject, Subject
from ..subjects.targets import files_of, resolve

Say = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Kept:
    """Which case is meant, and how what it names is run."""

    name: str
    """Its key, or the path of its file."""
    folder: Path
    operator: str | None = None
    framework: str | None = None
    note: Say = lambda text: None
    """Is told which file the case has run, before it is."""
    trusted: bool = True
    """Whether that file may lie outside the present folder."""
    seconds: float = SECONDS
    """How long a call may take."""
    specs: Specs = NONE


class Opened:
    """A kept case with all that it names; what is there no more is a `UsageError`."""

    def __init__(self, kept: Kept, check: Callable[[dict[str, Any]], None] = lambda witness: None) -> None:
        """`check` may refuse the case before anything that it names is run."""
        self.kept = kept
        self.witness = find(kept.name, kept.folder, kept.specs)
        check(self.witness)
        self.known = library_of(self.witness, kept.specs)
        self.mechanism: Mechanism = mechanism_named(self.witness["mechanism"], self.known)
        self.law: str = self.witness["law"]
        if not has_name(self.mechanism, self.law):
            raise UsageError(f"{self.mechanism.name} no longer has the law {self.law!r}")
        _admit(kept, self.witness["target"])
        self.bench = self.benched()

    @property
    def subject(self) -> Subject:
        return self.bench.subject

    @property
    def earlier(self) -> tuple[Case, ...]:
        """What was tried before the case."""
        return tuple(read_case(case) for case in self.witness["before"])

    def sample(self) -> Sample:
        """The case with its arrays."""
        return sample_of(self.witness, self.mechanism, self.subject)

    def benched(self, *, fresh: bool = False) -> Bench:
        """The subject on its device; with `fresh`, in a new process."""
        subject = _subject_of(self.witness, self.known, self.kept, fresh=fresh)
        return Bench(subject, self.mechanism, self.witness["dtype"], self.witness["device"], self.witness["words"])


def _admit(kept: Kept, target: str) -> None:
    """Say which file and interpreter a case names before they are run; a `UsageError` if nobody has vouched for one."""
    python = parted(target)[1]
    programs = {path: path.resolve() for path in files_of(target)}
    if target.startswith(EXEC) and not Path(command := words_of(addresses.parted(target)[0])[0]).is_file():
        programs[Path(command)] = Path(shutil.which(command) or f"/{command}")  # wherever the system finds it
    if python:  # in an environment this is a link to what lies elsewhere
        programs[Path(python)] = Path(python).parent.resolve() / Path(python).name
    for path, whole in programs.items():
        shown = safe(str(path))
        if not kept.trusted and not whole.is_relative_to(Path.cwd().resolve()):
            raise UsageError(
                f"the case {safe(kept.name)} names {shown}, a program outside the current folder; --trust runs it"
            )
        kept.note(f"runs {shown}, which the case names")


def _subject_of(witness: dict[str, Any], known: Library, kept: Kept, *, fresh: bool) -> Subject:
    supervised = supervisor(kept.seconds, witness["device"]) if available() else None
    if fresh and supervised is not None:
        supervised.close()
    named, framework = witness["target"], kept.framework
    operator = known.operator_of(witness["mechanism"])
    more: dict[str, Any] = {key: witness.get(key, "") for key in ("layout", "like")}
    more |= {"supervisor": supervised, "known": known}
    found: list[Subject] = []
    if source := known[operator].gradient_of:
        with suppress(UsageError, TargetError):  # as of a function that states gradients itself
            whole = _as_read(resolve(named, operator=source, framework=framework, **more), witness)
            found += [one for s in whole if (one := differentiated(s, witness["device"], known)[0]) is not None]
    named_so = kept.operator or operator
    found = found or _as_read(resolve(named, operator=named_so, framework=framework, **more), witness)
    own = [s for s in found if s.name == witness["subject"] and s.operator == operator]
    if not own:
        raise UsageError(f"{witness['target']} no longer has the subject {witness['subject']!r}")
    return own[0]


def _as_read(found: list[Subject], witness: Mapping[str, Any]) -> list[Subject]:
    """Subjects, called and read as first calls showed it when the case was kept."""
    for one in found:
        if isinstance(one, AdapterSubject):
            one.least, one.copies = tuple(witness.get("least", ())), bool(witness.get("copies"))
            if tables := witness.get("in_dtype"):
                one.pass_in_dtype(tables)
    return found


def sample_of(witness: dict[str, Any], mechanism: Mechanism, subject: Subject) -> Sample:
    """The case of a witness with its arrays; `UsageError` for one of the sizes of production that is not there."""
    case = read_case(witness["case"])
    if not is_large(witness["law"]):
        return Sample(mechanism_of(witness["case"], mechanism, witness["law"]), case, witness["dtype"])
    if case.label.startswith(WORKED):
        return worked(mechanism, case, subject.claims, witness["dtype"])
    found = large_again(mechanism, case, subject.claims, witness["dtype"])
    if found is None:
        raise UsageError(f"{mechanism.name} no longer has the case {case.scenario!r}")
    return found


def again(
    bench: Bench, sample: Sample, name: str, earlier: Sequence[Case] = (), stress: int = 0
) -> tuple[Failure | None, str, str]:
    """The failure, if it is found again; the verdict, and what is said of it.

    With `earlier` cases, it is sought after their calls in a new process; a large case that was made so often beside
    other threads is made so again.
    """
    if isinstance(sample, LargeSample):
        own = (bench.subject, bench.mechanism, bench.dtype, PROFILES["serving"], bench.device)
        request = Request(*own, stress=stress)
        cell = served_again(request, bench, name, sample)
        return cell.failure if cell.bad else None, cell.verdict, cell.says
    law = law_of(bench.mechanism, name)
    if law is None:
        return run_again(bench, (sample,), name)
    grades = looser(bench.dtype, bench.subject.claims.grade(bench.dtype))
    if earlier:
        prepared(bench, earlier)
    outcome = judged(Trial(bench, sample), law, grades)
    if outcome.kind is Kind.REFUTED and not earlier:
        outcome = judged(Trial(bench, sample), law, grades[:1])
    if not outcome.bad:
        return None, outcome.kind, ""
    return Failure(name, outcome, sample, sample), "error" if outcome.kind is Kind.FAULTED else "fail", outcome.says


def run_again(bench: Bench, samples: Sequence[Sample], name: str) -> tuple[Failure | None, str, str]:
    """A run of some cases alone, with all calls that laws and contracts make of them."""
    request = Request(bench.subject, bench.mechanism, bench.dtype, PROFILES["quick"], bench.device, only=samples)
    if name.startswith("convention.") or name == BACKWARD:  # which are found without any law
        request = replace(request, laws=frozenset({name}))
    cell = next(c for c in run(request).cells if c.law == name)
    return cell.failure if cell.bad else None, cell.verdict, cell.says
