"""Shrinking a counterexample: the simplest case, near the one that failed, on which a law still fails.

A case is reduced by its structure: memory layout, regime and scenario first, then options to their defaults and sizes
downwards, and at last the entries of its arrays to zeros and round numbers.
Every step keeps what fails; the same failure always gives the same witness.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..cases.applicability import plain_options
from ..cases.drawing import drawn
from ..cases.samples import Case, Sample, Unfit
from ..errors import SpecError
from ..execution.faults import ABRUPT
from ..mechanisms.inspection import NO_DEFAULT
from ..mechanisms.mechanism import Law, Mechanism
from ..numerics.grades import Grade
from ..subjects.subject import renewed
from .bench import Bench
from .cells import Failure, Result, law_of
from .judge import Kind, Outcome, judged
from .recognition import recognized
from .trial import Trial

LITERAL = 64
"""Entries up to which an array is written out, and simplified entry by entry."""

TRIED = 400
"""Cases that are kept at a time."""

Fails = Callable[[Case], Sample | None]
"""The sample of a case if the law fails on it, else None."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest case found, and how many were tried."""

    sample: Sample
    tried: int


def shrink(mechanism: Mechanism, sample: Sample, fails: Fails, *, tries: int = 200, seconds: float = 2.0) -> Shrunk:
    """Reduce a failing sample until no single step keeps the failure, or the allowance is spent."""
    deadline, tried = time.monotonic() + seconds, 0
    best = sample
    progress = True
    while progress:
        progress = False
        for candidate in simpler(mechanism, best):
            if tried >= tries or time.monotonic() > deadline:
                return Shrunk(best, tried)
            tried += 1
            failing = fails(candidate)
            if failing is not None:
                best, progress = failing, True
                break
    return Shrunk(best, tried)


def simpler(mechanism: Mechanism, sample: Sample) -> Iterator[Case]:
    """Cases one step simpler, the boldest steps first."""
    case = sample.case
    if case.layout != "contiguous":
        yield replace(case, layout="contiguous")
    if case.regime:
        yield replace(case, regime="")
    if case.scenario:
        yield replace(case, scenario="")
    yield from _simpler_options(mechanism, case)
    yield from _smaller_sizes(mechanism, case)
    for key, index in case.picks.items():
        if index:
            yield replace(case, picks={**case.picks, key: 0})
    yield from _simpler_arrays(mechanism, sample)


def _simpler_options(mechanism: Mechanism, case: Case) -> Iterator[Case]:
    for name, default in plain_options(mechanism).items():
        present = case.fixed.get(name, NO_DEFAULT)
        absent_array = name in mechanism.inputs and present is NO_DEFAULT
        if absent_array or (present is not NO_DEFAULT and present != default):
            literals = {n: x for n, x in case.literals.items() if n != name}
            yield replace(case, fixed={**case.fixed, name: default}, literals=literals)
    for name in mechanism.options:
        value = case.fixed.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and name not in plain_options(mechanism):
            for smaller in _smaller(value, 0):
                yield replace(case, fixed={**case.fixed, name: smaller})


def _smaller_sizes(mechanism: Mechanism, case: Case) -> Iterator[Case]:
    """Sizes downwards, the largest first; arrays that were written out no longer fit, and are drawn again."""
    sizes = sorted((n for n in mechanism.sizes if n in case.fixed), key=lambda n: -int(case.fixed[n]))
    for name in sizes:
        for smaller in _smaller(int(case.fixed[name]), 1):
            yield replace(case, fixed={**case.fixed, name: smaller}, literals={})


