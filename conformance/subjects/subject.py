"""A subject as the judging side sees it: a name, claims, and calls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from attnspec.adapters import Adapter

from ..data.texts import NAME, safe
from ..errors import UsageError, did_you_mean
from ..execution.apart import ApartError
from ..execution.calling import LASTING, OTHER, Breach, Call, Caller, DirectCaller, Interface, Reply
from ..execution.interpreters import Interpreter
from ..execution.supervised import SupervisedCaller
from ..mechanisms.layouts import MisfitError, layout_of
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.signatures import signature_named
from ..mechanisms.stated import is_stated
from ..numerics.grades import NAIVE
from .aliases import untested
from .claims import Claims, asked_numbers, claims_of, compiles, is_own, narrowed
from .forms import Form, form_in
from .taken import as_operator, taking


class Subject(Protocol):
    """What is under test."""

    @property
    def name(self) -> str: ...

    @property
    def operator(self) -> str: ...

    @property
    def mechanism(self) -> Mechanism: ...

    @property
    def claims(self) -> Claims: ...

    def call(self, call: Call) -> Reply: ...

    def session(self) -> AbstractContextManager[None]: ...


REFUSING = ("raised", "unsupported")
"""What becomes of calls that a function does not take."""


class AdapterSubject:
    """An adapter's function, called in this process unless somebody is to supervise the calls."""

    def __init__(
        self,
        adapter: Adapter,
        mechanism: Mechanism,
        *,
        declared: bool = True,
        supervise: Callable[[Adapter, Interface, Claims], Caller] | None = None,
        own: Interpreter | None = None,
    ) -> None:
        """`mechanism` is the one of the operator's own name. A signature that cannot serve it is a `TargetError`.

        `own` is the interpreter that calls it, if that is another one than this.
        """
        self.mechanism, self.own, self.supervise = mechanism, own, supervise
        self.name = safe(adapter.name + (f"@{own.label}" if own else ""), NAME)
        self.operator = adapter.operator
        fixed = adapter.layout or adapter.factory is not None or is_own(adapter)
        self.undeclared_layout = bool(mechanism.layouts) and not fixed
        """Whether the layout is to be identified."""
        self.laid_out = False
        """Whether that was tried."""
        self.observed_layout = False
        """Whether it was identified, and is another one than the operator's."""
        self.copies = False
        """Whether it is passed contiguous copies of arrays on which it fails."""
        self.others: set[str] = set()
        """The outputs in whose place something else is returned."""
        self.last_axes: dict[str, int] | None = None
        """By how many axes of one entry further outputs end that are none of theirs, or lack; None while it is open."""
        self.least: tuple[float, ...] = ()
        """The finite numbers that it returns in the place of minus infinity, in one dtype or another."""
        self.usual: dict[str, float] = {}
        """Options that it is never without, each with its own number."""
        self.in_dtype: frozenset[str] = frozenset()
        """Parameters that are passed in the dtype of a call, though its interface has them in another one."""
        self.noted: dict[str, Breach] = {}
        self._is_held = False
        """Whether its calls are part of one session."""
        self._take(adapter, declared=declared)

    def _take(self, adapter: Adapter, *, declared: bool) -> None:
        """Have calls made as an adapter says."""
        self.adapter, mechanism = adapter, self.mechanism
        form, claims = self._formed(declared=declared)
        self.form = form.with_dtype_of_call(self.in_dtype)
        self.claims = replace(claims, usual=self.usual if declared else asked_numbers(claims, mechanism) | self.usual)
        self.interface = self.form.interface(self.claims.by_name)
        if not declared:
            self.interface = replace(self.interface, refusing=True, others=0 if self.is_known else OTHERS)
        self.interface = replace(self.interface, outputs=self._without_others())
        if adapter.factory is not None:
            self.interface = replace(self.interface, axes=_axes(adapter, mechanism), absent=_absent(mechanism))
        self.caller: Caller = self._called()

    @property
    def is_known(self) -> bool:
        """Whether it has a known interface, by whose very name it goes or as is said: it returns what that returns."""
        taken = self.form.taken
        if taken is None or is_stated(self.adapter.like):
            return False
        return not self.adapter.guessed or self.adapter.name in taken.signature.names

    def take_as(self, like: str) -> None:
        """Have calls made as functions with that known interface take them, in the layout that was found."""
        layout = self.form.layout.name
        self._take(replace(self.adapter, like=like), declared=self.claims.declared)
        if self.observed_layout:
            self.read_as(layout, observed=True)

    def _formed(self, *, declared: bool) -> tuple[Form, Claims]:
        return _formed(self.adapter, self.mechanism, declared=declared)

    def _called(self) -> Caller:
        adapter = self.adapter
        if self.supervise is not None:
            made, known = self.supervise(adapter, self.interface, self.claims), getattr(self, "caller", None)
            if isinstance(made, SupervisedCaller) and isinstance(known, SupervisedCaller):
                made.stay_with(known)
            return made
        return DirectCaller(adapter.function, adapter.framework, self.interface)

    def hand(self, framework: str) -> None:
        """Have calls made with the arrays of that framework from now on."""
        self.adapter = replace(self.adapter, framework=framework, perhaps=())
        compiled = compiles(self.adapter)
        self.claims = replace(self.claims, compiled=compiled, sparing=compiled and self.adapter.compiled is None)
        self.caller = self._called()

    @property
    def isolated(self) -> bool:
        """Whether calls are made in another process."""
        return not isinstance(self.caller, DirectCaller)

    def session(self) -> AbstractContextManager[None]:
        return nullcontext() if self._is_held else self.caller.session()

    @contextmanager
    def one_session(self) -> Iterator[None]:
        """One stretch of calls in another process, in however many ways they are made, and a new one for further calls.

        What a framework has compiled for an interface serves the next one; what a function may keep is gone at the end.
        """
        if not isinstance(self.caller, SupervisedCaller):
            yield
            return
        first, self._is_held = self.caller, True
        try:
            yield
        finally:
            self._is_held = False
            if self.caller is not first:
                renewed(self)
            with self.session():
                pass  # at whose end a framework lets go of what it keeps

    def read_as(self, layout: str, *, observed: bool = False) -> None:
        """Have calls made in a layout of the same arrays, if the operator has layouts."""
        if not self.mechanism.layouts:
            return
        own = self.form.taken.signature if self.form.taken else None
        found = layout_of(self.mechanism.layouts, layout)
        if own is not None and own.layout_in(self.mechanism).name == layout:
            found = own.layout_in(self.mechanism)
        self.form, self.observed_layout = replace(self.form, layout=found), observed
        self.claims = narrowed(self.claims, self.form) if observed else self.claims

    def limit_to(self, values: Mapping[str, Collection[int]], ties: Mapping[str, str]) -> None:
        """Have calls made at some values of sizes alone, and with some sizes equal to others."""
        self.adapter = replace(self.adapter, limits={**self.adapter.limits, **values})
        self.require(*(f"{a} == {b}" for a, b in ties.items()))

    def require(self, *conditions: str) -> None:
        """Have calls made alone of which some conditions hold."""
        requires = self.adapter.requires
        whole = (requires,) if isinstance(requires, str) else tuple(requires)
        self.adapter = replace(self.adapter, requires=(*whole, *conditions))
        self.take_as(self.adapter.like)

    def take_in(self, dtypes: Sequence[str]) -> None:
        """Have calls made in some dtypes, the first ones of all in the first."""
        if tuple(dtypes) != self.adapter.dtypes:  # for which no other process is needed
            self.adapter = replace(self.adapter, dtypes=tuple(dtypes))
            self.take_as(self.adapter.like)

    def pass_in_dtype(self, parameters: Collection[str]) -> None:
        """Have some parameters passed in the dtype of a call, whatever the interface has, and others as it has them.

        Of results that follow from what was rounded no more is claimed than that every intermediate may be.
        """
        self.in_dtype = frozenset(parameters)
        own = None if self.adapter.grade == NAIVE else self.adapter.grade
        self.adapter = replace(self.adapter, grade=own or (NAIVE if parameters else None))
        self.take_as(self.adapter.like)

    def have_always(self, option: str, number: float) -> None:
        """Have calls give an option that it is never without; its own number where a case has none."""
        self.usual = {**self.usual, option: number}
        self.require(f"{option} != none")

    def hold_to(self, words: Mapping[str, str]) -> None:
        """Take words of conventions for declared ones, but for those of which others are."""
        self.adapter = replace(self.adapter, conventions={**words, **self.adapter.conventions})
        self.take_as(self.adapter.like)

    def set_aside(self, output: str) -> None:
        """Take what is returned in the place of an output for something else from now on."""
        self.others.add(output)
        self.returned_as(self._without_others())

    def _without_others(self) -> tuple[str, ...]:
        names = enumerate(self.interface.outputs)
        return tuple(f"{OTHER}{place}" if name in self.others else name for place, name in names)

    def returned_as(self, names: Sequence[str]) -> None:
        """Take what is returned for these outputs, in their order."""
        self.interface = replace(self.interface, outputs=tuple(names))
        self.caller = self._called()

    def _made(self, call: Call) -> Reply:
        return self._read(self.caller.call(call))

    def _read(self, reply: Reply) -> Reply:
        """What a function replies, as the operator has it."""
        found = self._with_last_axes(reply)
        x = found.outputs.get(self.mechanism.outputs[0]) if self.least else None
        if x is None:
            return found
        own = np.where(np.isin(x, self.least), -np.inf, x).astype(x.dtype)
        return replace(found, outputs={**found.outputs, self.mechanism.outputs[0]: own})

    def _with_last_axes(self, reply: Reply) -> Reply:
        """What a function replies; a plain one may keep the axis along which it reduces an output, or drop some."""
        if not self.interface.refusing:
            return reply
        axes, shaped = self.last_axes, dict[str, NDArray[Any]]()
        for name, count in (dict.fromkeys(self.form.kept_axes(reply), 1) if axes is None else axes).items():
            x = reply.outputs.get(name)
            if x is not None and count < 0:
                shaped[name] = x.reshape(*x.shape, *[1] * -count)
            elif x is not None and x.shape[-1:] == (1,):
                shaped[name] = x[..., 0]
        return replace(reply, outputs={**reply.outputs, **shaped}) if shaped else reply

    def call(self, call: Call) -> Reply:
        reply = self.form.called(self._made, call)
        if self.copies and call.layout != "contiguous" and reply.fault is not None and reply.fault.kind in REFUSING:
            return self.call(replace(call, layout="contiguous"))
        if any(name.startswith(OTHER) for name in reply.outputs):
            reply = replace(reply, outputs={name: x for name, x in reply.outputs.items() if not name.startswith(OTHER)})
        for breach in reply.breaches:
            if breach.contract in LASTING:
                self.noted.setdefault(breach.contract, breach)
        return reply

    def results(self, call: Call) -> dict[str, NDArray[Any]]:
        """All results of a call as the function returns them, those among them that are none of the operator's."""
        try:
            return dict(self.caller.call(call if self.form.plain else self.form.arranged(call)).outputs)
        except MisfitError:
            return {}

    def apart(self, calls: Sequence[Call], seconds: float, *, anew: bool = False) -> list[Reply]:
        """What calls give where nothing of attnspec is to be seen; see `SupervisedCaller.apart`."""
        if not isinstance(self.caller, SupervisedCaller):
            raise ApartError("calls are made in this process")
        replies = self.caller.apart([self.form.arranged(call) for call in calls], seconds, anew=anew)
        return [self.form.restored(self._read(reply), call) for reply, call in zip(replies, calls, strict=False)]


