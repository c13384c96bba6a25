"""The sizes that a plain function refuses, found before anything is judged, so that no case is drawn with them.

Many kernels take some widths only, or as many keys as queries, and raise an error of their own for all others. Where
the first case is refused so, cases with fewer freedoms are tried until one is answered, and then each freedom is given
back that the function takes. What is left becomes limits and conditions, as an adapter would declare them.

Other errors are failures, with exceptions: room for results is often made like the queries, so that values of another
width do not fit (`one_width`); a function may take whole chunks only, or blocks of two to some power, and fail in what
it calls for every other size (`in_chunks`); and it may fail on all calls of one kind that few functions take
(`taken_alone`).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ..cases.samples import Unfit
from ..errors import SpecError
from ..execution.calling import UNDIFFERENTIABLE
from ..execution.faults import Fault
from ..execution.limits import Multiples
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.parameters import limits, meant
from ..subjects.hints import source_of
from ..subjects.passing import compiled
from ..subjects.subject import REFUSING, AdapterSubject
from .first_case import ORDERED, FirstCase
from .layouts import GROUPED
from .settling import Declined
from .trial import Trial

STARTS = ((64, 128), (128, 128), (16, 16), (256, 256))
"""Widths and lengths that kernels take which take few."""
TRIED = (1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256)
"""The sizes of which a function may take some only."""
ODD = 7
"""A size that is no multiple of a chunk, and no power of two."""
CHUNKS = 3
"""Chunks of which a function takes so many that it takes any number."""
BLOCKS = 3
"""Powers of two of which a function takes so many that it takes all in between."""
SCATTERED = 6
"""Cases with arrays that are not contiguous that are looked at."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a function takes: equal sizes, each with the other one, and the values of single sizes."""

    ties: Mapping[str, str]
    values: Mapping[str, Collection[int]]
    says: str
    """What it said to what it refuses."""

    @property
    def words(self) -> str:
        """What is not tried, in words."""
        several = {
            name: str(x) if isinstance(x, Multiples) else ", ".join(map(str, x)) for name, x in self.values.items()
        }
        few = [f"{name} other than {values}" for name, values in several.items()]
        return " and ".join([*few, *(f"{a} other than {b}" for a, b in self.ties.items())])


def refuses(subject: AdapterSubject, device: str) -> bool:
    """Whether a function refuses the first case."""
    asked = FirstCase(subject, device)
    return asked.first is not None and bool(asked.refusal({}))


def fails(subject: AdapterSubject, device: str) -> bool:
    """Whether a function gives no result for the first case."""
    asked = FirstCase(subject, device)
    return asked.first is not None and bool(asked.error({}))


def learned(subject: AdapterSubject, device: str) -> Limits | None:
    """The limits of a plain function that refuses the first case; None where it answers that, or no case at all."""
    asked = FirstCase(subject, device)
    if asked.first is None or not (says := asked.refusal({})):
        return None
    return _limits(asked, says)


def in_chunks(subject: AdapterSubject, device: str) -> Limits | None:
    """The sizes of a function that fails on all but multiples of one number, or powers of two; None for any other.

    It may fail on the first case, or where those of its lengths or its widths are odd that have no limits yet. Where
    rows of so many bytes are asked for, chunks are larger in narrower dtypes; those are taken that every dtype allows.
    """
    first, *further = subject.claims.dtypes
    found = _in_chunks(subject, device, first)
    others = (_in_chunks(subject, device, dtype) for dtype in further) if found is not None else ()
    known = [each for each in (found, *others) if each is not None]
    return max(known, key=lambda each: sum(map(min, each.values.values())), default=None)


def _in_chunks(subject: AdapterSubject, device: str, dtype: str) -> Limits | None:
    """The same in one dtype."""
    m = subject.mechanism
    for odd in ((), _lengths(m), _last(m)):
        asked = FirstCase(subject, device, dtype)
        free = asked.sizes - subject.claims.limits.keys()
        if asked.first is None or not asked.begin({name: ODD for name in odd if name in free}):
            continue
        if says := asked.error({}):
            found = _limits(asked, says)
            return found if found is not None and _is_of_blocks(asked, found) else None
    return None


