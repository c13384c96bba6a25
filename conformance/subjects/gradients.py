"""The gradients of a function as another subject of the same name, without a second adapter."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnspec.adapters import Adapter

from ..errors import SpecError
from ..execution.apart import ApartError
from ..execution.backward import COTANGENT, PART, Backward, cotangents_in
from ..execution.calling import Call, Caller, DirectCaller, Interface, Reply
from ..execution.faults import Fault
from ..execution.messages import Elsewhere
from ..language.expressions import Expression
from ..mechanisms.layouts import Layout, MisfitError
from ..mechanisms.library import Library
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.signatures import scope_of
from .claims import Claims, claims_of, is_own
from .forms import Form
from .selections import gathered, selected_from
from .subject import AdapterSubject, Subject
from .taken import as_operator

BY_FRAMEWORK = ("torch", "jax", "mlx")
"""Frameworks that differentiate functions."""


class GradientSubject(AdapterSubject):
    """A function of some operator, differentiated: a subject of the operator that states its gradients."""

    def __init__(self, forward: AdapterSubject, mechanism: Mechanism, further: Sequence[str] = ()) -> None:
        """`further` are outputs after the first, each of which may have a gradient, too."""
        self.forward = forward
        declared = _declared(forward, mechanism, further)
        super().__init__(declared, mechanism, declared=forward.claims.declared, own=forward.own)
        self.undeclared_layout = False
        self.copies = forward.copies

    def _formed(self, *, declared: bool) -> tuple[Form, Claims]:
        if self.forward.form.taken is None:
            form, claims = super()._formed(declared=declared)
            held = _held(self.forward, self.mechanism)
            return (HoldingForm(**_parts(form), held=held) if held else form), claims
        form = BackwardForm(self.mechanism, Layout("", {}, {}), of=self.forward)
        return form, claims_of(self.adapter, self.mechanism, declared, form)

    def _called(self) -> Caller:
        forward = self.forward
        if forward.form.taken is None:
            backward = Backward(
                forward.mechanism.required,
                forward.claims.by_name,
                _zeros(forward.mechanism, self.mechanism),
                forward.interface.outputs,
            )
            self.interface = replace(self.interface, backward=backward)
        if forward.supervise is not None:
            return forward.supervise(forward.adapter, self.interface, self.claims)
        return DirectCaller(forward.adapter.function, forward.adapter.framework, self.interface)

    def call(self, call: Call) -> Reply:
        taken = self.forward.form.taken is not None  # whose form is asked whenever a call is made
        if self.forward.observed_layout and not self.observed_layout and not taken:
            self.read_as(self.forward.form.layout.name, observed=True)
        return super().call(call)

    def forward_fails(self, call: Call) -> bool:
        """Whether the function gives no result either where the gradients of a call are not asked for."""
        return self.forward_reply(call, call.inputs).fault is not None

    def forward_reply(self, call: Call, inputs: Mapping[str, NDArray[Any]]) -> Reply:
        """What the function itself returns on the inputs, for a call that asks for gradients."""
        known = {*self.forward.mechanism.required, *self.forward.mechanism.takes}
        passed = {name: x for name, x in inputs.items() if name in known}
        passed |= {name: passed[like] for name, like in _zeros(self.forward.mechanism, self.mechanism).items()}
        options = _options(self.forward, self.mechanism, call)
        return self.forward.call(replace(call, inputs=passed, options=options))

    def apart(self, calls: Sequence[Call], seconds: float, *, anew: bool = False) -> list[Reply]:
        raise ApartError("attnspec computes its gradients; the function itself is tested")


def _held(forward: AdapterSubject, gradient: Mechanism) -> dict[str, Any]:
    """The options that gradients lack and a function is passed in every call, as a dropout that it has by default."""
    m = forward.mechanism
    names = sorted(name for name in forward.claims.always if name in m.defaults and name not in gradient.takes)
    return {name: m.passed(name, m.defaults[name]) for name in names}


def _options(forward: AdapterSubject, gradient: Mechanism, call: Call) -> dict[str, Any]:
    """The options of a function in a call of its gradients: those of the call that it has, and those that are held."""
    return _held(forward, gradient) | {name: x for name, x in call.options.items() if name in forward.mechanism.takes}


def _parts(form: Form) -> dict[str, Any]:
    return {part.name: getattr(form, part.name) for part in fields(form)}


@dataclass(frozen=True)
class HoldingForm(Form):
    """The form of a function that is passed further options, which every call has alike."""

    held: Mapping[str, Any] = field(kw_only=True)

    @property
    def plain(self) -> bool:
        return False

    def arranged(self, call: Call) -> Call:
        return super().arranged(replace(call, options={**self.held, **call.options}))


@dataclass(frozen=True)
class BackwardForm(Form):
    """The form in which a function of a known interface is differentiated: inputs go in as it takes them itself."""

    of: AdapterSubject = field(kw_only=True)

    @property
    def plain(self) -> bool:
        return False

    @property
    def room(self) -> tuple[str, ...]:
        return tuple(text for text in self.of.form.room if _speaks(text, self.mechanism))

    @property
    def fixed(self) -> Mapping[str, Any]:
        return {name: x for name, x in self.of.form.fixed.items() if name in self.mechanism.options}

    @property
    def conditions(self) -> tuple[str, ...]:
        return tuple(text for text in self.of.form.conditions if _speaks(text, self.mechanism))

    def interface(self, by_name: frozenset[str]) -> Interface:
        own, leaves = self.of.form.interface(by_name), self._leaves()
        return Interface(
            self.mechanism.operator,
            (*own.required, COTANGENT),
            tuple(dict.fromkeys(leaves.values())),
            {**self.mechanism.dtypes, **own.dtypes},
            objects=own.objects,
            typed=own.typed,
            backward=Backward(own.required, frozenset(), {}, own.outputs, leaves),
        )

    def arranged(self, call: Call) -> Call:
        forward, layout = self.of.mechanism, self.of.form.layout
        made = self.of.form.arranged(self._forwarded(call))
        names = [*forward.outputs]
        own = {names[at]: name for name, at in cotangents_in(call.inputs, names).items()}
        arranged = layout.arranged({output: call.inputs[name] for output, name in own.items()})
        return replace(made, inputs={**made.inputs, **{name: arranged[output] for output, name in own.items()}})

    def _forwarded(self, call: Call) -> Call:
        """The call of the function itself whose gradients a call asks for."""
        forward = self.of.mechanism
        known = {*forward.required, *forward.takes}
        inputs = {name: x for name, x in call.inputs.items() if name in known}
        inputs |= {name: np.zeros_like(inputs[like]) for name, like in _zeros(forward, self.mechanism).items()}
        return replace(call, inputs=inputs, options=_options(self.of, self.mechanism, call))

    def restored(self, reply: Reply, call: Call) -> Reply:
        layout = self.of.form.layout
        own = {name.removeprefix("d_"): x for name, x in reply.outputs.items() if PART not in name}
        inputs = {name: call.inputs[name] for name in self.of.mechanism.shapes if name in call.inputs}
        try:
            found = layout.restored(own, layout.lengths(inputs))
            for name in (name for name in reply.outputs if PART in name):
                gradient, _, parameter = name.partition(PART)
                array = gradient.removeprefix("d_")
                found[array] = found.get(array, 0) + self._gathered(reply.outputs[name], array, parameter, call)
        except MisfitError as error:
            return replace(reply, outputs={}, fault=Fault("misshapen", str(error)))
        return replace(reply, outputs={f"d_{name}": x for name, x in found.items()})

    def _gathered(self, gradient: NDArray[Any], array: str, parameter: str, call: Call) -> NDArray[Any]:
        """The gradient of an array by that of a parameter which has some of its entries."""
        made = self._forwarded(call)

        def passed(x: NDArray[Any]) -> NDArray[Any]:
            return self.of.form.entries(parameter, replace(made, inputs={**made.inputs, array: x}))

        try:
            return gathered(gradient, call.inputs[array].shape, passed)
        except ValueError as error:
            raise MisfitError(f"the gradient of {parameter} {error}") from None

    def returned(self, outputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        own = self.of.form.layout.arranged({name.removeprefix("d_"): x for name, x in outputs.items()})
        return {f"d_{name}": x for name, x in own.items()}

    def _leaves(self) -> dict[str, str]:
        """The parameters that are arrays whose gradient is asked for, each with the name of that."""
        taken, outputs = self.of.form.taken, self.mechanism.outputs
        assert taken is not None
        found, stacks = dict[str, str](), self.of.form.layout.stacks
        for name, passed in taken.passed.items():
            array = taken.arrays.get(name) or passed.array
            if array and all(f"d_{part}" in outputs for part in stacks.get(array, (array,))):
                found[name] = f"d_{array}"
            elif (selected := selected_from(passed, self.of.mechanism.inputs)) and f"d_{selected}" in outputs:
                found[name] = f"d_{selected}{PART}{name}"
        return found


def further_outputs(forward: AdapterSubject, gradient: Mechanism) -> list[str]:
    """The outputs after the first that are returned as they are, and by which gradients are stated, too."""
    returned = [name for name in [*forward.mechanism.outputs][1:] if name not in forward.form.assembling]
    return [name for name in returned if f"d_{name}" in gradient.takes]


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
    name, form = f"{forward.operator}_gradient", forward.form
    made = forward.mechanism.outputs[0] in form.assembling
    if name not in known.stating or writes(forward) or made or (form.layout.stacks and not form.taken):
        return None
    found = known[name]
    others = forward.claims.fixed.keys() & {*forward.mechanism.options} - {*found.options}
    if any(forward.claims.fixed[each] != forward.mechanism.defaults.get(each) for each in others):
        return None  # they are those of another function
    fits = bool(form.taken) or not forward.adapter.layout or forward.adapter.layout in found.layouts
    return found if found.gradient_of == forward.operator and fits else None


def writes(subject: AdapterSubject) -> bool:
    """Whether a function writes to what it is passed, so that there is nothing to differentiate."""
    taken = subject.form.taken
    passed = taken.passed.values() if taken else ()
    return bool(subject.form.in_place) or any(one.how in ("out", "in_place", "room") for one in passed)


def _declared(forward: AdapterSubject, gradient: Mechanism, further: Sequence[str]) -> Adapter:
    """What a function declares, as far as its gradients are concerned."""
    adapter, kin = forward.adapter, gradient.kin
    sizes = {name for m in kin for name in m.sizes}
    names = sizes | {name for m in kin for name in m.options}
    taken = forward.form.taken
    written = as_operator(taken, forward.mechanism, adapter.name, adapter.module) if taken else adapter.function
    own = inspect.signature(written).parameters
    known = [own[name] for name in own if name in forward.claims.names & gradient.takes]
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, kinds[0]) for name in gradient.required]
    parameters += [inspect.Parameter(p.name, kinds[1], default=p.default) for p in known]
    parameters += [inspect.Parameter(f"d_{name}", kinds[1], default=None) for name in further]
    function = Elsewhere(adapter.name, adapter.module, inspect.Signature(parameters))
    return replace(
        adapter,
        operator=gradient.name,
        like="",
        layout="" if taken else adapter.layout,
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
    try:
        Expression(text, scope_of(gradient))
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
