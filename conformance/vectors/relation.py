"""A vector of several calls: how a law relates their results, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cases.samples import Sample
from ..errors import SpecError
from ..execution.calling import Call, Reply
from ..judging.bench import Bench
from ..judging.environments import LawEnvironment
from ..judging.judge import Kind, evaluated
from ..judging.settling import Declined, Settled
from ..judging.trial import Faulted, Trial
from ..mechanisms.definition import Frame, sizes_of
from ..mechanisms.mechanism import Law, Mechanism
from ..numerics import budget
from ..numerics.grades import Grade
from ..numerics.numbers import Number, number
from .claims import Comparison, NotPlain, comparisons
from .claims import Kind as Standing
from .sides import Asked, Side, side_of
from .tensors import narrowed
from .vector import stored

RESULT = "relation"
"""What stands for the outputs where the mistakes are told that a relation refutes."""


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """Calls, and how sums of entries of their results stand to one another."""

    trial: Trial
    grade: Grade
    law: Law
    part: int | None
    """Which comparison of the law it is, where that has several."""
    comparison: Comparison
    calls: Mapping[tuple[Any, ...], Call]
    settled: Mapping[tuple[Any, ...], Settled]
    left: Side
    right: Side
    bound: NDArray[np.float64]
    """How far rounding may take each entry of one side from the other: infinite where the law says nothing, NaN where
    both may be NaN."""
    conventions: Mapping[str, str]

    @property
    def mechanism(self) -> Mechanism:
        return self.trial.mechanism

    @property
    def sample(self) -> Sample:
        return self.trial.sample

    @property
    def kind(self) -> Standing:
        return self.comparison.kind

    @property
    def outputs(self) -> Sequence[str]:
        return (RESULT,)

    @property
    def name(self) -> str:
        more = "" if self.part is None else f".{self.part}"
        return f"{self.mechanism.name}.{self.trial.bench.dtype}.{self.sample.key}.{self.law.name}{more}"

    @property
    def order(self) -> list[tuple[Any, ...]]:
        """The keys of the calls, that of the case itself first."""
        return list(self.calls)

    @property
    def asked(self) -> dict[Asked, tuple[int, ...]]:
        """The outputs that it reads, with their shapes."""
        terms = (*self.left.terms, *self.right.terms)
        return {t.asked: self.trial.frames.shape(t.asked[1], self.settled[t.asked[0]]) for t in terms}

    def sizes(self, key: tuple[Any, ...]) -> dict[str, int]:
        """The sizes of a call."""
        return {name: int(x) for name, x in sizes_of(self.mechanism, self.settled[key].values).items()}

    def shapes(self, key: tuple[Any, ...]) -> dict[str, tuple[int, ...]]:
        """The shapes of all outputs of a call."""
        names = [name for name in self.mechanism.outputs if name not in self.mechanism.random]
        return {name: self.trial.frames.shape(name, self.settled[key]) for name in names}

    def passed(self) -> dict[tuple[int, str], str]:
        """The arrays of the inputs of each call by name; what calls have in common is stored once."""
        found: dict[tuple[int, str], str] = {}
        kept: dict[tuple[str, Any], str] = {}
        for i, call in enumerate(self.calls.values()):
            for name, x in call.inputs.items():
                key = (name, (x.shape, x.dtype.str, np.ascontiguousarray(x).tobytes()))
                found[i, name] = kept.setdefault(key, f"{self.name}/{i}.{name}")
        return found

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """All arrays by name: inputs in their stored dtype, places, factors, constants and bounds."""
        for (i, name), tensor in self.passed().items():
            if tensor == f"{self.name}/{i}.{name}":
                key = self.order[i]
                values, call = self.settled[key].values, self.calls[key]
                yield tensor, stored(self.mechanism, name, call.inputs[name], call.dtype, values)
        for word, side in (("left", self.left), ("right", self.right)):
            for i, term in enumerate(side.terms):
                if not self.in_order(term):
                    yield f"{self.name}/{word}.{i}.place", term.place
                if single(term.factor) is None:
                    yield f"{self.name}/{word}.{i}.factor", term.factor
            if side.constant.any():
                yield f"{self.name}/{word}.constant", side.constant
        if self.bound.any():
            yield f"{self.name}/bound", narrowed(self.bound)

    def in_order(self, term: Any) -> bool:
        """Whether a term is the whole output, entry for entry."""
        shape = self.asked[term.asked]
        return term.place.shape == shape and np.array_equal(term.place.reshape(-1), np.arange(term.place.size))

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All arrays by name."""
        return dict(self.arrays())

    @property
    def nbytes(self) -> int:
        """How much room it takes in a file."""
        return sum(x.nbytes for _, x in self.arrays())

    def excess(self, outputs: Mapping[Asked, NDArray[Any]]) -> float:
        """The largest error in units of the bound; infinite for another shape, or where what is to differ does not."""
        if any(outputs[asked].shape != shape for asked, shape in self.asked.items()):
            return np.inf
        with np.errstate(all="ignore"):
            x, y = self.left.of(outputs), self.right.of(outputs)
            if self.kind == "differ":
                return np.inf if np.all((x == y) | (np.isnan(x) & np.isnan(y))) else 0.0
            gap = x - y if self.kind == "at_most" else np.abs(x - y)
            fine = (x <= y) if self.kind == "at_most" else (x == y)
            both = np.isnan(self.bound) & np.isnan(x) & np.isnan(y)
            units = np.where(np.isnan(gap) | np.isnan(self.bound) | (self.bound == 0), np.inf, gap / self.bound)
            return float(np.where(fine | both | np.isinf(self.bound), 0.0, units).max(initial=0.0))