def _formed(adapter: Adapter, mechanism: Mechanism, *, declared: bool) -> tuple[Form, Claims]:
    """The form in which a function is called, and what it takes in the words of its operator."""
    label = f"{adapter.place}: " if adapter.place else f"{adapter.name}: "
    one = signature_named(adapter.like, label) if adapter.like else None
    if one is not None and one.operator != mechanism.operator:
        raise UsageError(f"{label}{one.name} is an interface of {one.operator}, and not of {mechanism.operator}")
    form = form_in(mechanism, adapter.layout, label, adapter.like)
    if adapter.in_place and adapter.in_place not in mechanism.inputs:
        hint = did_you_mean(adapter.in_place, mechanism.inputs)
        raise UsageError(f"{label}in_place is {adapter.in_place!r}, which is no input of {mechanism.operator}{hint}")
    form = replace(form, in_place=adapter.in_place)
    if one is None:
        claims = claims_of(adapter, mechanism, declared, form)
        return replace(form, sizes=claims.sizes, allocated=claims.allocated), claims
    taken = taking(adapter.function, one, mechanism, label)
    written = {name: passed.texts[0] for name, passed in taken.passed.items() if passed.how == "out"}
    form = replace(form, taken=taken, allocated=written)
    stand_in = as_operator(taken, mechanism, adapter.name, adapter.module)
    claims = claims_of(replace(adapter, function=stand_in), mechanism, declared, form)
    known = mechanism.takes
    told = tuple(untested(name, known) for name in taken.unknown)
    said = {} if declared or adapter.name not in one.names else one.follows
    conventions = {**said, **claims.conventions}
    return form, replace(claims, unknown=taken.unknown, untested=told, conventions=conventions)


