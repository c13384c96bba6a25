"""A failure as plain data: enough to show it, to keep it, and to replay it.

A witness holds the resolved sizes and options and, where they are small, the arrays themselves, so that it outlives a
change of the generator or of the specification's draws.
Under `case` is the one that fails, and under `before` are those that were tried ahead of it, in their order and without
arrays: a subject that keeps something from call to call may fail after these only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ..cases.large import LargeSample
from ..cases.samples import Sample, letters
from ..errors import SpecError
from ..judging.bench import Bench
from ..judging.bounds import Stray
from ..judging.cells import Failure, law_of, sentence_of
from ..judging.environments import LawEnvironment
from ..judging.judge import Kind, WorstEntry
from ..judging.settling import Declined
from ..judging.trial import Faulted, Trial
from ..mechanisms.mechanism import Law, Mechanism
from ..numerics import budget
from ..numerics.drawn import Drawn
from ..numerics.streams import digest
from ..subjects.gradients import GradientSubject
from ..subjects.subject import AdapterSubject, Subject
from . import phrases
from .derivatives import OwnDerivatives
from .entries import worst_entry
from .fields import Field, field_of
from .likeness import Likeness, Nearest
from .maps import Map
from .separation import When
from .stored import case_data, folders_of, plain_value, stored_case

SHOWN = 12
"""Entries up to which an array is shown."""


def describe(
    failure: Failure,
    bench: Bench,
    target: str,
    likeness: Likeness | Nearest | None,
    broken: list[str],
    seen: Map | None = None,
    when: When | None = None,
    after: str = "",
    fixed: tuple[str, Any] | None = None,
    follows: OwnDerivatives | None = None,
) -> dict[str, Any]:
    """A failure as plain data.

    `broken` are the further laws that the subject breaks on the mechanism, `after` says which calls it needs first,
    `fixed` is the option, with its value, that the subject may be meant to have in every call, and what it `follows`
    from are the wrong outputs of a function whose gradients are at stake.
    """
    m, sample, name = bench.mechanism, failure.sample, failure.law
    law, reject = law_of(m, name), m.rejects.get(name)
    stated = law or reject
    grade = None if failure.outcome.grade is None else bench.subject.claims.grade(bench.dtype)
    faulted = failure.outcome.kind is Kind.FAULTED
    worst = None if law is None or faulted else worst_entry(Trial(bench, sample), law, grade)
    worst = failure.large.worst if failure.large is not None else worst
    field = None if law is None or faulted else field_of(Trial(bench, failure.found), law, grade)
    return {
        "key": _key(sample, bench, target, name),
        "target": target,
        "subject": bench.subject.name,
        "mechanism": m.name,
        "law": name,
        "says": sentence_of(m, name),
        "holds": law.holds.text if law and name != "definition" else "",
        "level": law.weight(refused=failure.outcome.refusal) if law else reject.level if reject else "must",
        "place": str(stated.place) if stated and stated.place else m.path,
        "dtype": bench.dtype,
        "device": bench.device,
        "words": dict(bench.words),
        **_called(bench.subject),
        **_read(bench.subject),
        "declared": sorted(m.declared(bench.subject.claims.conventions)),
        "digest": m.digest,
        **folders_of(m),
        "case": stored_case(sample, law, bench.words_key),
        "before": _earlier(failure),
        **({"large": True} if isinstance(sample, LargeSample) else {}),
        **({"stress": failure.large.turns} if failure.large is not None and failure.large.turns else {}),
        "dependent": failure.dependent,
        "retraced": failure.retraced,
        "after": after,
        "sizes": sizes_of_case(sample),
        "arrays": {n: shown(x) for n, x in sample.values.items() if isinstance(x, np.ndarray | Drawn)},
        "givens": _givens(Trial(bench, sample), law),
        "from": {
            "label": failure.found.case.label,
            "regime": failure.found.case.regime,
            "tried": failure.tried,
            "sizes": {n: plain_value(failure.found.values[n]) for n in m.sizes},
        },
        "reason": failure.outcome.says,
        "trace": failure.outcome.fault.trace if failure.outcome.fault else "",
        "certain": failure.outcome.certain,
        "grade": grade.name if grade else "",
        "units": finite_or_none(failure.outcome.excess),
        "outcome": None if worst is None else _entry_data(worst),
        "field": None if field is None else _field_data(field),
        "likeness": _likeness_data(likeness) if isinstance(likeness, Likeness) else None,
        "nearest": asdict(likeness) if isinstance(likeness, Nearest) else None,
        "map": None if seen is None else _map_data(seen),
        "when": None if when is None else _when_data(when),
        **({} if fixed is None else {"fixed": {"option": fixed[0], "value": plain_value(fixed[1])}}),
        **({} if follows is None else {"follows": asdict(follows)}),
        "unusual": _unusual(m, sample, bench.subject.claims.fixed),
        "broken": broken,
    }


def _key(sample: Sample, bench: Bench, target: str, law: str) -> str:
    """A short name for a failure, the same whenever it is found again, and another for every subject, law and dtype."""
    failing = (target, bench.subject.name, law, bench.dtype, bench.device, *_called(bench.subject).values())
    return letters(digest(sample.case.key, *failing, size=5))


def _called(subject: Subject) -> dict[str, str]:
    """How a subject is called, where that is not as its operator has it."""
    if not isinstance(subject, AdapterSubject):
        return {}
    layout, taken = subject.form.layout, subject.form.taken
    own = layout if taken is None else taken.signature.layout_in(subject.mechanism)
    differs = not layout.canonical if taken is None else layout.name != own.name
    found = {"layout": layout.name if differs else "", "like": taken.signature.name if taken else ""}
    return {name: x for name, x in found.items() if x}


def _read(subject: Subject) -> dict[str, Any]:
    """How its arrays are passed and its results are read, where that is not as its interface has them."""
    if not isinstance(subject, AdapterSubject):
        return {}
    forward = subject.forward if isinstance(subject, GradientSubject) else subject
    found = {"least": [*subject.least], "in_dtype": sorted(forward.in_dtype), "copies": forward.copies}
    return {name: x for name, x in found.items() if x}


def _entry_data(worst: WorstEntry) -> dict[str, Any]:
    missed = worst.missed
    return {
        "found": plain_value(worst.found),
        "expected": plain_value(worst.expected),
        "bound": finite_or_none(worst.bound),
        "units": finite_or_none(worst.units),
        "where": list(worst.where),
        "spoiled": worst.spoiled,
        "entries": worst.entries,
        "missed": missed and {"units": finite_or_none(missed.units), "bound": finite_or_none(missed.bound)},
        **({"output": worst.output} if worst.output else {}),
    }


def _field_data(field: Field) -> dict[str, Any]:
    return {
        "case": field.case,
        "plane": list(field.plane),
        "first": list(field.first),
        "found": _rounded(field.found),
        "expected": _rounded(field.expected),
        "units": [[finite_or_none(float(f"{x:.3g}")) for x in row] for row in field.units],
    }


def _likeness_data(likeness: Likeness) -> dict[str, Any]:
    last = likeness.causes[-1]
    return {
        "name": likeness.name,
        "causes": [{"name": cause.name, "says": cause.says} for cause in likeness.causes],
        "agreed": likeness.agreed,
        "others": list(likeness.others),
        "by_laws": likeness.by_laws,
        "runner_up": likeness.runner_up,
        "differs": likeness.differs,
        "changed": [asdict(one) for one in likeness.changed],
        "convention": last.convention,
        "word": last.word,
    }


def _map_data(seen: Map) -> dict[str, Any]:
    return {
        "words": seen.words,
        "case": seen.case,
        "rows": list(seen.rows),
        "first": seen.first,
        "plane": seen.plane,
        "subject": _rounded(seen.subject),
        "definition": _rounded(seen.definition),
    }


def _rounded(rows: Sequence[Sequence[float]], digits: int = 5) -> list[list[Any]]:
    """Numbers in as many digits as are shown."""
    return [[plain_value(float(f"{x:.{digits}g}")) for x in row] for row in rows]


def _when_data(when: When) -> dict[str, Any]:
    return {
        "says": phrases.counted(when),
        "where": phrases.where(when.condition),
        "wrong": when.wrong,
        "inside": when.inside,
        "outside": when.outside,
        "tested": when.tested,
        "right_in": list(when.right_in),
        "at": when.at,
    }


def _usual(m: Mechanism, name: str, x: Any) -> bool:
    """Whether an option, or an input that may be left out, is at its default."""
    return name in m.defaults and name not in m.own and type(x) is type(m.defaults[name]) and _same(x, m.defaults[name])


def _same(x: Any, other: Any) -> bool:
    """Whether two values of an option are the same; one may be an array, and the other None."""
    if isinstance(x, np.ndarray) or isinstance(other, np.ndarray):
        return type(x) is type(other) and np.array_equal(x, other)
    return bool(x == other)


def _unusual(m: Mechanism, sample: Sample, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a case neither at their default nor fixed: what a subject may not have meant to claim."""
    return {
        name: shown(x) if isinstance(x := sample.values[name], np.ndarray) else plain_value(x)
        for name in m.options
        if name in m.defaults and name not in (*m.own, *fixed) and not _same(sample.values[name], m.defaults[name])
    }


