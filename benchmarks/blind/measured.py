"""What the diagnosis says of each of the reported faults, and whether that is so on cases that it has not seen."""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from attnspec.cases.plans import plan, scenarios_of
from attnspec.cases.profiles import PROFILES
from attnspec.diagnosis.answered import observed
from attnspec.diagnosis.clock import now
from attnspec.diagnosis.facts import Facts, facts_of
from attnspec.diagnosis.fitting import SECONDS
from attnspec.diagnosis.likeness import Likeness
from attnspec.diagnosis.maps import mapped
from attnspec.diagnosis.naming import diagnose
from attnspec.diagnosis.observations import Observation, Stance
from attnspec.diagnosis.phrases import where
from attnspec.diagnosis.separation import When, separated
from attnspec.diagnosis.steering import EXPLAINED_ENTRIES
from attnspec.judging.bench import Bench
from attnspec.judging.cells import Request, law_of
from attnspec.judging.engine import run
from attnspec.judging.shrinking import made_small
from attnspec.judging.trial import Trial
from attnspec.mechanisms.loader import library
from attnspec.runs.explaining import headline
from attnspec.subjects.targets import subject

from . import Fault

FRESH_SEED = 77
NEARLY = 0.97
"""The share of fresh cases on which a condition has to be the expected one."""
EXCEPTIONS = 0.25
"""The share of right cases among those on which a condition holds."""

SEEN = 3
"""Wrong fresh cases from which on a condition within which entries tell is compared with them."""


@dataclass(slots=True)
class Told:
    """What was said of a fault."""

    fault: Fault
    mechanism: str = ""
    law: str = ""
    name: str = ""
    named: str = ""
    """`name`, `line` or `pair` where that is right, `wrong` where it is not; nothing where none was given."""
    when: str = ""
    placed: str = ""
    """`right`, `wrong`, `none`, or `-` where none is expected and none was told."""
    seconds: float = 0.0
    check: float = 0.0
    notes: list[str] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """It as plain data."""
        whole = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "fault"}
        return {**whole, "expected": self.fault.when}

    def line(self) -> str:
        refuted = f"{self.mechanism}.{self.law}" if self.law else "NOT REFUTED"
        return (
            f"{self.fault.name:36} {refuted:36} {self.named or 'silent':6} {self.name or '-'}\n"
            f"{'':36} when {self.placed}: {self.when or '-'}   [{self.fault.when}]   {self.seconds:.1f} s"
            f" of {self.check:.1f} s {' '.join(self.notes)}"
        )


def told(fault: Fault) -> Told:
    """The first failure of a fault, as a report explains it."""
    one, found = subject(fault.adapter), Told(fault)
    refusals = Told(fault)
    start = time.process_time()
    for mechanism in library().values():
        if mechanism.operator != one.operator:
            continue
        result = run(Request(one, mechanism, "float32", PROFILES["quick"]))
        failed = [cell for cell in result.cells if cell.bad and cell.failure is not None]
        if not failed or result.bench is None:
            continue
        head = headline(failed, mechanism)
        if law_of(mechanism, head.law) is None:  # no more than that it answers what it should refuse
            refusals.mechanism, refusals.law = mechanism.name, head.law
            continue
        found.mechanism, found.check = mechanism.name, time.process_time() - start
        found.law = head.law
        begin = time.process_time()
        bench, failure = result.bench, made_small(head.failure, result)
        searched = now()
        calls = observed(bench, failure, 0)
        likeness = diagnose(bench, failure, 0, observations=calls)
        mapped(bench, failure, 0)
        left = SECONDS - (now() - searched)
        when = separated(bench, failure, result, 0, observations=calls, left=left, likeness=likeness)
        found.seconds = time.process_time() - begin
        judged(found, bench, likeness if isinstance(likeness, Likeness) else None, when)
        return found
    return refusals


