"""Naming what is wrong: the known mistake that a subject behaves like, if there is one.

Every mistake is run as a reference on the cases of the mechanism and its kin.
A name is given only to a mistake that agrees with the subject on every case that tells it from the definition;
otherwise nothing is said, for a wrong name is worse than none.
The other words of conventions come first: what they explain may well be intended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .cases import Sample
from .definition import Frame
from .errors import SpecError
from .grades import LADDER
from .language import Expression
from .loader import library
from .mechanism import Mechanism
from .plans import scenarios_of
from .trial import Bench, Declined, Faulted, Trial

AGREEMENT = {"float64": 1e-6, "float32": 1e-4, "bfloat16": 2.0**-5, "float16": 2.0**-8}
"""Outputs agree when they differ by no more than this share of the largest entry."""
WITNESSES = 3
"""Cases that are to speak for a name where the subject is wrong in other ways, too."""
LARGE = 20_000
"""Entries beyond which a case is too large to be run for every mistake."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """What a subject behaves like: a mistake or another word of a convention, and on how many cases."""

    name: str
    says: str
    agreed: int
    """Cases that tell it from the definition, on all of which it agrees with the subject."""
    beyond: bool = False
    """Whether the subject is wrong on other cases, too."""
    convention: str = ""
    word: str = ""


@dataclass(frozen=True, slots=True)
class _Candidate:
    name: str
    says: str
    changes: Mapping[str, Expression]
    words: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Evidence:
    agreed: int
    against: int
    beyond: int
    """Cases that do not tell the candidate from the definition, and on which the subject is wrong."""

    @property
    def enough(self) -> bool:
        return not self.against and self.agreed >= (WITNESSES if self.beyond else 1)


def diagnose(bench: Bench, failing: Sample, seed: int) -> Likeness | None:
    """What the subject behaves like on the failing sample and on the scenarios of all its operator, or None."""
    first = _answers(bench, [failing])
    if not first:
        return None
    candidates = [c for c in _candidates(bench) if _evidence(bench, c, first).agreed == 1]
    if not candidates:
        return None
    scenarios = scenarios_of(bench.mechanism.operator, bench.subject.claims, seed=seed, dtype=bench.dtype)
    others = [*first, *_answers(bench, [s for s in scenarios if s is not failing and s.entries <= LARGE])]
    found = [(_evidence(bench, candidate, others), candidate) for candidate in candidates]
    found = [(evidence, candidate) for evidence, candidate in found if evidence.enough]
    if not found:
        return None
    evidence, best = max(found, key=lambda item: item[0].agreed)
    convention = next((c for c, word in best.words.items() if word != bench.words[c]), "")
    word = best.words[convention] if convention else ""
    return Likeness(best.name, best.says, evidence.agreed, evidence.beyond > 0, convention, word)


def _candidates(bench: Bench) -> Iterator[_Candidate]:
    """Other words of conventions, then the mistakes of the mechanism, of its operator, and of its kin."""
    m = bench.mechanism
    for convention, words in m.conventions.items():
        for word, says in words.items():
            if word != bench.words[convention]:
                yield _Candidate(f"{convention} = {word}", says, {}, {**bench.words, convention: word})
    kin = [m, *(k for k in library().values() if k.operator == m.operator and k is not m)]
    for mechanism in kin:
        for mistake in mechanism.mistakes.values():
            yield _Candidate(mechanism.address(mistake.name), mistake.says, mistake.change, bench.words)


_Answer = tuple[Sample, dict[str, Any], dict[str, Any]]


def _answers(bench: Bench, samples: Sequence[Sample]) -> list[_Answer]:
    """The samples with what the subject returned, and what the definition gives."""
    found = []
    for sample in samples:
        trial = Trial(replace(bench, mechanism=sample.mechanism), sample)
        try:
            reply = trial.reply(trial.base)
        except (Declined, Faulted):
            continue
        exact = {name: trial.exact(name, trial.base) for name in reply.outputs if name not in sample.mechanism.random}
        if all(np.shape(reply.outputs[name]) == np.shape(exact[name]) for name in exact):
            found.append((sample, dict(reply.outputs), exact))
    return found


def _evidence(bench: Bench, candidate: _Candidate, answers: Sequence[_Answer]) -> _Evidence:
    """How a candidate fares on the cases that tell it from the definition, and on what others the subject is wrong."""
    agreed = against = beyond = 0
    for sample, outputs, exact in answers:
        version = _outputs(sample.mechanism, candidate, sample)
        if version is None:  # a line that it changes is not a line of that mechanism
            against += sample.mechanism is bench.mechanism
            continue
        right = all(_agree(exact[name], outputs[name], exact[name], bench.dtype) for name in exact)
        if all(_agree(version[name], exact[name], exact[name], bench.dtype) for name in exact):
            beyond += not right
        elif all(_agree(version[name], outputs[name], exact[name], bench.dtype) for name in exact):
            agreed += 1
        else:
            against += 1
    return _Evidence(agreed, against, beyond)


def _outputs(mechanism: Mechanism, candidate: _Candidate, sample: Sample) -> dict[str, Any] | None:
    key = ("candidate", mechanism.name, candidate.name, tuple(candidate.words.values()))
    if key not in sample.cache:
        try:
            overflow = LADDER[sample.dtype][0].arithmetic
            values = {**sample.values, **candidate.words}
            frame = Frame(mechanism, values, changes=candidate.changes, overflow=overflow)
            sample.cache[key] = frame.outputs()
        except (SpecError, ValueError):
            sample.cache[key] = None
    return sample.cache[key]


def _agree(x: Any, y: Any, exact: Any, dtype: str) -> bool:
    """Whether two outputs are alike, where the definition says anything."""
    if np.shape(x) != np.shape(y):
        return False
    with np.errstate(all="ignore"):
        scale = np.max(np.abs(np.where(np.isfinite(x), x, 0.0)), initial=0.0)
        same = (x == y) | (np.isnan(x) & (np.isnan(y) | np.isnan(exact))) | (np.abs(x - y) <= AGREEMENT[dtype] * scale)
    return bool(np.all(same))