def _is_of_blocks(asked: FirstCase, found: Limits) -> bool:
    """Whether a function takes multiples or powers of two alone, and fails on all other sizes that are tried."""
    takes = all(isinstance(own, Multiples) or _are_powers(own) for own in found.values.values())
    return bool(found.values) and takes and asked.faulty <= {*REFUSING}


def _limits(asked: FirstCase, says: str) -> Limits | None:
    """The limits of a function that does not take the first case; None where it takes none with fewer freedoms."""
    assert asked.first is not None
    m, values = asked.bench.mechanism, asked.first.values
    ties = {b: a for b, a in _pairs(m).items() if b in asked.sizes and a in values}
    free = asked.sizes - ties.keys()
    starts = [
        {name: width for name in _last(m) if name in free} | {name: length for name in _lengths(m) if name in free}
        for width, length in STARTS
    ]
    single = next((start for start in starts if asked.takes(start, ties)), None)
    if single is None:
        return None
    for b in [*ties]:
        apart, size = {n: x for n, x in ties.items() if n != b}, asked.settled(single, ties)[b]
        if asked.takes({**single, b: 2 * size}, apart):
            single |= {b: size} if ties[b] in single else {}
            ties = apart
    for name in [*single]:
        fewer = {n: x for n, x in single.items() if n != name}
        single = fewer if asked.takes(fewer, ties) else single
    return Limits(ties, {name: _taken(asked, name, single, ties) for name in single}, says)


def _taken(asked: FirstCase, name: str, single: Mapping[str, int], ties: Mapping[str, str]) -> Collection[int]:
    """The values of a size that a function takes of those that are tried, or all multiples of the smallest of them."""
    few = tuple(n for n in TRIED if asked.takes({**single, name: n}, ties))
    chunk = min(few, default=1)
    whole = chunk > 1 and few == tuple(n for n in TRIED if n % chunk == 0)
    return Multiples(chunk) if whole and asked.takes({**single, name: CHUNKS * chunk}, ties) else few


def _are_powers(few: Collection[int]) -> bool:
    """Whether sizes are all powers of two between two of them that are tried."""
    tried = [n for n in TRIED if n & (n - 1) == 0 and min(few) <= n <= max(few)] if few else []
    return len(few) >= BLOCKS and [*few] == tried


def one_width(subject: AdapterSubject, device: str) -> Limits | None:
    """The widths that are one for a function that fails where they differ and answers where not; None for any other."""
    asked, m = FirstCase(subject, device), subject.mechanism
    ties = {b: a for b, a in _pairs(m).items() if {a, b} <= {*_last(m)} and b in asked.sizes}
    if asked.first is None or not ties:
        return None
    equal = {b: int(asked.first.values[b]) for b, a in ties.items() if asked.first.values[a] == asked.first.values[b]}
    if equal and not asked.begin({b: n + 2 for b, n in equal.items()}):
        return None
    says = asked.failure({})
    alike = {b: int(asked.first.values[a]) for b, a in ties.items()}
    if not says or asked.failure(alike) != "" or not asked.failure({b: 2 * n for b, n in alike.items()}):
        return None
    return Limits(ties, {}, says)


