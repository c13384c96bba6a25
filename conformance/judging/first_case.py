"""Calls that a plain function is asked to make before anything is judged: its first case at sizes that are set."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from ..cases.applicability import undeclared
from ..cases.drawing import seed_of
from ..cases.plans import plan
from ..cases.profiles import PROFILES
from ..cases.samples import Sample, Unfit, fitting
from ..errors import SpecError
from ..execution.faults import Fault
from ..language.scopes import Values
from ..numerics import budget
from ..numerics.truths import truth
from ..subjects.passing import compiled
from ..subjects.subject import REFUSING, AdapterSubject
from .bench import Bench
from .fits import SMALL, fits_of
from .settling import Declined
from .trial import Faulted, Trial

FEW = 4
"""Cases that are looked at, beyond a limit and within."""
WRONG = "a wrong result"
"""What is told of a case that is answered, and not right."""
ORDERED = re.compile("[<>]")
"""What a condition has that is about which numbers an option may be."""
COUNTS = "lens"
"""How inputs end that are how many tokens items have."""


class FirstCase:
    """The first case of a subject, at sizes that are set, in its first dtype or another one."""

    def __init__(self, subject: AdapterSubject, device: str, dtype: str = "") -> None:
        operator, self.dtype = subject.mechanism, dtype or subject.claims.dtypes[0]
        self.subject, self.bench = subject, Bench(subject, operator, self.dtype, device, operator.words)
        self.planned = plan(operator, subject.claims, PROFILES["quick"], 0, self.dtype)
        self.claimed = undeclared(operator, subject.claims) is None
        self.first = next(self.plain, None)
        self.sizes = {name for name, size in operator.sizes.items() if size.draws}
        self._faults = dict[tuple[str, tuple[str, ...]], Fault | Literal[False] | None]()

    @property
    def plain(self) -> Iterator[Sample]:
        """The small scenarios, each drawn when it is first asked for; none where only further mechanisms are claimed.

        A function that is called in a layout which it does not read may make of two arrays one of all pairs of items.
        """
        cases = self.planned.one_by_one() if self.claimed else ()
        return (sample for sample in cases if sample.case.scenario and sample.entries <= SMALL)

    @property
    def some(self) -> Iterator[Sample]:
        """The scenarios, and then the cases of pairs of settings."""
        return itertools.chain(self.plain, self.pairs)

    @property
    def pairs(self) -> Iterable[Sample]:
        """The small cases of pairs of settings."""
        cases = self.planned.pairs if self.claimed else ()
        return (sample for sample in cases if sample.entries <= SMALL)

    def settled(self, single: Mapping[str, int], ties: Mapping[str, str]) -> dict[str, int]:
        """Sizes where some are set, and some equal others."""
        assert self.first is not None
        return {**single, **{b: int(single.get(a, self.first.values[a])) for b, a in ties.items()}}

    def takes(self, single: Mapping[str, int], ties: Mapping[str, str]) -> bool:
        """Whether the case is answered at these sizes."""
        return self.refusal(self.settled(single, ties)) == ""

    def refusal(self, sizes: Mapping[str, int]) -> str | None:
        """What is said to the case at these sizes; nothing where it is answered, None where it cannot be asked."""
        return self._said(sizes, ("unsupported",))

    def failure(self, sizes: Mapping[str, int]) -> str | None:
        """What goes wrong in the case at these sizes, or how the result is misshapen; nothing and None as before."""
        return self._said(sizes, ("raised", "misshapen"))

    def error(self, sizes: Mapping[str, int]) -> str | None:
        """What is raised for the case at these sizes; nothing and None as before."""
        return self._said(sizes, REFUSING)

    def _said(self, sizes: Mapping[str, int], kinds: Collection[str]) -> str | None:
        """What a fault of some kinds says at these sizes; nothing where there is none, None where it is of another."""
        made = self._at(sizes)
        fault = None if made is None else self.fault_of(made, self.bench.mechanism.outputs[:1])
        return "" if fault is False else fault.says if fault and fault.kind in kinds else None

    def begin(self, sizes: Mapping[str, int]) -> bool:
        """Have the first case these sizes, if it can have them."""
        self.first = self._at(sizes)
        return self.first is not None

    def _at(self, sizes: Mapping[str, int]) -> Sample | None:
        """The first case at these sizes, if it can have them."""
        first = self.first
        if first is None or not sizes:
            return first
        case = replace(
            first.case, label="sizes", seed=seed_of(0, "sizes"), fixed={**first.case.fixed, **sizes}, literals={}
        )
        return fitting(self.bench.mechanism, case, self.dtype, self.subject.claims)

    @property
    def faulty(self) -> set[str]:
        """The kinds of faults that were seen."""
        return {fault.kind for fault in self._faults.values() if fault}

    def beyond(
        self,
        condition: str,
        kinds: Collection[str] = REFUSING,
        others: Collection[str] = (),
        *,
        wrong: bool = False,
        right: bool = False,
        later: bool = False,
    ) -> str:
        """What is said to the first of the cases of which a condition does not hold, if all of these fail in such ways.

        Some may be `wrong` instead, if one fails and none is right; with `right`, these may be some, too. With `later`,
        an output behind the first one may be misshapen. One of which the condition holds is answered. Some other
        conditions hold of all cases looked at. Where the condition is about indices, a NaN may be what is read beyond
        the end of an array, and where it is about how large an option is, NaNs may be what comes of all others.
        """
        without, said = [*self._without(condition, others)], ""
        for case in without:
            fault = self.fault_of(case)
            last = bool(fault) and self._is_misshapen_later(case, fault)
            fails = fault and (later if last else fault.kind in kinds)
            if not fails and not wrong:
                return ""
            said = said or (fault.says if fault and fails else "")
        if wrong and not said and self._ends_in_nan(condition, without):
            said = "NaN in the result"
        if not said or (wrong and not right and self._is_right_on(without)):
            return ""
        within = self._besides(self.some, condition, others, met=True)
        return said if any(map(self._is_answered, within)) else ""

    def right_within(self, condition: str) -> str:
        """What is said where a condition does not hold, if the first such cases are mostly wrong, and all others right.

        Nothing is said where there are none. One may be right by chance, as where its bound is wide.
        """
        without, within = ([*self._besides(self.plain, condition, (), met=met)] for met in (False, True))
        right = [self._is_right_on([case]) for case in without]
        if not without or 2 * sum(right) > len(right) or not all(self._is_right_on([case]) for case in within):
            return ""
        said = (fault.says for fault in map(self.fault_of, without) if fault)
        return next(said, WRONG)

    def _is_answered(self, case: Sample) -> bool:
        """Whether a case is answered; an output behind the first one may be misshapen while no layout is known."""
        fault = self.fault_of(case)
        later = bool(fault) and self.subject.undeclared_layout and self._is_misshapen_later(case, fault)
        return fault is False or later

    def has(self, condition: str, others: Collection[str]) -> bool:
        """Whether there is a case of which a condition does not hold, and some others do."""
        return next(self._without(condition, others), None) is not None

    def _without(self, condition: str, others: Collection[str]) -> Iterator[Sample]:
        """The first cases of which a condition does not hold, and some others do; arrays lie as they usually do.

        Where that is so of none, they are cases of pairs of settings whose arrays are made to lie so.
        """
        usual = (case for case in self.some if case.layout == "contiguous")
        found = self._besides(usual, condition, others, met=False)
        first = next(found, None)
        if first is not None:
            return itertools.chain([first], found)
        return self._besides(map(self._laid_out, self.pairs), condition, others, met=False)

    def _laid_out(self, sample: Sample) -> Sample:
        """A case of the same values in arrays that are contiguous."""
        if sample.layout == "contiguous":
            return sample
        case = replace(sample.case, layout="contiguous")
        return Sample(self.bench.mechanism, case, self.dtype, claims=self.subject.claims)

    def first_of(self, condition: str, *, met: bool) -> list[Sample]:
        """The first cases of which a condition holds, or of which it does not, that the layout has room for."""
        return [*self._besides(self.some, condition, self.subject.form.room, met=met)]

    def _besides(
        self, cases: Iterable[Sample], condition: str, others: Collection[str], *, met: bool
    ) -> Iterator[Sample]:
        own = (case for case in cases if self._is_met(condition, case) is met)
        return itertools.islice((case for case in own if all(self._is_met(text, case) for text in others)), FEW)

    def _is_misshapen_later(self, case: Sample, fault: Fault) -> bool:
        """Whether an output behind the first one alone has another shape, as what is added up over one axis of rows."""
        return fault.kind == "misshapen" and self.fault_of(case, self.bench.mechanism.outputs[:1]) is False

    def _is_right_on(self, cases: Iterable[Sample]) -> bool:
        """Whether a function is right on one of some cases."""
        answered = (case for case in cases if self.fault_of(case) is False)
        return "right" in fits_of(self.subject, self.bench.mechanism, answered, self.dtype, self.bench.device)

    def _ends_in_nan(self, condition: str, without: Collection[Sample]) -> bool:
        """Whether NaN is what comes of the cases of which a condition does not hold, all of them if it is no index."""
        found = (self._is_without_number(case) for case in without)
        if self._is_of_indices(condition):
            return any(found)
        m = self.bench.mechanism
        sized = ORDERED.search(condition) is not None and compiled(m, condition).uses <= {*m.options}
        return sized and bool(without) and all(found)

    def _is_of_indices(self, condition: str) -> bool:
        """Whether a condition is about whole numbers that the operator has as an array, and not about lengths."""
        m = self.bench.mechanism
        uses = compiled(m, condition).uses & {*m.inputs}
        return any(m.dtypes.get(name) == "integer" and not name.endswith(COUNTS) for name in uses)

    def _is_without_number(self, case: Sample) -> bool:
        """Whether the first output of an answered case has a NaN."""
        trial, first = Trial(self.bench, case), self.bench.mechanism.outputs[0]
        try:
            with self.subject.session():
                return bool(np.isnan(np.asarray(trial.observed(first, trial.base), float)).any())
        except (Faulted, Unfit, SpecError, Declined):
            return False

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