def judged(found: Told, bench: Bench, likeness: Likeness | None, when: When | None) -> None:
    """Compare what was said with what is expected, and with what the fault does on fresh cases."""
    fresh = [] if bench.mechanism.undetermined else list(observations(bench))
    if likeness is not None:
        found.name = likeness.name
        names = (likeness.name, *(part.name for part in likeness.causes), *likeness.others)
        expected = any(re.split(" where | in ", name)[0] in found.fault.names for name in names)
        if expected and (bench.mechanism.undetermined or likeness.name.startswith(("fault:", "rounding."))):
            found.named = "name"  # of tiles and the like, with numbers of their own
        else:
            same = not bench.mechanism.undetermined and agreeing(likeness, fresh)
            found.named = "wrong" if not same else "line" if likeness.changed else "name"
            found.notes += ["unexpected"] if same and not expected and not likeness.changed else []
    found.when = where(when.condition) or "every case" if when is not None else ""
    found.placed = placed(found.fault.when, bench, when, fresh)


def observations(bench: Bench) -> Iterator[Observation]:
    """Calls of fresh cases, none of which the diagnosis has seen, that are answered."""
    m, claims = bench.mechanism, bench.subject.claims
    drawn = plan(m, claims, PROFILES["ci"], FRESH_SEED, bench.dtype)
    known = scenarios_of(m, claims, seed=FRESH_SEED, dtype=bench.dtype)
    for sample in itertools.chain(known, drawn.pairs, drawn.further(100)):
        if sample.entries <= EXPLAINED_ENTRIES and sample.mechanism is m:
            trial = Trial(bench, sample)
            observation = Observation(trial, trial.base, bench.subject.claims.grade(bench.dtype))
            if observation.answered():
                yield observation


def agreeing(likeness: Likeness, fresh: list[Observation]) -> bool:
    """Whether what is named gives what the subject gives on all fresh cases."""
    candidate = likeness.candidate
    if candidate is None:
        return False
    if candidate.within is not None:
        fresh = [
            one for one in fresh if candidate.within.holds(one.facts)
        ]  # it says that the others are another matter
    return all(observation.stance(candidate) is not Stance.DIFFERS for observation in fresh)


def placed(expected: str, bench: Bench, when: When | None, fresh: list[Observation]) -> str:
    """Whether a condition is the expected one, or parts the right fresh cases from the wrong ones as well."""
    if when is None:
        return "none" if expected else "-"
    claims = bench.subject.claims
    facts = [facts_of(o.trial.sample) for o in fresh] or [
        facts_of(s) for s in scenarios_of(bench.mechanism, claims, seed=FRESH_SEED, dtype=bench.dtype)
    ]
    held = [when.condition.holds(one) for one in facts]
    wrong = [not o.right for o in fresh]
    if fresh:
        missed = sum(bad and not inside for bad, inside in zip(wrong, held, strict=True))
        extra = sum(inside and not bad for bad, inside in zip(wrong, held, strict=True))
        told = when.partly and sum(wrong) >= SEEN  # that it is right on some such cases, by their entries, was told
        if not missed and (told or extra <= EXCEPTIONS * max(sum(held), 1)):
            return "right"
    if expected:
        meant = [bool(eval(expected, {}, namespace(one))) for one in facts]
        if sum(a is b for a, b in zip(meant, held, strict=True)) >= NEARLY * len(facts):
            return "right"
    return "wrong"


def namespace(facts: Facts) -> dict[str, Any]:
    """The names of an expected condition."""
    scattered = {f"{name}_scattered": memory != "contiguous" for name, memory in facts.memory.items()}
    return {**facts.options, **facts.given, **scattered, **facts.sizes}


def summary(results: list[dict[str, Any]]) -> str:
    """What was said of all faults, each as plain data."""
    refuted = [one for one in results if one["law"]]
    expected = [one for one in refuted if one["placed"] != "-"]

    def count(value: str) -> int:
        return sum(one["named"] == value for one in refuted)

    seconds = sorted(one["seconds"] for one in refuted) or [0.0]
    placed = Counter(one["placed"] for one in expected)
    median, late = seconds[len(seconds) // 2], seconds[int(0.9 * len(seconds))]
    return (
        f"{len(results)} faults, {len(refuted)} refuted: {count('name')} right name, {count('line')} right line,"
        f" {count('wrong')} wrong, {count('')} silent; When right {placed['right']} of {len(expected)},"
        f" {placed['wrong']} wrong, {placed['none']} missing;"
        f" explanation {median:.2f} s of CPU at the median, {late:.2f} at p90, {seconds[-1]:.2f} at most"
    )
