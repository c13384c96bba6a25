"""Which laws a subject breaks on which cases: what is left to compare where outputs are random."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from .candidates import Candidate
from .cases import Sample
from .cells import Failure
from .errors import SpecError
from .judge import Kind, judged
from .mechanism import Law
from .plans import PROFILES, plan
from .stand_ins import DefinitionSubject
from .trial import Bench, Trial

LARGE = 5_000
"""Entries beyond which a case is too large to be tried with every candidate."""
CASES = 7
"""Cases on which every law is tried."""


class Signature:
    """Which laws a subject breaks, and which it keeps, case by case."""

    def __init__(self, bench: Bench, failure: Failure, seed: int) -> None:
        self.bench = bench
        self.grade = bench.subject.claims.grade(bench.dtype)
        drawn = plan(bench.mechanism, bench.subject.claims, PROFILES["quick"], seed, bench.dtype).scenarios
        small = sorted((s for s in drawn if s.entries <= LARGE), key=lambda sample: sample.entries)
        samples = list(dict.fromkeys((failure.found, *small)))[:CASES]
        laws = sorted(bench.mechanism.laws.values(), key=lambda law: law.name != failure.law)
        questions = [(law, sample) for law in laws for sample in samples]
        found = [(question, self.verdict(bench, *question)) for question in questions]
        self.broken = [question for question, broken in found if broken]
        self.kept = [question for question, broken in found if broken is False]

    def verdict(self, bench: Bench, law: Law, sample: Sample) -> bool | None:
        """Whether a law is broken on a case; None where it does not say."""
        try:
            outcome = judged(Trial(bench, sample), law, [self.grade])
        except SpecError:
            return None
        return outcome.bad if outcome.bad or outcome.kind is Kind.HELD else None

    def same(self, candidate: Candidate) -> bool:
        """Whether a candidate breaks the same laws on the same cases."""
        m, words = self.bench.mechanism, {**self.bench.words, **candidate.words}
        one = DefinitionSubject(m, candidate.name, candidate.changes, conventions=words)
        bench = replace(self.bench, subject=one, faults=Counter())
        return all(self.verdict(bench, *question) for question in self.broken) and not any(
            self.verdict(bench, *question) for question in self.kept
        )
