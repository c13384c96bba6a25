"""The sizes that a plain function refuses, found before anything is judged, so that no case is drawn with them.

Many kernels take some widths only, or as many keys as queries, and raise an error of their own for all others. Where
the first case is refused so, cases with fewer freedoms are tried until one is answered, and then each freedom is given
back that the function takes. What is left becomes limits and conditions, as an adapter would declare them.

Other errors are failures, with two exceptions: room for results is often made like the queries, so that values of
another width do not fit, and a function may fail on all calls of one kind that few functions take (`taken_alone`).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ..cases.drawing import seed_of
from ..cases.plans import plan
from ..cases.profiles import PROFILES
from ..cases.samples import Sample, Unfit
from ..errors import SpecError
from ..execution.faults import Fault
from ..language.scopes import Values
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.parameters import limits
from ..numerics import budget
from ..numerics.truths import truth
from ..subjects.passing import compiled
from ..subjects.subject import REFUSING, AdapterSubject
from .bench import Bench
from .layouts import fits_of
from .settling import Declined
from .trial import Faulted, Trial

STARTS = ((64, 128), (128, 128), (16, 16), (256, 256))
"""Widths and lengths that kernels take which take few."""
TRIED = (1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256)
"""The sizes of which a function may take some only."""
FEW = 4
"""Cases that are looked at, beyond a limit and within."""
SCATTERED = 6
"""Cases with arrays that are not contiguous that are looked at."""
GROUPED = (("heads", "kv_heads"), ("heads", "key_heads"), ("heads", "groups"))
"""Sizes that are equal where heads are not grouped."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a function takes: equal sizes, each with the other one, and the values of single sizes."""

    ties: Mapping[str, str]
    values: Mapping[str, tuple[int, ...]]
    says: str
    """What it said to what it refuses."""

    @property
    def words(self) -> str:
        """What is not tried, in words."""
        few = [f"{name} other than {', '.join(map(str, values))}" for name, values in self.values.items()]
        return " and ".join([*few, *(f"{a} other than {b}" for a, b in self.ties.items())])


def refuses(subject: AdapterSubject, device: str) -> bool:
    """Whether a function refuses the first case."""
    asked = _Asked(subject, device)
    return asked.first is not None and bool(asked.refusal({}))


def learned(subject: AdapterSubject, device: str) -> Limits | None:
    """The limits of a plain function that refuses the first case; None where it answers that, or no case at all."""
    asked = _Asked(subject, device)
    if asked.first is None or not (says := asked.refusal({})):
        return None
    m, values = subject.mechanism, asked.first.values
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
    few = {name: tuple(n for n in TRIED if asked.takes({**single, name: n}, ties)) for name in single}
    return Limits(ties, few, says)


def one_width(subject: AdapterSubject, device: str) -> Limits | None:
    """The widths that are one for a function that fails where they differ and answers where not; None for any other."""
    asked, m = _Asked(subject, device), subject.mechanism
    ties = {b: a for b, a in _pairs(m).items() if {a, b} <= {*_last(m)} and b in asked.sizes}
    if asked.first is None or not ties or any(asked.first.values[a] == asked.first.values[b] for b, a in ties.items()):
        return None
    says = asked.failure({})
    alike = {b: int(asked.first.values[a]) for b, a in ties.items()}
    if not says or asked.failure(alike) != "" or not asked.failure({b: 2 * n for b, n in alike.items()}):
        return None
    return Limits(ties, {}, says)


def taken_alone(subject: AdapterSubject, device: str) -> Iterator[tuple[str, str]]:
    """What has to hold of the calls that a function takes, and what it says where it does not.

    It answers a first case of which all of that holds, and fails on all of which one of it does not: where the first
    array has fewer axes than usual, or more; where heads are grouped; where a call lacks what the function asks for;
    and beyond the limits that many functions of its operator have.
    """
    asked, m = _Asked(subject, device), subject.mechanism
    if m.required:
        yield from _axes(asked, m.required[0], len(m.shapes[m.required[0]]))
    given, pairs = _given(subject), [pair for pair in GROUPED if {*pair} <= {*m.sizes}]
    weaker = {f"{heads} == {others}": f"{heads} == {others} or {others} == 1" for heads, others in pairs}
    faults = dict.fromkeys((*weaker, *given), REFUSING) | dict.fromkeys(limits(m), (*REFUSING, "misshapen"))
    kept = dict.fromkeys(faults)
    for condition, kinds in faults.items():
        del kept[condition]
        for text in filter(None, (condition, weaker.get(condition))):
            if says := asked.beyond(text, kinds, [*kept], wrong=condition not in given):
                kept[text] = None
                yield text, says
                break


def taken_as_copies(subject: AdapterSubject, device: str) -> str:
    """What a function says to first cases with arrays that are not contiguous, if it answers them with copies that are.

    Nothing where it answers all of them, or one of them in neither form.
    """
    asked, said = _Asked(subject, device), ""
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


def _axes(asked: _Asked, first: str, usual: int) -> Iterator[tuple[str, str]]:
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


