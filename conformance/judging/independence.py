"""Whether a subject gives the same results without attnspec in its process, and in another order of calls.

A sample of the calls that it gets right is made again there, and each right after itself in another dtype: what is kept
by shape alone, such as a compiled kernel, is then that of the other one.

Other bits alone prove nothing: memory that is aligned in another way has a kernel add up in another order. So an answer
counts only if it is beyond every bound of the precision that the answers here have, twice, while the worker still gives
a right one to the very same call.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..cases.samples import Sample
from ..execution.apart import ApartError
from ..execution.calling import Call, Reply
from ..execution.supervised import SupervisedCaller
from ..numerics.grades import Grade
from ..subjects.claims import Claims
from ..subjects.subject import AdapterSubject, Subject
from .bench import Bench
from .judge import Outcome, definition_law, judged
from .trial import Trial

KEPT = 48
"""Cases of a run from which some are chosen."""
CHOSEN = 6
"""Cases that are made again, where it takes no longer than `SECONDS`."""
SMALL = 20_000
"""Entries of a case beyond which it is not made again."""
SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Known:
    """A case that the subject gets right, and what it gives."""

    sample: Sample
    call: Call
    reply: Reply


def known_of(trial: Trial) -> Known | None:
    """A trial that was judged right as a known case, if it is one to be made again."""
    reply = trial.replies.get(trial.base.key)
    if reply is None or reply.fault is not None or not reply.outputs or trial.sample.entries > SMALL:
        return None
    return Known(trial.sample, trial.call(trial.base), reply)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """On how many cases it was tried; why on none, or what was found on which."""

    cases: int = 0
    says: str = ""
    broken_on: Sample | None = None


@dataclass(frozen=True, slots=True)
class _Given:
    """A subject that gives what was given."""

    subject: Subject
    reply: Reply

    @property
    def name(self) -> str:
        return self.subject.name

    @property
    def operator(self) -> str:
        return self.subject.operator

    @property
    def claims(self) -> Claims:
        return self.subject.claims

    def call(self, call: Call) -> Reply:
        return self.reply


def examined(bench: Bench, grades: Sequence[Grade], known: Sequence[Known], dtypes: Sequence[str] = ()) -> Elsewhere:
    """Whether answers to some of the known cases are the same elsewhere.

    What declares no dtypes is called between them in another one of those that are asked for, which are `dtypes`.
    """
    subject, mechanism = bench.subject, bench.mechanism
    reason = _reason(bench)
    if reason or not isinstance(subject, AdapterSubject) or not isinstance(subject.caller, SupervisedCaller):
        return Elsewhere(says=reason)
    if not known:
        return Elsewhere(says="no case was answered correctly")
    chosen = [*known[:: max(1, len(known) // CHOSEN)]][:CHOSEN]
    order = random.Random(mechanism.digest)
    turns = [order.sample(chosen, len(chosen)) for _ in range(2)]
    taken = subject.claims.dtypes if subject.claims.declared else (*subject.claims.dtypes, *dtypes)
    other = next((dtype for dtype in reversed(taken) if dtype != bench.dtype), "")
    try:
        found = _made(subject, turns, other)
        both = [one for one in chosen if len(found.get(id(one), ())) == len(turns)]
        others = [one for one in both if not any(_same(reply, one.reply) for reply in found[id(one)])]
        grades = _needed(bench, grades, known) if others else grades
        for one in others:
            if all(is_bad(bench, grades, one.sample, reply) for reply in found[id(one)]):
                again = subject.call(replace(one.call, layout="contiguous"))
                if not is_bad(bench, grades, one.sample, again):
                    place = _place(bench, grades, one, other)
                    return Elsewhere(len(both), _told(place, found[id(one)][0], one.reply), one.sample)
    except ApartError as error:
        return Elsewhere(says=str(error))
    return Elsewhere(len(both), "" if both else f"the calls took longer than {SECONDS:g} s")


def _made(
    subject: AdapterSubject, turns: Sequence[Sequence[Known]], other: str, *, anew: bool = False
) -> dict[int, list[Reply]]:
    """The answers to known cases in another process, by case; in the first turn after the same call in another dtype.

    `ApartError` where there is no such process.
    """
    calls = list[tuple[Known | None, Call]]()
    for number, turn in enumerate(turns):
        for one in turn:
            call = replace(one.call, layout="contiguous")
            if other and not number:
                calls.append((None, replace(call, dtype=other)))
            calls.append((one, call))
    replies = subject.apart([call for _, call in calls], SECONDS, anew=anew)
    found: dict[int, list[Reply]] = {}
    for (one, _), reply in zip(calls, replies, strict=False):
        if one is not None:
            found.setdefault(id(one), []).append(reply)
    return found


def _place(bench: Bench, grades: Sequence[Grade], one: Known, other: str) -> str:
    """Where the answer to a known case is wrong: in another process anyhow, or there after a call in another dtype."""
    assert isinstance(bench.subject, AdapterSubject)
    plain = _made(bench.subject, [[one]], "", anew=True).get(id(one), []) if other else []
    if plain and not is_bad(bench, grades, one.sample, plain[0]):
        return f"right after itself in {other}, the same call"
    return "in a process without attnspec, the same call"


def _reason(bench: Bench) -> str:
    """Why it is not asked of a subject here, if it is not."""
    subject, mechanism, claims = bench.subject, bench.mechanism, bench.subject.claims
    if not isinstance(subject, AdapterSubject):
        return "it is part of attnspec"
    if not isinstance(subject.caller, SupervisedCaller):
        return "calls are made in this process"
    if bench.device != "cpu":
        return "it is tested only on the CPU"
    if mechanism.random:
        return "its outputs are random"
    home = mechanism.name == mechanism.operator and bench.dtype == claims.dtypes[0]
    if (claims.compiled or subject.adapter.slow) and not home:
        return f"it is asked with {mechanism.operator} in {claims.dtypes[0]} alone of what takes long"
    return ""


def _needed(bench: Bench, grades: Sequence[Grade], known: Sequence[Known]) -> Sequence[Grade]:
    """The grades up to the loosest that the answers here need: elsewhere, none that is looser explains an answer."""
    needed = 0
    for one in known:
        found = _judged(bench, grades[needed:], one.sample, one.reply).grade
        needed = grades.index(found) if found in grades else needed
    return grades[: needed + 1]


def _same(x: Reply, y: Reply) -> bool:
    """Whether two replies are bit for bit the same."""
    return x.outputs.keys() == y.outputs.keys() and all(
        np.array_equal(a, y.outputs[name], equal_nan=a.dtype.kind == "f") for name, a in x.outputs.items()
    )


def is_bad(bench: Bench, grades: Sequence[Grade], sample: Sample, reply: Reply) -> bool:
    """Whether a reply to the call of a sample is not what the definition says."""
    return _judged(bench, grades, sample, reply).bad


def _judged(bench: Bench, grades: Sequence[Grade], sample: Sample, reply: Reply) -> Outcome:
    given = replace(bench, subject=_Given(bench.subject, reply), faults=Counter())
    return judged(Trial(given, sample), definition_law(bench.mechanism), grades)


def _told(place: str, reply: Reply, known: Reply) -> str:
    if reply.fault is not None:
        return f"{place} raised {reply.fault.says}"
    given = reply.outputs
    other = next(
        (n for n, x in known.outputs.items() if n not in given or not _same(Reply({n: x}), Reply({n: given[n]}))), ""
    )
    return f"{place} gave a different {other!r}, which is not what the definition says"