def _smaller(n: int, least: int) -> Iterator[int]:
    candidates = sorted({least, least + 1, n // 2, n - n // 4, n - 1})
    return (m for m in candidates if least <= m < n)


def _simpler_arrays(mechanism: Mechanism, sample: Sample) -> Iterator[Case]:
    case = sample.case
    arrays = {n: sample.values[n] for n in mechanism.inputs if isinstance(sample.values[n], np.ndarray)}
    if sum(x.size for x in arrays.values()) > 4 * LITERAL:
        return
    for name, x in arrays.items():
        if x.size > LITERAL or x.dtype.kind == "i":
            continue
        for plain in _plainer(x):
            yield replace(case, literals={**_written(case.literals), name: plain.tolist()})


def _plainer(x: Any) -> Iterator[Any]:
    """The same array with plainer entries: all zero or true, integers, one entry at a time."""
    if x.dtype == bool:
        if not x.all():
            yield np.ones_like(x)
        return
    if np.any(x):
        yield np.zeros_like(x)
    finite = np.where(np.isfinite(x), x, 0.0)
    for step in (1.0, 0.5, 0.25):
        if np.any(finite % step):
            yield np.where(np.isfinite(x), np.round(finite / step) * step, x)
            break
    if x.size <= 16 and not np.any(finite % 0.25):
        for index in (i for i in np.ndindex(x.shape) if x[i]):
            plain = x.copy()
            plain[index] = 0.0
            yield plain


def _written(literals: Mapping[str, Any]) -> dict[str, Any]:
    return dict(literals)


def made_small(failure: Failure, result: Result, reduced: Reduced | None = None) -> Failure:
    """A failure on the smallest case near it on which it persists; contracts and rejects are left as they are.

    One that is new stays new, and one that belongs to a known finding stays with it.
    What the same case was `reduced` to in another dtype is taken where the law fails on that in the same way.
    """
    bench = result.bench
    law = None if bench is None else law_of(bench.mechanism, failure.law)
    if bench is None or law is None:
        return failure
    fault, last = _symptom(failure.outcome), [failure.outcome]

    def fails(case: Case) -> Sample | None:
        try:
            sample = _drawn(bench, case)
            outcome = judged(Trial(bench, sample), law, result.grades, kind_alone=True)
        except (Unfit, SpecError):
            return None
        if _symptom(outcome) != fault:
            return None
        if recognized(result.marks, bench, failure.law, outcome, sample, law, result.grades) != failure.finding:
            return None
        last[0] = outcome
        return sample

    with bench.subject.session():
        known = None if reduced is None else reduced.case(bench, failure)
        again = None if known is None else fails(known)
        smallest = shrink(bench.mechanism, failure.sample, fails) if again is None else Shrunk(again, 1)
        if reduced is not None:
            reduced.keep(bench, failure, smallest.sample.case)
        outcome = last[0]
        if outcome.kind is Kind.REFUTED:  # people read the error in units of the bound that is claimed
            claimed = judged(Trial(bench, smallest.sample), law, result.grades[:1])
            outcome = replace(claimed, certain=outcome.certain)
        dependent = bool(failure.before) and _held_anew(bench, smallest.sample, law, result.grades, outcome)
    return replace(failure, sample=smallest.sample, outcome=outcome, tried=smallest.tried, dependent=dependent)


@dataclass(frozen=True, slots=True)
class Reduced:
    """What failing cases of one subject were reduced to, for the other dtypes in which the same cases fail."""

    cases: dict[tuple[str, ...], Case] = field(default_factory=dict)

    def case(self, bench: Bench, failure: Failure) -> Case | None:
        """What the case of a failure of the same law was reduced to, if it was."""
        return self.cases.get(self._key(bench, failure))

    def keep(self, bench: Bench, failure: Failure, case: Case) -> None:
        """Have a failing case be reduced to this one in the dtypes that follow."""
        self.cases[self._key(bench, failure)] = case

    def _key(self, bench: Bench, failure: Failure) -> tuple[str, ...]:
        return bench.mechanism.name, *bench.words_key, failure.law, failure.sample.case.key


class Tried(OrderedDict[int, Sample]):
    """The cases that failures of a library were last reduced to: who edits a subject meets the same ones again."""


def _drawn(bench: Bench, case: Case) -> Sample:
    """The sample of a case, with all that was computed from it when it was tried before; `Unfit` as of a new one."""
    sample = drawn(bench.mechanism, case, bench.subject.claims, bench.dtype)
    if sample is None:
        raise Unfit
    known = bench.mechanism.kept(Tried)
    known[id(sample)] = sample
    known.move_to_end(id(sample))
    if len(known) > TRIED:
        known.popitem(last=False)
    return sample


def _held_anew(bench: Bench, sample: Sample, law: Law, grades: Sequence[Grade], outcome: Outcome) -> bool:
    """Whether a law that failed holds in a new process; what died or hung has had one."""
    if outcome.fault is not None and outcome.fault.kind in ABRUPT:
        return False
    return renewed(bench.subject) and judged(Trial(bench, sample), law, grades).kind is Kind.HELD


def _symptom(outcome: Outcome) -> tuple[Any, ...]:
    """How a failure shows, without its numbers: what shows in another way may be another fault."""
    if outcome.fault is None:
        return outcome.kind, outcome.says
    return outcome.fault.kind, outcome.fault.kind in ("raised", "died") and outcome.says.partition(":")[0]
