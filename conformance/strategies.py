"""Cases for property-based tests of a project: inputs, expected outputs, and bounds.

    from hypothesis import given, settings

    @settings(deadline=None)
    @given(attnspec.strategies.cases("attention", dtype="bfloat16", framework="torch", takes=my_kernel))
    def test_my_kernel(case):
        case.check(case.call(my_kernel))

Hypothesis draws sizes, options, the regime and the layout, and makes them small and plain where a test fails.
The entries of arrays come from the streams of the suite, by a seed that it draws.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st
from numpy.typing import NDArray

from attnspec.adapters import Adapter, Module

from .cases.applicability import undeclared
from .cases.exploring import Structures
from .cases.samples import Sample
from .diagnosis.entries import worst_of_output
from .errors import UsageError, did_you_mean
from .execution.calling import Call, DirectCaller, Reply, callable_of
from .execution.declarations import names_in
from .frameworks.known import framework_named
from .judging.bench import Bench
from .judging.judge import Kind, definition_law, evaluated
from .judging.trial import Faulted, Trial
from .mechanisms.library import Library
from .mechanisms.loader import Specs, mechanism_named
from .mechanisms.mechanism import Mechanism
from .numerics import budget
from .numerics.grades import FP64
from .numerics.numbers import number
from .subjects.claims import Claims
from .subjects.subject import AdapterSubject
from .subjects.targets import subject

Array = Any
"""An array of the framework that was asked for."""


def cases(
    operator: str,
    *,
    dtype: str = "float32",
    framework: str = "numpy",
    takes: Callable[..., Any] | Collection[str] | None = None,
    mechanisms: Collection[str] = (),
    conventions: Mapping[str, str] | None = None,
    limits: Mapping[str, Collection[int]] | None = None,
    fixed: Mapping[str, Any] | None = None,
    requires: str | Collection[str] = (),
    grade: str | None = None,
    specs: Sequence[str | Path] = (),
    references: Sequence[str | Path] = (),
) -> st.SearchStrategy[Case]:
    """A strategy for the cases of an operator, or of some of its mechanisms.

    * `takes`: a function, whose signature says which options and optional inputs it takes, or their names; by default
      all of them.
    * `conventions`, `limits`, `fixed`, `requires` and `grade` are those of `attnspec.adapter`; a convention that is not
      given is at its first word.
    * `specs`: folders with specifications of one's own; `references`: files with the float64 references of those that
      have no definition.

    Raises `UsageError` for what means nothing, or has outputs that only laws can judge.
    """
    known = Specs(tuple(map(str, specs)), tuple(map(str, references))).library()
    stated = mechanism_named(operator, known)
    if stated.operator != operator:
        raise UsageError(
            f"{operator!r} is a mechanism of {stated.operator!r}: write cases({stated.operator!r}, "
            f"mechanisms=[{operator!r}])"
        )
    kernel = takes if callable(takes) else _Kernel(stated, takes)
    declared = Adapter(
        getattr(kernel, "__name__", operator),
        operator,
        kernel,
        framework,
        dtypes=(dtype,),
        conventions=conventions or {},
        limits=limits or {},
        fixed=fixed or {},
        requires=(requires,) if isinstance(requires, str) else tuple(requires),
        grade=grade,
        factory=kernel.built_from if isinstance(kernel, Module) else None,
        same=kernel.parts["same"] if isinstance(kernel, Module) else {},
    )
    one = subject(declared, known=known)
    chosen = [_chosen(name, stated, one.claims, known) for name in names_in("mechanisms", mechanisms) or (operator,)]
    structures = [Structures(mechanism, one.claims, dtype) for mechanism in chosen]

    @st.composite
    def case(draw: st.DrawFn) -> Case:
        sample = draw(st.sampled_from(structures)).sample("drawn", lambda n: draw(st.integers(0, n - 1)))
        return reject() if sample is None else Case(sample, one, dtype)

    return case()


def _chosen(name: str, operator: Mechanism, claims: Claims, library: Library) -> Mechanism:
    """A mechanism of an operator that can be judged entry by entry."""
    mechanism = mechanism_named(name, library)
    if mechanism.operator != operator.name:
        known = [m.name for m in library.values() if m.operator == operator.name]
        raise UsageError(f"{name!r} is not a mechanism of {operator.name!r}{did_you_mean(name, known)}")
    if reason := undeclared(mechanism, claims):
        raise UsageError(f"no case of {name} can be drawn: the function {reason}")
    if mechanism.undetermined:
        raise UsageError(f"every output of {name} is random, and judged by its laws alone: use attnspec.check")
    return mechanism


class _Kernel:
    """In place of a function: the signature of one that takes some options and optional inputs, or all of them."""

    def __init__(self, operator: Mechanism, takes: Collection[str] | None) -> None:
        optional = (*operator.optional, *operator.options)
        names = optional if takes is None else names_in("takes", takes)
        for name in names:
            if name not in optional:
                told = f"takes: {operator.name} has no option or optional input {name!r}{did_you_mean(name, optional)}"
                raise UsageError(told)
        kinds = inspect.Parameter
        by_position = [kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in operator.required]
        defaults = {name: operator.defaults.get(name, kinds.empty) for name in names}
        by_name = [kinds(name, kinds.KEYWORD_ONLY, default=x) for name, x in defaults.items()]
        self.__signature__ = inspect.Signature([*by_position, *by_name])

    def __call__(self, *inputs: Any, **more: Any) -> Any:
        raise UsageError("there is no function to call; pass one to case.call")


class Case:
    """Inputs and options that were drawn, and what the definition makes of them."""

    def __init__(self, sample: Sample, kernel: AdapterSubject, dtype: str) -> None:
        self._sample, self._kernel, self._dtype = sample, kernel, dtype
        self.mechanism = sample.mechanism.name
        self.grade = kernel.claims.grade(dtype)
        """The precision that is claimed, and that the bounds are derived for."""

    def __repr__(self) -> str:
        x = self._sample
        plain = {**{n: x.values[n] for n in x.mechanism.sizes}, **self._call.options}
        said = [f"{name}={what}" for name, what in plain.items()]
        said += [
            f"{kind}={what}"
            for kind, what in (("regime", x.case.regime), ("layout", x.case.layout))
            if what not in ("", "contiguous")
        ]
        return f"<{self.mechanism} {' '.join(said)} seed={x.case.seed}>"

    @functools.cached_property
    def inputs(self) -> Mapping[str, Array]:
        """The arrays by name: the required ones, and of the optional ones those that are there."""
        made, call = framework_named(self._kernel.adapter.framework), self._call
        m, values = self._sample.mechanism, self._sample.values
        return {
            name: made.make(x, m.dtype_of(name, self._dtype, values), call.device, call.layout, index)
            for index, (name, x) in enumerate(call.inputs.items())
        }

    @functools.cached_property
    def options(self) -> Mapping[str, Any]:
        """The options that are not at their default, and those that a function has no default for."""
        return dict(self._call.options)

    @functools.cached_property
    def expected(self) -> Mapping[str, NDArray[Any]]:
        """The outputs by name as the definition has them, in float64; those that are random are left out."""
        trial = self._trial(Reply())
        with np.errstate(all="ignore"), budget.metered():
            return {name: np.asarray(trial.frames.exact(name, trial.base)) for name in self._judged}

    @functools.cached_property
    def bounds(self) -> Mapping[str, NDArray[np.float64]]:
        """How far rounding may take each entry of each output; infinite where the definition leaves it open."""
        trial = self._trial(Reply(self.expected))
        found = {}
        with np.errstate(all="ignore"), budget.metered():
            for name, x in self.expected.items():
                y = number(trial.number(name, trial.base, self.grade, fair=False), FP64)
                found[name] = np.broadcast_to(np.asarray(y.radius, float), x.shape)
        return found

    def call(self, function: Callable[..., Any]) -> Any:
        """What a function returns: required inputs by position, everything else by name."""
        required = self._sample.mechanism.required
        named = {name: x for name, x in self.inputs.items() if name not in required}
        called = callable_of(function, self._kernel.interface)
        return called(*(self.inputs[name] for name in required), **named, **self.options)

    def check(self, output: Any) -> float:
        """The largest error of an output, in units of its bound, which is at most 1.

        An output is an array, several in a tuple, or a dict by name.
        Raises `AssertionError` where an entry is beyond its bound, or where what was returned is not an output.
        """
        caller = DirectCaller(lambda *inputs, **more: output, self._kernel.adapter.framework, self._kernel.interface)
        reply = caller.call(self._call)
        told = [reply.fault.says] if reply.fault else [b.says for b in reply.breaches if b.contract == "dtype"]
        if told:
            raise AssertionError(f"{self}: {told[0]}")
        trial = self._trial(reply)
        try:
            with np.errstate(all="ignore"), budget.metered():
                outcome = evaluated(trial, definition_law(self._sample.mechanism), self.grade)
        except Faulted as fault:
            raise AssertionError(f"{self}: {fault}") from None
        if outcome.kind is Kind.REFUTED:
            raise AssertionError(f"{self}: {self._worst(trial)}")
        return outcome.excess

    @property
    def _judged(self) -> tuple[str, ...]:
        m = self._sample.mechanism
        return tuple(name for name in m.outputs if name not in m.random)

    @functools.cached_property
    def _call(self) -> Call:
        trial = self._trial(Reply())
        return trial.call(trial.base)

    def _trial(self, reply: Reply) -> Trial:
        """The case against a kernel that has returned something."""
        m = self._sample.mechanism
        words = {**m.words, **m.declared(self._kernel.claims.conventions)}
        trial = Trial(Bench(self._kernel, m, self._dtype, "cpu", words), self._sample)
        trial.replies[trial.base.key] = reply
        return trial

    def _worst(self, trial: Trial) -> str:
        """The entry that is furthest beyond its bound, in words."""
        returned = [name for name in self._judged if name in trial.replies[trial.base.key].outputs]
        found = {name: worst for name in returned if (worst := worst_of_output(trial, name, self.grade))}
        if not found:
            return ""
        name, worst = max(found.items(), key=lambda each: each[1].units)
        place = f"{name}{list(worst.where)}" if worst.where else name
        says = f"{place} is {float(worst.found):.6g}, expected {float(worst.expected):.6g}"
        if math.isfinite(worst.units):
            says += f": the error is {worst.units:.3g} x the bound {worst.bound:.3g} ({self.grade})"
        return f"{says}; {worst.spoiled} of {worst.entries} entries are beyond their bound"
