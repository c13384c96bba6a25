"""The layout that a function reads, detected before anything is judged if it is not declared.

The definition decides, on cases whose sizes tell the axes apart. Only where the operator's own layout is wrong on a
case is any other tried. Where none is right, it is the layout in which most answers have the right shape, if there is
one and these are more than in the operator's own.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..cases.applicability import plain_options, undeclared
from ..cases.drawing import seed_of
from ..cases.plans import plan
from ..cases.profiles import PROFILES
from ..cases.samples import Sample, fitting
from ..execution.calling import Reply
from ..mechanisms.mechanism import Mechanism
from ..subjects.subject import AdapterSubject, Subject
from .fits import CASES, SMALL, Fit, fit_of, fits_of, giving, same
from .possible_layouts import (
    candidates,
    differing_later,
    narrow,
    needed_ties,
    of_other_places,
    of_same_inputs,
    one_length,
    tells_apart,
)

GROUPED = (("heads", "kv_heads"), ("heads", "key_heads"), ("heads", "groups"))
"""Sizes that are equal where heads are not grouped."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The layout that a function reads, and on how many cases that was seen; `by_shape` if none was right."""

    layout: str
    cases: int
    by_shape: bool = False
    ties: Mapping[str, str] = field(default_factory=dict)
    """The sizes that equal others, so that a function knows the lengths of axes that are folded."""


def lay_out(subject: Subject, operator: Mechanism, dtype: str, device: str) -> None:
    """Have a subject called in the layout that it reads, where it does not declare one; found once."""
    if not isinstance(subject, AdapterSubject) or not subject.undeclared_layout or subject.laid_out:
        return
    subject.laid_out = True
    if undeclared(operator, subject.claims) is not None:
        return
    found = _read(subject, operator, dtype, device) or _of_groups(subject, operator, dtype, device)
    if found is not None and found.layout != subject.form.layout.name:
        if found.ties:
            subject.limit_to({}, found.ties)
        subject.read_as(found.layout, observed=True)


def _read(subject: AdapterSubject, operator: Mechanism, dtype: str, device: str) -> Reading | None:
    """What a subject reads; None where nothing tells that it is not its own layout."""
    own, known = subject.form.layout.name, candidates(operator, subject.form)
    if own not in known:  # in no other layout are the arrays the same
        return None
    others = [name for name in known if name != own]
    fits: dict[str, list[Fit]] = {name: [] for name in (own, *others)}
    try:
        for sample in telling(subject, operator, dtype):
            for name, seen in fits.items():
                subject.read_as(name)
                seen.append(fit_of(subject, operator, sample, dtype, device))
                if name == own and seen[-1] in ("right", "stuck"):
                    return None
            if any(found.count("right") > 1 for found in fits.values()):
                break
    finally:
        subject.read_as(own)
    best = max(others, key=lambda name: (fits[name].count("right"), -others.index(name)), default=own)
    if (count := fits.get(best, []).count("right")) > 0:
        places = of_other_places(operator, best) if count == len(fits[best]) else ()
        wrong = (name for name in places if "shaped" in fits.get(name, ()))
        return Reading(next(wrong, best), count)  # what is wrong along axes that have one entry is seen there
    if not any(found.count("right") for found in fits.values()) and (name := _narrow(subject, operator, dtype, device)):
        return Reading(name, 1, ties=needed_ties(operator, name, subject.form.told))
    turned = [name for name in of_same_inputs(operator, own) if "refused" in fits.get(name, ())]  # by equal sizes alone
    others = [name for name in others if name not in turned]
    most = max((fits[name].count("shaped") for name in others), default=0)
    shaped = [name for name in others if fits[name].count("shaped") == most]
    alike = {*differing_later(operator, shaped[0]), *of_other_places(operator, shaped[0])} if shaped else set[str]()
    shaped = [name for name in shaped if name not in alike]
    if (len(shaped) == 1 or subject.form.layout.stacks) and most > fits[own].count("shaped"):
        return Reading(shaped[0], most, by_shape=True)
    refused = {fit for found in fits.values() for fit in found} == {"refused"}
    if refused and (name := _narrow(subject, operator, dtype, device, "shaped")):
        return Reading(name, 1, by_shape=True, ties=needed_ties(operator, name, subject.form.told))
    return None