def renewed(subject: Subject) -> bool:
    """Have the next call of a subject made in a new process; whether there can be one."""
    if not isinstance(subject, AdapterSubject) or not isinstance(subject.caller, SupervisedCaller):
        return False
    subject.caller.renew()
    return True


@contextmanager
def in_another_process(subject: Subject) -> Iterator[bool]:
    """Have calls of a subject made in a new process meanwhile, which ends with them; whether there can be one."""
    if not isinstance(subject, AdapterSubject) or not isinstance(subject.caller, SupervisedCaller):
        yield False
        return
    known = subject.caller
    subject.caller = beside = known.beside()
    try:
        yield True
    finally:
        subject.caller = known
        beside.renew()


def noted(subject: Subject) -> Mapping[str, Breach]:
    """The lasting breaches of a subject since they were asked for last, the first of each."""
    if not isinstance(subject, AdapterSubject):
        return {}
    found, subject.noted = subject.noted, {}
    return found


def _axes(adapter: Adapter, mechanism: Mechanism) -> dict[str, tuple[str, ...]]:
    """The sizes that a module is built of, by the inputs that fix them; a layout moves the axes of those with many."""
    fixed = {name: tuple(axis or "" for axis in axes) for name, axes in mechanism.shapes.items()}
    return {name: axes for name, axes in fixed.items() if not adapter.layout or len(axes) < LAID_OUT}


def _absent(mechanism: Mechanism) -> dict[str, float]:
    """The number that stands for each optional input which is not given, where it is one."""
    found = {name: mechanism.defaults.get(name) for name in mechanism.optional}
    return {name: float(x) for name, x in found.items() if isinstance(x, int | float) and not isinstance(x, bool)}


OTHERS = 8
"""Further results of a plain function that are left alone."""
LAID_OUT = 3
"""Axes of an input that a layout may move."""
