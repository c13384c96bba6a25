"""The gradients of a function as a further subject of the same name: no second adapter is written for them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace

from attnspec.adapters import Adapter

from ..errors import SpecError
from ..execution.apart import ApartError
from ..execution.backward import Backward
from ..execution.calling import Call, Caller, DirectCaller, Reply
from ..execution.messages import Elsewhere
from ..language.expressions import Expression
from ..language.scopes import Scope
from ..mechanisms.library import Library
from ..mechanisms.mechanism import Mechanism
from .claims import is_own
from .subject import AdapterSubject, Subject

BY_FRAMEWORK = ("torch", "jax", "mlx")
"""Frameworks that differentiate functions."""


class GradientSubject(AdapterSubject):
    """A function of some operator, differentiated: a subject of the operator that states its gradients."""

    def __init__(self, forward: AdapterSubject, mechanism: Mechanism) -> None:
        self.forward = forward
        super().__init__(_declared(forward, mechanism), mechanism, declared=forward.claims.declared, own=forward.own)
        self.undeclared_layout = False

    def _called(self) -> Caller:
        forward = self.forward
        backward = Backward(
            forward.mechanism.required, forward.claims.by_name, _zeros(forward.mechanism, self.mechanism)
        )
        self.interface = replace(self.interface, backward=backward)
        if forward.supervise is not None:
            return forward.supervise(forward.adapter, self.interface, self.claims)
        return DirectCaller(forward.adapter.function, forward.adapter.framework, self.interface)

    def call(self, call: Call) -> Reply:
        if self.forward.observed_layout and not self.observed_layout:
            self.read_as(self.forward.form.layout.name, observed=True)
        return super().call(call)

    def apart(self, calls: Sequence[Call], seconds: float) -> list[Reply]:
        raise ApartError("its gradients are taken by attnspec; the function itself is asked")


def may_have_gradients(subject: Subject) -> bool:
    """Whether the gradients of a subject may be asked for, as far as its declaration goes.

    What comes with attnspec has adapters of its own for its gradients, unless it says otherwise.
    """
    if not isinstance(subject, AdapterSubject) or isinstance(subject, GradientSubject) or subject.adapter.factory:
        return False
    said = subject.adapter.differentiable
    return subject.adapter.framework in BY_FRAMEWORK and (not is_own(subject.adapter) if said is None else said)


def gradient_of(forward: AdapterSubject, known: Library) -> Mechanism | None:
    """The operator that states the gradients of a subject's, where its framework differentiates functions."""
    name = f"{forward.operator}_gradient"
    if name not in known.stating or forward.form.layout.stacks or forward.form.taken or forward.form.in_place:
        return None
    found = known[name]
    fits = not forward.adapter.layout or forward.adapter.layout in found.layouts
    return found if found.gradient_of == forward.operator and fits else None


def _declared(forward: AdapterSubject, gradient: Mechanism) -> Adapter:
    """What a function declares, as far as its gradients are concerned."""
    adapter, kin = forward.adapter, gradient.kin
    sizes = {name for m in kin for name in m.sizes}
    names = sizes | {name for m in kin for name in m.options}
    own = inspect.signature(adapter.function).parameters
    taken = [own[name] for name in own if name in forward.claims.names & {*gradient.optional, *gradient.options}]
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, kinds[0]) for name in gradient.required]
    parameters += [inspect.Parameter(p.name, kinds[1], default=p.default) for p in taken]
    function = Elsewhere(adapter.name, adapter.module, inspect.Signature(parameters))
    return replace(
        adapter,
        operator=gradient.name,
        function=function,
        conventions={name: word for name, word in adapter.conventions.items() if _has(gradient, name, word)},
        limits={name: x for name, x in adapter.limits.items() if name in names},
        fixed={name: x for name, x in adapter.fixed.items() if name in names},
        requires=tuple(text for text in _texts(adapter.requires) if _speaks(text, gradient)),
        perhaps=(),
    )


def _has(gradient: Mechanism, convention: str, word: str) -> bool:
    return word in gradient.conventions.get(convention, ())


def _texts(requires: str | Sequence[str]) -> tuple[str, ...]:
    return (requires,) if isinstance(requires, str) else tuple(requires)


def _speaks(text: str, gradient: Mechanism) -> bool:
    """Whether a condition is about what the gradient operator has; any other is about what it is never called with."""
    words = {word: option for option, own in gradient.vocabulary.items() for word in own}
    try:
        Expression(text, Scope(frozenset({*gradient.sizes, *gradient.inputs, *gradient.options}), words))
    except SpecError:
        return False
    return True


def _zeros(forward: Mechanism, gradient: Mechanism) -> Mapping[str, str]:
    """Inputs that the gradients do not depend on, each with one of the same shape that they do."""
    shapes = forward.shapes
    missing = [name for name in forward.required if name not in gradient.inputs]
    return {
        name: next(other for other in forward.required if other != name and shapes[other] == shapes[name])
        for name in missing
    }