def _of_groups(subject: AdapterSubject, operator: Mechanism, dtype: str, device: str) -> Reading | None:
    """The layout in which grouped heads are read right by a function that is told their number, if not in its own.

    Where nothing is grouped, it may take heads for items, or items for heads.
    """
    own, told = subject.form.layout.name, subject.form.told
    pairs = [(whole, part) for whole, part in GROUPED if part in told and {whole, part} <= {*operator.sizes}]
    sample = next(_grouped(subject, operator, dtype, pairs), None)
    if sample is None or fit_of(subject, sample.mechanism, sample, dtype, device) == "right":
        return None
    try:
        with_all_axes = dict.fromkeys(candidates(operator, subject.form), ())
        for name, sizes in {**with_all_axes, **narrow(operator, subject.form)}.items():
            subject.read_as(name)
            made = _with_single(sample.mechanism, sample, sizes, subject) if sizes else sample
            if made is not None and fit_of(subject, sample.mechanism, made, dtype, device) == "right":
                return Reading(name, 1, ties=needed_ties(operator, name, told))
    finally:
        subject.read_as(own)
    return None


def _grouped(
    subject: AdapterSubject, operator: Mechanism, dtype: str, pairs: Collection[tuple[str, str]]
) -> Iterator[Sample]:
    """The first plain cases of an operator in which several groups of several heads share keys."""
    for m in operator.kin if pairs else ():
        if undeclared(m, subject.claims) is None:
            for sample in plan(m, subject.claims, PROFILES["quick"], 0, dtype).one_by_one():
                small = sample.entries <= SMALL and sample.layout == "contiguous"
                if small and all(1 < sample.values[part] < sample.values[whole] for whole, part in pairs):
                    yield sample


def is_read_right(
    subject: AdapterSubject, operator: Mechanism, dtype: str, device: str, shown: Collection[str] = ()
) -> bool:
    """Whether the first cases that a subject answers are right, all of them in one layout and by one convention.

    It answers half of them at least. The cases are those that give what is to be `shown`, if anything is, two or more.
    """
    right, cases = right_answers(subject, operator, dtype, device, shown)
    return enough(right, cases, shown)


def enough(right: int, cases: int, shown: Collection[str]) -> bool:
    """Whether so many right answers say how a subject is read, where it gives no wrong one."""
    return right > 0 and 2 * right >= max(cases, 4 * bool(shown))


def right_answers(
    subject: AdapterSubject, operator: Mechanism, dtype: str, device: str, shown: Collection[str]
) -> tuple[int, int]:
    """How many of those cases are right, and how many there are; none where some answer is wrong in every layout."""
    own, observed, claims = subject.form.layout.name, subject.observed_layout, subject.claims
    cases, most, count = giving(subject, operator, dtype, shown), 0, 0

    def names() -> Iterator[tuple[str, bool]]:
        yield own, False
        if not observed:
            yield from ((name, False) for name in candidates(operator, subject.form) if name != own)
        if not (observed or most) and _is_refused(subject, operator, dtype, device, own):
            yield from ((name, True) for name in narrow(operator, subject.form))

    try:
        for name, single in names():
            subject.read_as(name, observed=observed or single)
            cases, again = itertools.tee(giving(subject, operator, dtype, shown) if single else cases)
            with subject.session():
                right = _right_by_some_words(subject, operator, again, dtype, device)
            if right:
                cases, again = itertools.tee(cases)
                most, count = max(most, right), len([*again])
            if enough(most, count, shown):
                break
            subject.claims = claims
    finally:
        subject.claims = claims
        subject.read_as(own, observed=observed)
    return most, count


def _is_refused(subject: AdapterSubject, operator: Mechanism, dtype: str, device: str, layout: str) -> bool:
    """Whether a subject gives no result for the first cases in a layout, though it ends each of them."""
    subject.read_as(layout)
    return {*fits_of(subject, operator, giving(subject, operator, dtype, ()), dtype, device)} == {"refused"}


def answers(subject: AdapterSubject, operator: Mechanism, dtype: str, device: str) -> bool:
    """Whether a subject gives results of the right shape for the first cases, wrong or not, in some layout."""
    return share_of_answers(subject, operator, dtype, device) == 1


def share_of_answers(subject: AdapterSubject, operator: Mechanism, dtype: str, device: str) -> float:
    """The share of the first cases for which a subject gives such results."""
    fits = fits_of(subject, operator, giving(subject, operator, dtype, ()), dtype, device)
    if {*fits} == {"refused"} and subject.undeclared_layout and not subject.observed_layout:
        return float(_read(subject, operator, dtype, device) is not None)
    return sum(fit not in ("refused", "stuck") for fit in fits) / max(len(fits), 1)


