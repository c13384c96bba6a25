"""How well a failure is named: every known mistake as a subject, pairs of them, and each as if it were not known.

    python benchmarks/diagnosis.py [MECHANISM ...] [--pairs N]
    python benchmarks/diagnosis.py --blind [FAULT or OPERATOR ...]
    python benchmarks/diagnosis.py --edits N [MECHANISM ...]

A line for each mechanism: of its mistakes, how many are named, alone or as one of several that are alike on all cases;
of random pairs, how many are named as pairs, or by what has the same effect; of mistakes that are taken for unknown,
how many have no name, how many the name of something with the same effect, and how many a changed line that has it; and
what a diagnosis costs in CPU time.
Two things have the same effect if no case of a large fresh set tells them apart.
A wrong name is worse than none.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import time
from collections import Counter
from collections.abc import Iterator

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

from attnspec.cases.plans import plan, scenarios_of
from attnspec.cases.profiles import PROFILES, Profile
from attnspec.diagnosis.candidates import Candidate
from attnspec.diagnosis.likeness import Likeness, Nearest
from attnspec.diagnosis.naming import diagnose
from attnspec.diagnosis.observations import Observation
from attnspec.diagnosis.steering import EXPLAINED_ENTRIES
from attnspec.judging.bench import Bench
from attnspec.judging.cells import Failure, Request, Result
from attnspec.judging.engine import run
from attnspec.judging.shrinking import made_small
from attnspec.judging.trial import Trial
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.mechanism import Mechanism
from attnspec.runs.runner import headline
from attnspec.subjects.stand_ins import DefinitionSubject

SCENARIOS = Profile("scenarios", covering=8, draws=0, admitted=1)
FRESH_SEED = 77


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
            if observation.apart(one, other):
                return False
    return True


class Tally:
    """The counts of one mechanism."""

    def __init__(self) -> None:
        self.known: Counter[str] = Counter()
        self.paired: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.seconds: list[float] = []
        self.wrong: list[str] = []

    def diagnosed(self, result: Result, failure: Failure, without: tuple[str, ...] = ()) -> Likeness | None:
        assert result.bench is not None
        start = time.process_time()
        likeness = diagnose(result.bench, failure, 0, without=without)
        self.seconds.append(time.process_time() - start)
        return None if isinstance(likeness, Nearest) else likeness

    def judge(self, result: Result, truth: Candidate, likeness: Likeness | None, counts: Counter[str]) -> None:
        assert result.bench is not None
        if likeness is None:
            counts["silent"] += 1
        elif _parts(truth.name) in map(_parts, (likeness.name, *likeness.others)):
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


def blind(names: list[str]) -> None:
    """Say of each of the reported faults what the diagnosis says."""
    from blind import faults
    from blind.measured import summary, told

    results = []
    for name, fault in faults().items():
        if not names or name in names or fault.adapter.operator in names:
            results.append(told(fault))
            print(results[-1].line(), flush=True)
    print(summary(results))


def altered_ones(mechanism: Mechanism, count: int) -> Iterator[str]:
    """How many random edits of a definition are recovered, made everywhere and under a condition."""
    from blind.altered import Altered, altered

    first = run(Request(DefinitionSubject(mechanism, "definition"), mechanism, "float32", SCENARIOS))
    for conditional in (False, True) if first.bench is not None and not mechanism.by_reference else ():
        tally, counts = Tally(), Counter[str]()
        for truth in altered(first.bench, count, conditional=conditional):
            failed = failure_of(mechanism, truth, Altered(mechanism, truth))
            if failed is None:
                counts["unrefuted"] += 1
                continue
            tally.judge(failed[0], truth, tally.diagnosed(*failed), counts)
        spent = sorted(tally.seconds) or [0.0]
        kind = "under a condition" if conditional else "everywhere"
        yield f"{mechanism.name:18} {kind:17} {_counts(counts)} | CPU {spent[len(spent) // 2]:.2f} s"
        yield from (f"    {one}" for one in tally.wrong)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mechanism", nargs="*")
    parser.add_argument("--pairs", type=int, default=10, help="random pairs of each mechanism")
    parser.add_argument("--blind", action="store_true", help="reported faults, written anew; names choose some of them")
    parser.add_argument("--edits", type=int, default=0, help="random edits of each definition, instead of mistakes")
    options = parser.parse_args()
    if options.blind:
        blind(options.mechanism)
        return
    total = Tally()
    for mechanism in library().values():
        if options.mechanism and mechanism.name not in options.mechanism:
            continue
        if options.edits:
            print(*altered_ones(mechanism, options.edits), sep="\n", flush=True)
            continue
        tally = measured(mechanism, options.pairs)
        print(tally.line(mechanism.name), *tally.wrong, sep="\n    ", flush=True)
        for name in ("known", "paired", "unknown"):
            getattr(total, name).update(getattr(tally, name))
        total.seconds += tally.seconds
    if not options.edits:
        print(total.line("all"))


if __name__ == "__main__":
    main()
