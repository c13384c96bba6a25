"""How well a failure is named: every known mistake as a subject, pairs of them, and each as if it were not known.

    python benchmarks/diagnosis.py [MECHANISM ...] [--pairs N]
    python benchmarks/diagnosis.py --blind [FAULT or OPERATOR ...] [--results FILE]
    python benchmarks/diagnosis.py --edits N [MECHANISM ...] [--seed N] [--results FILE]

A line for each mechanism: of its mistakes, how many are named, alone or as one of several that are alike on all cases;
of random pairs, how many are named as pairs, or by what has the same effect; of mistakes that are taken for unknown,
how many have no name, how many the name of something with the same effect, and how many a changed line that has it; and
what a diagnosis costs in CPU time.
Two things have the same effect if no case of a large fresh set tells them apart.
A wrong name is worse than none.
Edits that leave open what their subjects return are counted apart, as unsettled, if they have no name.
With `--blind`, the same of each of the reported faults; with `--edits`, of N edits of each definition that are drawn at
random, made everywhere, and of N that are made under a condition, the mechanisms in an order that is drawn as well;
with `--seed`, of others.
With `--results`, each result is appended to a file as it comes, and what the file has is not measured again.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

from attnspec.cases.plans import plan, scenarios_of
from attnspec.cases.profiles import PROFILES, Profile
from attnspec.diagnosis.answered import observed
from attnspec.diagnosis.candidates import Candidate
from attnspec.diagnosis.likeness import Likeness, Nearest
from attnspec.diagnosis.naming import diagnose
from attnspec.diagnosis.observations import Observation, Stance
from attnspec.diagnosis.phrases import where
from attnspec.diagnosis.steering import EXPLAINED_ENTRIES
from attnspec.judging.bench import Bench
from attnspec.judging.cells import Failure, Request, Result
from attnspec.judging.engine import run
from attnspec.judging.judge import Kind
from attnspec.judging.shrinking import made_small
from attnspec.judging.trial import Trial
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.mechanism import Mechanism
from attnspec.runs.explaining import headline
from attnspec.subjects.stand_ins import DefinitionSubject

if TYPE_CHECKING:
    from blind.earned import Earned

SCENARIOS = Profile("scenarios", covering=8, draws=0, admitted=1)
FRESH_SEED = 77
KINDS = ("everywhere", "conditional")


def failure_of(
    mechanism: Mechanism, candidate: Candidate, subject: DefinitionSubject | None = None
) -> tuple[Result, Failure] | None:
    """How a mistake fails as a subject, made small as in a report, or None where nothing refutes it."""
    subject = subject or DefinitionSubject(mechanism, candidate.name, candidate.changes)
    laws = None if mechanism.undetermined else frozenset({"definition"})
    result = run(Request(subject, mechanism, "float32", SCENARIOS, laws=laws))
    failed = [cell for cell in result.cells if cell.bad and cell.failure is not None]
    if not failed or result.bench is None:
        return None
    failure = headline(failed, mechanism).failure
    return None if failure is None else (result, made_small(failure, result))


def same_effect(bench: Bench, one: Candidate, other: Candidate) -> bool:
    """Whether no case of a large set, none of which the diagnosis has seen, tells two things apart."""
    m, claims = bench.mechanism, bench.subject.claims
    drawn = plan(m, claims, PROFILES["ci"], FRESH_SEED, bench.dtype)
    known = scenarios_of(m, claims, seed=FRESH_SEED, dtype=bench.dtype)
    for sample in itertools.chain(known, drawn.pairs, drawn.further(120)):
        if sample.entries <= EXPLAINED_ENTRIES and sample.mechanism is m:
            trial = Trial(bench, sample)
            observation = Observation(trial, trial.base, bench.subject.claims.grade(bench.dtype))
            if any(c.within is not None and not c.within.holds(observation.facts) for c in (one, other)):
                continue
            observation.names = list(m.outputs)  # of random ones, too: all draw the same numbers here
            if observation.apart(one, other) and not _returned(observation, other):
                return False
    return True


def _returned(observation: Observation, candidate: Candidate) -> bool:
    """Whether the subject returns what a candidate gives all the same, as where it stores fractions in integers."""
    return observation.answered() and observation.stance(candidate) is not Stance.DIFFERS


class Tally:
    """The counts of one mechanism."""

    def __init__(self) -> None:
        self.known: Counter[str] = Counter()
        self.paired: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.seconds: list[float] = []
        self.wrong: list[str] = []

    def diagnosed(
        self,
        result: Result,
        failure: Failure,
        without: tuple[str, ...] = (),
        observations: list[Observation] | None = None,
    ) -> Likeness | None:
        assert result.bench is not None
        start = time.process_time()
        likeness = diagnose(result.bench, failure, 0, without=without, observations=observations)
        self.seconds.append(time.process_time() - start)
        return None if isinstance(likeness, Nearest) else likeness

    def judge(self, result: Result, truth: Candidate, likeness: Likeness | None, counts: Counter[str]) -> None:
        assert result.bench is not None
        if likeness is None:
            counts["silent"] += 1
        elif _parts(truth.told().name) in map(_parts, (likeness.name, *likeness.others)):
            counts["named"] += 1
        elif likeness.candidate is not None and same_effect(result.bench, truth, likeness.candidate):
            counts["changed line" if likeness.changed else "same effect"] += 1
        else:
            counts["wrong"] += 1
            self.wrong.append(f"{truth.name} is called {likeness.name} ({likeness.agreed} cases)")

    def line(self, name: str) -> str:
        spent = sorted(self.seconds) or [0.0]
        return (
            f"{name:18} named {_counts(self.known)} | pairs {_counts(self.paired)} | unknown {_counts(self.unknown)}"
            f" | CPU {spent[len(spent) // 2]:.2f} s, p95 {spent[int(0.95 * len(spent))]:.2f}, most {spent[-1]:.2f}"
        )


def _parts(name: str) -> set[str]:
    return set(name.split(" and "))


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {key}" for key, count in sorted(counts.items())) or "none"


def measured(mechanism: Mechanism, pairs: int) -> Tally:
    tally = Tally()
    mistakes = [Candidate(mechanism.address(x.name), x.says, x.change) for x in mechanism.mistakes.values()]
    for mistake in mistakes:
        failed = failure_of(mechanism, mistake)
        if failed is None:
            tally.known["unrefuted"] += 1
            continue
        tally.judge(failed[0], mistake, tally.diagnosed(*failed), tally.known)
        tally.judge(failed[0], mistake, tally.diagnosed(*failed, (mistake.name,)), tally.unknown)
    for pair in chosen(mechanism, mistakes, pairs):
        failed = failure_of(mechanism, pair)
        if failed is not None:
            tally.judge(failed[0], pair, tally.diagnosed(*failed), tally.paired)
    return tally


def chosen(mechanism: Mechanism, mistakes: list[Candidate], count: int) -> Iterator[Candidate]:
    """Random pairs of mistakes that can be made at once."""
    possible = [a.joined(b) for a, b in itertools.combinations(mistakes, 2) if a.joins(b)]
    return iter(random.Random(mechanism.name).sample(possible, min(count, len(possible))))


def blind(names: list[str], earned: Earned) -> None:
    """Say of each of the reported faults what the diagnosis says."""
    from blind import faults
    from blind.measured import summary, told

    for name, fault in faults().items():
        if name not in earned and (not names or name in names or fault.adapter.operator in names):
            one = told(fault)
            print(one.line(), flush=True)
            earned.add(name, **one.plain())
    print(summary([one for one in earned if one["what"] in faults()]))


def random_edits(mechanisms: list[Mechanism], count: int, seed: int, earned: Earned) -> None:
    """Say of random edits of definitions, made everywhere and under a condition, how many are recovered."""
    from blind.altered import altered

    for mechanism in random.Random(seed).sample(mechanisms, len(mechanisms)):
        names = (name for name in earned.names() if name.startswith(f"{mechanism.name} "))
        if mechanism.by_reference or Counter(name.split()[1] for name in names) == dict.fromkeys(KINDS, count):
            continue
        first = run(Request(DefinitionSubject(mechanism, "definition"), mechanism, "float32", SCENARIOS))
        for kind in KINDS if first.bench is not None else ():
            for key, truth in altered(first.bench, count, seed, conditional=kind == KINDS[1]):
                name = f"{mechanism.name} {kind} {key}"
                if name not in earned:
                    found = earned.add(name, **recovered(mechanism, truth))
                    print(f"{name:46} {found['as']:12} {found['seconds']:5.1f} s  {found['truth']}", flush=True)
                    if found["as"] == "wrong":
                        print(f"{'':67} {found['called']}", flush=True)
    for kind in KINDS:
        print(recovery(kind, [one for one in earned if one["what"].split()[1] == kind]))


def recovered(mechanism: Mechanism, truth: Candidate) -> dict[str, Any]:
    """What the diagnosis says of an edit."""
    from blind.altered import Altered

    failed = failure_of(mechanism, truth, Altered(mechanism, truth))
    told = {"truth": truth.told().name, "where": where(truth.where) if truth.where is not None else ""}
    if failed is None:
        return {**told, "as": "unrefuted", "called": "", "seconds": 0.0}
    if failed[1].outcome.kind is Kind.FAULTED:  # what it raises says more than any name
        return {**told, "as": "raises", "called": "", "seconds": 0.0}
    tally, counts, calls = Tally(), Counter[str](), its_own(*failed)
    open_ = unsettled(calls, truth)
    likeness = tally.diagnosed(*failed, observations=calls)
    tally.judge(failed[0], truth, likeness, counts)
    called = "" if likeness is None else likeness.name
    found = "unsettled" if likeness is None and open_ else next(iter(counts))
    return {**told, "as": found, "called": called, "seconds": tally.seconds[0]}


def its_own(result: Result, failure: Failure) -> list[Observation]:
    """What is observed of an edit, apart from mechanisms of its kin whose calls its definition answers otherwise."""
    bench = result.bench
    assert bench is not None
    calls, strange = observed(bench, failure, 0), set[str]()
    plain = DefinitionSubject(bench.mechanism, "definition")
    for call in calls:
        if call.mechanism is not bench.mechanism and not call.right and call.mechanism.name not in strange:
            trial = Trial(replace(call.trial.bench, subject=plain), call.trial.sample)
            by_definition = Observation(trial, trial.base, call.grade)
            if by_definition.answered() and not by_definition.right:
                strange.add(call.mechanism.name)
    return [call for call in calls if call.mechanism.name not in strange]


def unsettled(calls: list[Observation], truth: Candidate) -> bool:
    """Whether an edit leaves open what its subject returns, so that nothing could tell that it is this one.

    On some call it has no value, or another one, as where equals are ordered otherwise; or on most of the wrong calls
    it allows what is right as well.
    """
    stances = [(call.right, call.stance(truth)) for call in calls]
    wrong = [stance for right, stance in stances if not right]
    return any(stance is Stance.DIFFERS for _, stance in stances) or 2 * wrong.count(Stance.AGREES) < len(wrong)


def recovery(kind: str, found: list[dict[str, Any]]) -> str:
    """A line about all edits of a kind."""
    counts, refuted = (
        Counter(one["as"] for one in found),
        [one for one in found if one["as"] not in ("unrefuted", "raises", "unsettled")],
    )
    spent = sorted(one["seconds"] for one in refuted) or [0.0]
    right = sum(one["as"] not in ("silent", "wrong") for one in refuted)
    median, late = spent[len(spent) // 2], spent[int(0.9 * len(spent))]
    return (
        f"{kind}: {right} of {len(refuted)} recovered ({_counts(counts)})"
        f" | CPU {median:.2f} s at the median, {late:.2f} at p90, {spent[-1]:.2f} at most"
    )


def main() -> None:
    warnings.simplefilter("ignore", RuntimeWarning)  # of kernels that divide zero by zero
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mechanism", nargs="*")
    parser.add_argument("--pairs", type=int, default=10, help="random pairs of each mechanism")
    parser.add_argument("--blind", action="store_true", help="reported faults, written anew; names choose some of them")
    parser.add_argument("--edits", type=int, default=0, help="random edits of each definition, instead of mistakes")
    parser.add_argument("--seed", type=int, default=0, help="which random edits are drawn")
    parser.add_argument(
        "--results", type=Path, help="a file that has, and is given, what is measured of faults and edits"
    )
    options = parser.parse_args()
    mechanisms = [m for m in library().values() if not options.mechanism or m.name in options.mechanism]
    if options.blind or options.edits:
        from blind.earned import Earned

        earned = Earned(options.results)
        blind(options.mechanism, earned) if options.blind else random_edits(
            mechanisms, options.edits, options.seed, earned
        )
        return
    total = Tally()
    for mechanism in mechanisms:
        tally = measured(mechanism, options.pairs)
        print(tally.line(mechanism.name), *tally.wrong, sep="\n    ", flush=True)
        for name in ("known", "paired", "unknown"):
            getattr(total, name).update(getattr(tally, name))
        total.seconds += tally.seconds
    print(total.line("all"))


if __name__ == "__main__":
    main()