def _right_by_some_words(
    subject: AdapterSubject, operator: Mechanism, cases: Iterator[Sample], dtype: str, device: str
) -> int:
    """How many answers to some cases are right by the first convention by which none is wrong; none if there is none.

    Each case is drawn when none before it was wrong, and called once, for its arrays depend on no convention. One that
    was wrong is looked at first by the next convention.
    """
    known, replies = dict[str, Sample](), defaultdict[str, dict[tuple[Any, ...], Reply]](dict)
    single = [{name: word} for name, words in operator.conventions.items() for word in words]
    for words in [{}, *single]:
        right = 0
        for sample in itertools.chain([*known.values()], cases):
            known[sample.key] = sample
            fit = fit_of(subject, sample.mechanism, sample, dtype, device, words, replies[sample.key])
            if fit == "stuck":
                return 0
            if fit == "shaped":
                known = {sample.key: sample} | known
                break
            right += fit == "right"
        else:
            return right
    return 0


def _narrow(subject: AdapterSubject, operator: Mechanism, dtype: str, device: str, wanted: Fit = "right") -> str:
    """The layout without an axis that is right on a case in which that axis has one entry; nothing if none is.

    It may also be one with folded axes, of a function that is told the length of one of them.
    """
    own = subject.form.layout.name
    try:
        for sample in telling(subject, operator, dtype):
            for name, sizes in narrow(operator, subject.form).items():
                subject.read_as(name)
                made = _with_single(operator, sample, sizes, subject)
                if made is not None and fit_of(subject, operator, made, dtype, device) == wanted:
                    return name
                subject.read_as(own)
    finally:
        subject.read_as(own)
    return ""


def _with_single(operator: Mechanism, sample: Sample, sizes: Collection[str], subject: AdapterSubject) -> Sample | None:
    """A case with some sizes of one, with other arrays where those of its scenario do not go with that."""
    fixed, seed = {**sample.case.fixed, **dict.fromkeys(sizes, 1)}, seed_of(0, "layout")
    case = replace(sample.case, label="layout", seed=seed, fixed=fixed, literals={})
    made = fitting(operator, case, sample.dtype, subject.claims)
    return made or fitting(operator, replace(case, scenario=""), sample.dtype, subject.claims)


def telling(subject: AdapterSubject, operator: Mechanism, dtype: str) -> list[Sample]:
    """The first plain cases in which no two layouts have arrays of the same shapes, and some with fewer sizes.

    Options of one value may have any, and so may those on which conditions depend. Where every call gives an optional
    input, so do these cases.
    """
    claims = subject.claims
    plain = {name: x for name, x in plain_options(operator, claims).items() if name not in claims.fixed}
    options = {name: x for name, x in plain.items() if name in operator.options}
    bound = {name for condition in claims.requires for name in condition.uses}  # which may have to be given
    free = {name: x for name, x in options.items() if name not in bound}
    found: list[Sample] = []
    for usual in {len(some): some for some in (plain, options, free)}.values():  # each is a part of the one before
        for sample in plan(operator, claims, PROFILES["quick"], 0, dtype).one_by_one():
            small = sample.entries <= SMALL and sample.layout == "contiguous"
            if small and all(same(sample.values[name], x) for name, x in usual.items()):
                found += _told_apart(operator, sample, subject, first=not found)
                if len(found) >= CASES:
                    break
        if found:
            break
    return found[:CASES]


def _told_apart(operator: Mechanism, sample: Sample, subject: AdapterSubject, *, first: bool) -> list[Sample]:
    """A case in which no two layouts have arrays of the same shapes, where it is one; the first with another one.

    Where several arrays lie in one, as many as a size is, that size is changed.
    """
    several = {len(parts) for parts in subject.form.layout.stacks.values()}
    if several and not tells_apart(operator, sample, subject.form):
        sizes = {name: sample.values[name] for name, size in operator.sizes.items() if size.draws}
        free = (n for n in itertools.count(4) if n not in sizes.values())
        apart = _at(operator, sample, {name: next(free) for name, n in sizes.items() if n in several}, subject)
        return [apart] if apart is not None else []
    if not tells_apart(operator, sample, subject.form):
        return []
    alike = _at(operator, sample, one_length(operator, sample), subject) if first else None
    return [sample, alike] if alike is not None else [sample]


def _at(operator: Mechanism, sample: Sample, sizes: Mapping[str, int], subject: AdapterSubject) -> Sample | None:
    """A case at other sizes, if it can have them and tells layouts apart there."""
    case = replace(
        sample.case, label="layout", seed=seed_of(0, "layout"), fixed={**sample.case.fixed, **sizes}, literals={}
    )
    made = fitting(operator, case, sample.dtype, subject.claims)
    return made if made is not None and sizes and tells_apart(operator, made, subject.form) else None