def taken_alone(subject: AdapterSubject, device: str, documented: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """What has to hold of the calls that a function takes, and what it says where it does not.

    It answers a first case of which all of that holds, and fails on all of which one of it does not: where the first
    array has fewer axes than usual, or more; where heads are grouped; where a call lacks what the function asks for;
    where an option is a word of which it says nothing; and beyond the limits that many functions of its operator have;
    beyond those that are `documented`, it may be right.
    """
    asked, m = FirstCase(subject, device), subject.mechanism
    for condition in meant(m):
        if says := asked.right_within(condition):
            yield condition, says
    if m.required:
        yield from _axes(asked, m.required[0], len(m.shapes[m.required[0]]))
    given, weaker = _given(subject), _ungrouped(m)
    usual = [*(text for text in limits(m) if not _is_given(subject, text)), *_unsaid(subject)]
    usual += [text for text in documented if text not in usual]
    faults = dict.fromkeys((*weaker, *given), REFUSING) | {text: _failing(m, text) for text in usual}
    kept = dict.fromkeys(faults)
    for condition, kinds in faults.items():
        del kept[condition]
        for text in filter(None, (condition, weaker.get(condition))):
            said = condition in documented
            whole = not said and asked.has(text, [*kept])
            if not (said or whole) and {*documented} & {*kept}:
                break  # which says more
            others = [each for each in kept if whole or each not in usual]
            if says := asked.beyond(text, kinds, others, wrong=condition not in given, right=said):
                kept[text] = None
                yield text, says
                break


def ungrouped(subject: AdapterSubject, device: str) -> Iterator[tuple[str, str]]:
    """That heads are not grouped, or share one, where a function answers such calls and fails on all others."""
    known = _ungrouped(subject.mechanism)
    if not known:
        return
    asked = FirstCase(subject, device)
    for texts in known.items():
        found = ((text, asked.beyond(text)) for text in texts)
        told = ((text, says) for text, says in found if says and not says.startswith(UNDIFFERENTIABLE))
        yield from itertools.islice(told, 1)  # what the function itself fails on is told of that


def _ungrouped(m: Mechanism) -> dict[str, str]:
    """That heads are not grouped, each with the weaker condition that they may share one."""
    pairs = (pair for pair in GROUPED if {*pair} <= {*m.sizes})
    return {f"{heads} == {others}": f"{heads} == {others} or {others} == 1" for heads, others in pairs}


def asked_for(subject: AdapterSubject, device: str) -> Iterator[tuple[str, str]]:
    """That calls have what a function asks for and fails without, and what it says then; seen before it is read.

    Calls that have it may have results of any shape: what these are is found later. What fails without each of several
    is answered where all of them are given.
    """
    conditions = _given(subject)
    if not conditions:
        return
    asked = FirstCase(subject, device)
    found = [*_lacking(asked, conditions)]
    yield from found or _lacking(asked, [" and ".join(conditions)])


def fails_with_all(subject: AdapterSubject, device: str) -> bool:
    """Whether a function asks for what calls may lack, and fails even on first calls that have all of that."""
    conditions = _given(subject)
    if not conditions:
        return False
    asked = FirstCase(subject, device)
    having = asked.first_of(" and ".join(conditions), met=True)
    return bool(having) and not any(_returns(asked.fault_of(case)) for case in having)


def _lacking(asked: FirstCase, conditions: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Without what a function fails on all first calls and returns something on others, with what it says then."""
    for condition in conditions:
        lacking, having = (asked.first_of(condition, met=met) for met in (False, True))
        faults = [asked.fault_of(case) for case in lacking]
        said = [fault.says for fault in faults if isinstance(fault, Fault) and fault.kind in REFUSING]
        if said and len(said) == len(faults) and any(_returns(asked.fault_of(case)) for case in having):
            yield condition, said[0]


def _returns(fault: Fault | Literal[False] | None) -> bool:
    """Whether a call ends with a result, of the right shape or not."""
    return fault is False or (isinstance(fault, Fault) and fault.kind == "misshapen")


def _failing(m: Mechanism, condition: str) -> tuple[str, ...]:
    """What becomes of the calls beyond a limit; one that is about an option leaves refusals to the calls themselves."""
    return ("raised", "misshapen") if compiled(m, condition).uses & {*m.options} else (*REFUSING, "misshapen")


def _unsaid(subject: AdapterSubject) -> Iterator[str]:
    """That an option is none of the words which a function has nowhere in its text, where it has others of them."""
    source = source_of(subject.adapter)
    said = source.said if source is not None else set[str]()
    for option, words in subject.mechanism.vocabulary.items():
        unsaid = [word for word, text in words.items() if text not in said]
        if len(unsaid) < len(words):
            yield from (f"{option} != {word}" for word in unsaid)


def _is_given(subject: AdapterSubject, condition: str) -> bool:
    """Whether a condition is of an option that calls may lack, and that a parameter gives: a function is to take it.

    One that is of the numbers an option may be, and not of whether there is one, is a limit nevertheless.
    """
    if ORDERED.search(condition):
        return False
    m = subject.mechanism
    used = {name for name in compiled(m, condition).uses & {*m.options} if m.defaults.get(name, 0) is None}
    passed = subject.form.taken.passed.values() if subject.form.taken else ()
    given = {text for each in passed for text in each.texts} if passed else subject.claims.names
    return bool(used & {*given})


def taken_as_copies(subject: AdapterSubject, device: str) -> str:
    """What a function says to first cases with arrays that are not contiguous, if it answers them with copies that are.

    Nothing where it answers all of them, or one of them in neither form.
    """
    asked, said = FirstCase(subject, device), ""
    scattered = (sample for sample in asked.plain if sample.layout != "contiguous")
    for sample in itertools.islice(scattered, SCATTERED):
        try:
            trial = Trial(asked.bench, sample)
            call = trial.call(trial.base)
        except (Unfit, SpecError, Declined):
            continue
        with subject.session():
            fault = subject.call(call).fault
            if fault is not None and fault.kind in REFUSING:
                if subject.call(replace(call, layout="contiguous")).fault is not None:
                    return ""
                said = said or fault.says
    return said


def _axes(asked: FirstCase, first: str, usual: int) -> Iterator[tuple[str, str]]:
    """How many axes the first array has to have, if it may have more or fewer in other functions."""
    numbers = {np.ndim(sample.values[first]) for sample in asked.plain} - {usual}
    asking = ((number, asked.beyond(f"ndim({first}) != {number}", later=True)) for number in sorted(numbers))
    failing = {number: says for number, says in asking if says}
    taken = {usual, *numbers} - {*failing}
    low, high = min(taken), max(taken)
    fewer, more = any(n < low for n in failing), any(n > high for n in failing)
    if fewer and more and low == high:
        yield f"ndim({first}) == {low}", failing[min(failing)]
        return
    if fewer:
        yield f"ndim({first}) >= {low}", failing[min(failing)]
    if more:
        yield f"ndim({first}) <= {high}", failing[max(failing)]


def _given(subject: AdapterSubject) -> list[str]:
    """That a call has what a function asks for and calls of its operator may lack, for each of that."""
    m, taken = subject.mechanism, subject.form.taken
    names = {*subject.claims.always}
    if taken is not None:
        names = {taken.arrays.get(parameter) or taken.passed[parameter].asks for parameter in taken.wanting}
    inputs = [f"not single({name})" for name in m.optional if name in names]
    return [*inputs, *(f"{name} != none" for name in m.options if name in names and m.defaults.get(name, 0) is None)]


def _pairs(m: Mechanism) -> dict[str, str]:
    """The sizes of later arrays, each with that of the first array which stands in its place."""
    first, *others = [m.shapes[name] for name in m.required] or [()]
    return {
        b: a
        for other in others
        if len(other) == len(first)
        for a, b in zip(first, other, strict=True)
        if a and b and a != b
    }


def _last(m: Mechanism) -> list[str]:
    """The widths: sizes of last axes."""
    return _at(m, 1)


def _lengths(m: Mechanism) -> list[str]:
    """The lengths: sizes of the axes before these, where there are others in front of them."""
    return _at(m, 2)


def _at(m: Mechanism, place: int) -> list[str]:
    """The sizes of axes, counted from the last one, of the arrays that every call has.

    An array of one axis is a list, as of lengths, and has neither width nor length where others have more axes.
    """
    shapes = [m.shapes[name] for name in m.required]
    wide = [shape for shape in shapes if len(shape) > place] or (shapes if place == 1 else [])
    return [*dict.fromkeys(size for shape in wide for size in shape[-place:][:1] if size)]