class _Asked:
    """The first case of a subject, at sizes that are set."""

    def __init__(self, subject: AdapterSubject, device: str) -> None:
        operator, self.dtype = subject.mechanism, subject.claims.dtypes[0]
        self.subject, self.bench = subject, Bench(subject, operator, self.dtype, device, operator.words)
        self.planned = plan(operator, subject.claims, PROFILES["quick"], 0, self.dtype)
        self.first = next(self.plain, None)
        self.sizes = {name for name, size in operator.sizes.items() if size.draws}
        self._faults = dict[tuple[str, tuple[str, ...]], Fault | Literal[False] | None]()

    @property
    def plain(self) -> Iterator[Sample]:
        """The scenarios, each drawn when it is first asked for."""
        return (sample for sample in self.planned.one_by_one() if sample.case.scenario)

    def settled(self, single: Mapping[str, int], ties: Mapping[str, str]) -> dict[str, int]:
        """Sizes where some are set, and some equal others."""
        assert self.first is not None
        return {**single, **{b: int(single.get(a, self.first.values[a])) for b, a in ties.items()}}

    def takes(self, single: Mapping[str, int], ties: Mapping[str, str]) -> bool:
        """Whether the case is answered at these sizes."""
        return self.refusal(self.settled(single, ties)) == ""

    def refusal(self, sizes: Mapping[str, int]) -> str | None:
        """What is said to the case at these sizes; nothing where it is answered, None where it cannot be asked."""
        fault = self._fault(sizes)
        return "" if fault is False else fault.says if fault and fault.kind == "unsupported" else None

    def failure(self, sizes: Mapping[str, int]) -> str | None:
        """What goes wrong in the case at these sizes, or how the result is misshapen; nothing and None as before."""
        fault = self._fault(sizes)
        return "" if fault is False else fault.says if fault and fault.kind in ("raised", "misshapen") else None

    def _fault(self, sizes: Mapping[str, int]) -> Fault | Literal[False] | None:
        """The fault of the case at these sizes; false where it has none, None where it cannot be asked."""
        first, claims = self.first, self.subject.claims
        assert first is not None
        case = replace(
            first.case, label="sizes", seed=seed_of(0, "sizes"), fixed={**first.case.fixed, **sizes}, literals={}
        )
        try:
            made = Sample(self.bench.mechanism, case, self.dtype, claims=claims) if sizes else first
        except (Unfit, SpecError):
            return None
        return self.fault_of(made, self.bench.mechanism.outputs[:1])

    def beyond(
        self,
        condition: str,
        kinds: Collection[str] = REFUSING,
        others: Collection[str] = (),
        *,
        wrong: bool = False,
        later: bool = False,
    ) -> str:
        """What is said to the first of the cases of which a condition does not hold, if all of these fail in such ways.

        Some may be `wrong` instead, if one fails and none is right. With `later`, an output behind the first one may be
        misshapen. One of which the condition holds is answered. Some other conditions hold of all cases looked at.
        """

        def besides(cases: Iterable[Sample], *, met: bool) -> Iterator[Sample]:
            own = (case for case in cases if self._is_met(condition, case) is met)
            return itertools.islice((case for case in own if all(self._is_met(text, case) for text in others)), FEW)

        without, said = [*besides(itertools.chain(self.plain, self.planned.pairs), met=False)], ""
        for case in without:
            fault = self.fault_of(case)
            fails = fault and (fault.kind in kinds or (later and self._is_misshapen_later(case, fault)))
            if not fails and not wrong:
                return ""
            said = said or (fault.says if fault and fails else "")
        if not said or (wrong and self._is_right_on(without)):
            return ""
        return said if any(map(self._is_answered, besides(self.plain, met=True))) else ""

    def _is_answered(self, case: Sample) -> bool:
        """Whether a case is answered; an output behind the first one may be misshapen while no layout is known."""
        fault = self.fault_of(case)
        later = bool(fault) and self.subject.undeclared_layout and self._is_misshapen_later(case, fault)
        return fault is False or later

    def _is_misshapen_later(self, case: Sample, fault: Fault) -> bool:
        """Whether an output behind the first one alone has another shape, as what is added up over one axis of rows."""
        return fault.kind == "misshapen" and self.fault_of(case, self.bench.mechanism.outputs[:1]) is False

    def _is_right_on(self, cases: Iterable[Sample]) -> bool:
        """Whether a function is right on one of some cases."""
        answered = (case for case in cases if self.fault_of(case) is False)
        return "right" in fits_of(self.subject, self.bench.mechanism, answered, self.dtype, self.bench.device)

    def _is_met(self, condition: str, case: Sample) -> bool:
        """Whether a condition holds of a case."""
        expression = compiled(self.bench.mechanism, condition)
        with np.errstate(all="ignore"), budget.metered():
            return bool(truth(expression(Values(case.values, self.dtype))).must)

    def fault_of(self, sample: Sample, outputs: Sequence[str] = ()) -> Fault | Literal[False] | None:
        """The fault of a case, as far as some outputs or all show it; false for none, None where it cannot be asked."""
        asked = sample.key, tuple(outputs or self.bench.mechanism.outputs)
        if asked not in self._faults:
            self._faults[asked] = self._fault_in(sample, asked[1])
        return self._faults[asked]

    def _fault_in(self, sample: Sample, outputs: Sequence[str]) -> Fault | Literal[False] | None:
        """The same, by a call."""
        try:
            trial = Trial(self.bench, sample)
            with self.subject.session():
                reply = trial.replies[trial.base.key] = self.subject.call(trial.call(trial.base))
                if reply.fault is not None:
                    return reply.fault
                for name in (name for name in outputs if name in reply.outputs or name == outputs[0]):
                    trial.observed(name, trial.base)
        except Faulted as error:
            return error.fault
        except (Unfit, SpecError, Declined):
            return None
        return False


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
    """The sizes of axes, counted from the last one, of the arrays that every call has."""
    shapes = [m.shapes[name] for name in m.required]
    sizes = [shape[-place] for shape in shapes if len(shape) >= (place if place == 1 else place + 1)]
    return [*dict.fromkeys(size for size in sizes if size)]
