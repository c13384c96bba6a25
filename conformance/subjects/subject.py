"""What is under test, as the judging side sees it: a name, claims, and calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from attnspec.adapters import Adapter

from ..data.texts import NAME, safe
from ..execution.calling import LASTING, Breach, Call, Caller, DirectCaller, Interface, Reply
from ..execution.interpreters import Interpreter
from ..execution.supervisor import SupervisedCaller
from ..mechanisms.mechanism import Mechanism
from .claims import Claims, claims_of


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
        supervise: Callable[[Interface, Claims], Caller] | None = None,
        own: Interpreter | None = None,
    ) -> None:
        """`mechanism` is the one of the operator's own name. A signature that cannot serve it is a `TargetError`.

        `own` is the interpreter that calls it, if that is another one than this.
        """
        self.adapter, self.mechanism, self.own = adapter, mechanism, own
        self.name = safe(adapter.name + (f"@{own.label}" if own else ""), NAME)
        self.operator = adapter.operator
        self.claims = claims_of(adapter, mechanism, declared)
        self.noted: dict[str, Breach] = {}
        self.interface = Interface(
            mechanism.operator, mechanism.required, tuple(mechanism.outputs), mechanism.dtypes, self.claims.by_name
        )
        self.caller: Caller = (
            supervise(self.interface, self.claims)
            if supervise
            else DirectCaller(adapter.function, adapter.framework, self.interface)
        )

    @property
    def isolated(self) -> bool:
        """Whether calls are made in another process."""
        return not isinstance(self.caller, DirectCaller)

    def session(self) -> AbstractContextManager[None]:
        return self.caller.session()

    def call(self, call: Call) -> Reply:
        reply = self.caller.call(call)
        for breach in reply.breaches:
            if breach.contract in LASTING:
                self.noted.setdefault(breach.contract, breach)
        return reply


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
