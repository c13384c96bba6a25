"""How the answers of a subject to the first cases of an operator fit its definition, before anything is judged."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ..cases.applicability import plain_options, undeclared
from ..cases.plans import plan
from ..cases.profiles import PROFILES
from ..cases.samples import Sample, Unfit
from ..errors import SpecError
from ..execution.calling import Reply
from ..mechanisms.mechanism import Mechanism
from ..numerics.grades import looser
from ..subjects.subject import AdapterSubject
from .bench import Bench
from .judge import Kind, definition_law, is_right, judged
from .settling import Declined
from .trial import Faulted, Trial

CASES = 4
"""Cases that are looked at, where the first does not decide."""
FEW = 2
"""Answers that may be right by chance."""
GIVING = 40
"""Cases of an operator on which what they give is seen."""
SMALL = 20_000
"""Entries beyond which a case is not looked at."""
Fit = Literal["right", "shaped", "refused", "stuck"]


def fit_of(
    subject: AdapterSubject,
    operator: Mechanism,
    sample: Sample,
    dtype: str,
    device: str,
    words: Mapping[str, str] | None = None,
    replies: dict[tuple[Any, ...], Reply] | None = None,
    claimed: bool = False,
) -> Fit:
    """What a subject's answer to a case is, by the precision that is `claimed` or by any looser one.

    One among `replies` is not asked for again.
    """
    said = {**operator.words, **operator.declared(subject.claims.conventions), **(words or {})}
    bench = Bench(subject, operator, dtype, device, said)
    trial = Trial(bench, sample)
    trial.replies = trial.replies if replies is None else replies
    own = subject.claims.grade(dtype)
    grades = (own,) if claimed else looser(dtype, own)
    outcome = judged(trial, definition_law(operator), grades, weighed=False, kind_alone=True)
    if outcome.fault is not None and outcome.fault.kind in ("hung", "slow"):
        return "stuck"
    if outcome.kind in (Kind.HELD, Kind.VACUOUS):
        return "right"
    first = operator.outputs[0]
    try:
        trial.observed(first, trial.base)
        return "right" if is_right(trial, first, grades[-1]) else "shaped"  # whatever else is wrong
    except (Faulted, Declined, SpecError):
        return "refused"


def fits_of(
    subject: AdapterSubject, operator: Mechanism, cases: Iterable[Sample], dtype: str, device: str
) -> list[Fit]:
    """What a subject's answers to some cases are."""
    with subject.session():
        return [fit_of(subject, operator, sample, dtype, device) for sample in cases]


def right_and_nearly(
    subject: AdapterSubject, operator: Mechanism, cases: Iterable[Sample], dtype: str, device: str
) -> tuple[int, int]:
    """How many answers are right by the precision that is claimed, and by any looser one, too; each is asked once."""
    right = nearly = 0
    with subject.session():
        for sample in cases:
            replies = dict[tuple[Any, ...], Reply]()
            if fit_of(subject, operator, sample, dtype, device, replies=replies, claimed=True) == "right":
                right += 1
            elif fit_of(subject, operator, sample, dtype, device, replies=replies) == "right":
                nearly += 1
    return right, right + nearly


def share_of_right(
    subject: AdapterSubject, operator: Mechanism, dtype: str, device: str, shown: Collection[str]
) -> float:
    """The share of those cases that a subject answers rightly, in the layout in which it is called; of few, none."""
    with subject.session():
        cases = [*giving(subject, operator, dtype, shown)]
        right = sum(fit_of(subject, sample.mechanism, sample, dtype, device) == "right" for sample in cases)
    return right / len(cases) if right > FEW else 0.0


def giving(subject: AdapterSubject, operator: Mechanism, dtype: str, shown: Collection[str]) -> Iterator[Sample]:
    """The first cases of an operator, or of all its mechanisms those that give one of some inputs and options.

    Each is drawn when it is asked for.
    """
    if not shown:
        yield from itertools.islice(plan(operator, subject.claims, PROFILES["quick"], 0, dtype).one_by_one(), CASES)
        return
    plain, found = plain_options(operator, subject.claims), list[Sample]()
    slow = subject.claims.compiled or subject.claims.interpreted
    most, others = (3 * CASES, 1) if slow else (GIVING, CASES)
    for m in (each for each in operator.kin if undeclared(each, subject.claims) is None):
        planned = plan(m, subject.claims, PROFILES["quick"], 0, dtype)
        samples = planned.one_by_one(pairs=m is operator)
        given = (x for x in samples if any(not same(x.values.get(name), plain.get(name)) for name in shown))
        small = (x for x in given if x.entries <= SMALL and x.layout == "contiguous" and _finite(x))
        for sample in itertools.islice(small, most if m is operator else others):
            found += [sample][: others - len(found)]
            yield sample
    for sample in found:
        yield from _flagged(sample, operator, subject)


def _flagged(sample: Sample, operator: Mechanism, subject: AdapterSubject) -> Iterator[Sample]:
    """A case with each flag that it does not give, as far as it is taken with the rest."""
    for name in sorted(subject.claims.names & {*operator.options}):
        if sample.values.get(name) is False:
            case = replace(sample.case, label="flagged", fixed={**sample.case.fixed, name: True})
            try:
                yield sample.another(case, subject.claims)
            except (Unfit, SpecError):
                continue


def _finite(sample: Sample) -> bool:
    """Whether no array has an entry that is NaN or infinite, of which conventions say what becomes."""
    arrays = (x for x in sample.values.values() if isinstance(x, np.ndarray) and x.dtype.kind == "f")
    return all(np.isfinite(x).all() for x in arrays)


def same(x: object, y: object) -> bool:
    return type(x) is type(y) and x == y
