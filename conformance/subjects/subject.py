"""What is under test, as the judging side sees it: a name, claims, and calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from attnspec import adapters
from attnspec.adapters import Adapter

from ..data.texts import NAME, safe
from ..execution.apart import ApartError
from ..execution.calling import LASTING, Breach, Call, Caller, DirectCaller, Interface, Reply
from ..execution.interpreters import Interpreter
from ..execution.supervisor import SupervisedCaller
from ..mechanisms.layouts import layout_of
from ..mechanisms.mechanism import Mechanism
from .claims import Claims, claims_of
from .forms import form_in


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
        self.adapter, self.mechanism, self.own = adapter, mechanism, own
        self.name = safe(adapter.name + (f"@{own.label}" if own else ""), NAME)
        self.operator = adapter.operator
        form = form_in(mechanism, adapter.layout, f"{adapter.place}: " if adapter.place else f"{adapter.name}: ")
        self.claims = claims_of(adapter, mechanism, declared, form)
        self.form = replace(form, sizes={name: name for name in self.claims.sizes})
        fixed = adapter.layout or adapter.factory is not None or _own(adapter)
        self.undeclared_layout = bool(mechanism.layouts) and not fixed
        """Whether the layout is to be identified still."""
        self.observed_layout = False
        """Whether it was identified, and is another one than the operator's."""
        self.noted: dict[str, Breach] = {}
        self.interface = self.form.interface(self.claims.by_name)
        if adapter.factory is not None:
            self.interface = replace(self.interface, axes=_axes(adapter, mechanism), absent=_absent(mechanism))
        self._supervise = supervise
        self.caller: Caller = self._called()

    def _called(self) -> Caller:
        adapter = self.adapter
        if self._supervise is not None:
            return self._supervise(adapter, self.interface, self.claims)
        return DirectCaller(adapter.function, adapter.framework, self.interface)

    def hand(self, framework: str) -> None:
        """Have calls made with the arrays of that framework from now on."""
        self.adapter = replace(self.adapter, framework=framework, perhaps=())
        self.caller = self._called()

    @property
    def isolated(self) -> bool:
        """Whether calls are made in another process."""
        return not isinstance(self.caller, DirectCaller)

    def session(self) -> AbstractContextManager[None]:
        return self.caller.session()

    def read_as(self, layout: str, *, observed: bool = False) -> None:
        """Have calls made in a layout of the same arrays."""
        layout_ = layout_of(self.mechanism.layouts, layout)
        self.form, self.observed_layout = replace(self.form, layout=layout_), observed

    def call(self, call: Call) -> Reply:
        reply = self.form.called(self.caller.call, call)
        for breach in reply.breaches:
            if breach.contract in LASTING:
                self.noted.setdefault(breach.contract, breach)
        return reply

    def apart(self, calls: Sequence[Call], seconds: float) -> list[Reply]:
        """What calls give where nothing of attnspec is to be seen; see `SupervisedCaller.apart`."""
        if not isinstance(self.caller, SupervisedCaller):
            raise ApartError("calls are made in the process of the run")
        replies = self.caller.apart([self.form.arranged(call) for call in calls], seconds)
        return [self.form.restored(reply, call) for reply, call in zip(replies, calls, strict=False)]


def _own(adapter: Adapter) -> bool:
    """Whether an adapter comes with attnspec, and so has the layout of its operator."""
    return adapter.module.startswith(f"{adapters.__name__}.")


def renewed(subject: Subject) -> bool:
    """Have the next call of a subject made in a new process; whether there can be one."""
    if not isinstance(subject, AdapterSubject) or not isinstance(subject.caller, SupervisedCaller):
        return False
    subject.caller.renew()
    return True


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


LAID_OUT = 3
"""Axes of an input that a layout may move."""