def single(x: NDArray[np.float64]) -> float | None:
    """The number that all entries are; None where they are several."""
    return float(x.flat[0]) if x.size and (x == x.flat[0]).all() else None


def relations_of(bench: Bench, sample: Sample, grade: Grade, law: Law) -> list[Relation]:
    """What a law says of several calls on a case; empty where it does not speak of it, or says what is no sum."""
    apart = comparisons(law)
    if not apart:
        return []
    trial = Trial(bench, sample, fair=False)
    try:
        with np.errstate(all="ignore"), budget.metered():
            if evaluated(trial, law, grade).kind is not Kind.HELD:
                return []
            found = [_relation(trial, grade, law, i if len(apart) > 1 else None, one) for i, one in enumerate(apart)]
    except (Declined, Faulted, NotPlain, SpecError):
        return []
    return [relation for relation in found if relation is not None]


def _relation(trial: Trial, grade: Grade, law: Law, part: int | None, comparison: Comparison) -> Relation | None:
    left, settled = side_of(comparison.left, trial, law)
    right, more = side_of(comparison.right, trial, law)
    settled |= more
    calls = {one.key: one for one in sorted(settled.values(), key=lambda one: bool(one.key))}
    if len(calls) < 2:
        return None  # the definition says all of it
    shape = np.broadcast_shapes(left.constant.shape, right.constant.shape)
    left, right = left.spread(shape), right.spread(shape)
    outputs = {(key, name): trial.observed(name, one) for (key, name), one in settled.items()}
    bound = _bound(trial, grade, law, comparison, shape)
    with np.errstate(all="ignore"):
        bound = np.where(np.isnan(left.of(outputs)) & np.isnan(right.of(outputs)), np.nan, bound)
    words: dict[str, str] = {}
    for one in calls.values():
        frame = Frame(trial.mechanism, {**one.values, **trial.bench.words}, dtype=trial.bench.dtype)
        frame.outputs()
        words |= {
            c: w for c, w in trial.bench.words.items() if c in frame.turned_on and c in trial.mechanism.conventions
        }
    made = {key: trial.call(one) for key, one in calls.items()}
    found = Relation(trial, grade, law, part, comparison, made, calls, left, right, bound, words)
    return found if found.excess(outputs) <= 1 else None


def _bound(trial: Trial, grade: Grade, law: Law, comparison: Comparison, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """How far rounding may take one side from the other, and infinity where the law does not speak."""
    environment = LawEnvironment(trial, law, grade)
    where = np.broadcast_to(comparison.where(environment), shape)
    environment.claiming = True
    radius: Any = 0.0
    if not comparison.exact:
        sides = [comparison.left(environment), comparison.right(environment)]
        if any(isinstance(x, Number) for x in sides):
            radius = sum(np.asarray(number(x, grade).radius, np.float64) for x in sides)
    return np.array(np.where(where, radius, np.inf), np.float64)


def replies(relation: Relation, call: Any) -> dict[Asked, NDArray[Any]] | None:
    """What a function from calls to replies returns for each call; None where it returns nothing."""
    found: dict[tuple[Any, ...], Reply] = {key: call(one) for key, one in relation.calls.items()}
    if any(reply.fault is not None for reply in found.values()):
        return None
    return {asked: found[asked[0]].outputs[asked[1]] for asked in relation.asked}