def _givens(trial: Trial, law: Law | None) -> dict[str, str]:
    """What a law drew for itself, as far as it can be shown."""
    if law is None:
        return {}
    environment, found = LawEnvironment(trial, law, None), {}
    for name in law.given:
        try:
            with np.errstate(all="ignore"), budget.metered():
                x = environment[name]
        except (Stray, Declined, Faulted, SpecError):
            continue
        if isinstance(x, np.ndarray | int | float | str | bool):
            found[name] = shown(x) if isinstance(x, np.ndarray) else str(plain_value(x))
    return found


def shown(x: Any) -> str:
    """An array for people: its entries if they are few, else its shape and range."""
    if isinstance(x, Drawn):
        return f"{list(x.shape)}, nearly normal numbers"
    if x.size <= SHOWN:
        return str(np.array2string(x, separator=", ", precision=5, threshold=SHOWN + 1)).replace("\n", "")
    if x.dtype == bool:
        return f"{list(x.shape)}, {int(x.sum())} of {x.size} true"
    return f"{list(x.shape)}, from {np.nanmin(x):.4g} to {np.nanmax(x):.4g}"


def sizes_of_case(sample: Sample) -> dict[str, Any]:
    """The sizes of a case, and its options that are not at their default."""
    m, values = sample.mechanism, sample.values
    return {n: plain_value(x) for n, x in values.items() if not (isinstance(x, np.ndarray | Drawn) or _usual(m, n, x))}


def finite_or_none(x: float) -> float | None:
    """`x` for JSON, which has no infinities."""
    return float(x) if math.isfinite(x) else None


# Storing and replaying


def _earlier(failure: Failure) -> list[dict[str, Any]]:
    """What was tried before a failure, in its order, and last the case on which it was found.

    Of one that was retraced, the calls that it needs.
    """
    if failure.retraced:
        return [case_data(case) for case in failure.before]
    return [case_data(case) for case in (*failure.before, failure.found.case)] if failure.before else []
