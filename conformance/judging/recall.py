"""What laws gave on a case before: where a subject returns the same results, they give the same again.

A law asks a subject for one call after the other, and each follows from the case and from the results before it.
So its calls are made again one by one, as long as each gives the same to the bit, or is refused in the same words; if
all are, nothing is evaluated.
A law that is refuted is not recalled: it is looked at each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import SpecError
from ..execution.calling import Reply
from ..mechanisms.mechanism import Law
from ..numerics import budget
from ..numerics.grades import Grade
from .judge import Kind, Outcome, judged
from .margins import Margin
from .settling import Declined, Settled
from .trial import Faulted, Slow, Trial

OUTCOME = "outcome"
"""Under which outcomes are kept with a sample."""
CALL = "call of a law"
"""Under which the calls of recalled laws are, for the next time."""
RECALLED = (Kind.HELD, Kind.VACUOUS, Kind.IDLE, Kind.DECLINED, Kind.FAULTED)
Recorded = tuple[Any, ...]
Given = bytes | tuple[str, ...]
"""What tells what a call gave from all else: results as their digest, and an error in its words."""


class UnreliableError(Exception):
    """What a call gave now says nothing of what it will give."""


def recalled(trial: Trial, law: Law, grades: Sequence[Grade], *, kind_alone: bool = False) -> Outcome:
    """As `judged`, which is asked where calls give anything else than what is known; comparisons are not kept."""
    key = (OUTCOME, law.name, trial.bench.words_key, tuple(grade.name for grade in grades))
    cache = trial.sample.cache
    if key in cache and (known := _again(trial, cache[key], grades)) is not None:
        return known
    trial.noted = asked = {}
    try:
        found = judged(trial, law, grades, kind_alone=kind_alone)
    finally:
        trial.noted = None
    if found.kind in RECALLED and not (found.kind is Kind.IDLE and found.says):  # which limits may have made too large
        found = replace(found, comparisons=(), kept=found.margin)
        with suppress(UnreliableError):
            recorded = _recorded(trial, asked, found)
            if key in cache:
                cache.renewed = True
            cache[key] = recorded
    return found


def _recorded(trial: Trial, asked: Mapping[Any, Settled], found: Outcome) -> Recorded:
    """An outcome in plain data, with the calls that it follows from and what each gave."""
    calls, last = [], None
    for key, settled in asked.items():
        replaced = {name: settled.values[name] for name, *_ in key}
        given, last = _given(trial, settled)
        calls.append((replaced, dict(settled.errors), key, given))
    if found.kind is Kind.FAULTED and (last is None or last.fault is not found.fault):
        raise UnreliableError  # it was answered, with what is no result
    m, grade = found.kept, found.grade and found.grade.name
    margin = None if m is None else (m.counts, m.worst, m.row, m.rows)
    return tuple(calls), found.kind.value, found.excess, grade, found.says, found.claimed, margin


def _again(trial: Trial, known: Recorded, grades: Sequence[Grade]) -> Outcome | None:
    """A known outcome, if the calls that it follows from give what they gave; None where one does not."""
    calls, kind, excess, grade, says, claimed, margin = known
    failed = None
    try:
        with np.errstate(all="ignore"), budget.metered():
            for replaced, errors, key, before in calls:
                given, failed = _given(trial, _settled(trial, replaced, errors, key))
                if given != before:
                    return None
    except (UnreliableError, SpecError):  # which is told when the law is judged
        return None
    failed = failed if kind == Kind.FAULTED else None
    return Outcome(
        Kind(kind),
        excess,
        next((one for one in grades if one.name == grade), None),
        says,
        fault=failed and failed.fault,
        settled=failed and failed.settled,
        claimed=claimed,
        kept=None if margin is None else Margin(*margin),
    )


def _given(trial: Trial, settled: Settled) -> tuple[Given, Faulted | None]:
    """What a call gives, and the error that it ends with."""
    try:
        return _digest(trial.reply(settled)), None
    except Slow:
        raise UnreliableError from None
    except Faulted as answer:
        return (answer.fault.kind, answer.fault.says), answer
    except Declined as answer:
        return (str(answer),), None


def _settled(trial: Trial, replaced: Mapping[str, Any], errors: Mapping[str, Any], key: tuple[Any, ...]) -> Settled:
    """A call of a law, one object for all laws that make it."""
    if not key:
        return trial.base
    cache = trial.sample.cache
    if (CALL, key) not in cache:
        cache[CALL, key] = Settled({**trial.sample.values, **replaced}, errors, key)
    return cache[CALL, key]


def _digest(reply: Reply) -> bytes:
    """What tells the results of a call from all others."""
    found = hashlib.blake2b(digest_size=16)
    for name, x in sorted(reply.outputs.items()):
        found.update(repr((name, x.dtype.str, x.shape, x.strides)).encode())
        found.update(np.ascontiguousarray(x).data)
    return found.digest()
