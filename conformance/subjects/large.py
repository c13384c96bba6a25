"""Large calls in the form that a function takes, and parts of its outputs in the operator's form.

Arrays that are drawn where they are used are rearranged there: only the order of their axes is said.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..execution.calling import Call, DirectCaller
from ..execution.faults import Fault
from ..execution.large import AGAIN, Held, LargeCall, extremes, held, part
from ..execution.supervised import SupervisedCaller
from ..mechanisms.layouts import NEW, MisfitError, Pattern, pattern
from ..numerics.drawn import Drawn
from .forms import Form
from .subject import AdapterSubject, Subject

Box = tuple[tuple[int, int], ...]
"""From where to where along each axis."""


class LargeSubject:
    """A subject that keeps what a large call gives."""

    def __init__(self, subject: AdapterSubject, room: int = 4 << 30) -> None:
        """`room` is how many bytes a call may take beside its arrays."""
        self.form, self.caller, self.room = subject.form, subject.caller, room
        self.shapes: Mapping[str, tuple[int, ...]] = {}
        self.names: tuple[str, ...] = ()
        """The arrays of the last call."""
        self.second = False
        """Whether parts are those of the call that was made once more."""

    def hold(
        self,
        call: Call,
        shapes: Mapping[str, tuple[int, ...]],
        around: Mapping[str, tuple[int, int]] | None = None,
        turns: int = 0,
        *,
        apart: int = 0,
        again: bool = True,
    ) -> Held:
        """Make a call, of which some inputs are `Drawn`; outputs of other shapes than these are a fault.

        It is made in so many `turns` beside other threads, if there are to be any.
        Masks lie over so many entries of memory as are `apart`, if there are any.
        With `again`, a short call is made once more.
        `around` says how many entries in front of and behind the arrays of `names` are NaN; all of them, if it is none.
        """
        try:
            arranged = in_form(self.form, call, shapes)
        except MisfitError as error:
            return Held(fault=Fault("unsupported", str(error)))
        self.names = tuple(arranged.names)
        arranged = replace(arranged, around=around or {}, room=self.room, turns=turns, apart=apart, again=again)
        self.second = False
        caller = self.caller
        if isinstance(caller, DirectCaller):
            found = held(caller, arranged)
        elif isinstance(caller, SupervisedCaller):
            found = caller.hold(arranged)
        else:
            found = Held(fault=Fault("unsupported", "it keeps no outputs"))
        self.shapes = {name: shape for name, shape in shapes.items() if name in found.shapes}
        for name, shape in self.shapes.items():
            expected = _folded(shape, *_patterns(self.form, name, len(shape)))
            if found.shapes[name] != expected:
                says = f"{name} has the shape {list(found.shapes[name])}, not {list(expected)}"
                return replace(found, fault=Fault("misshapen", says))
        return found

    def part(self, name: str, box: Box) -> NDArray[Any]:
        """A part of an output, as the operator has it; only whole axes that are folded into others may be asked for."""
        own, form = _patterns(self.form, name, len(box))
        kept = own.letters
        ends = {NEW: (0, 1), **dict(zip(kept, box, strict=True))}
        lengths = {NEW: 1, **dict(zip(kept, self.shapes[name], strict=True))}
        asked = tuple(
            _stretch([ends[letter] for letter in axis], [lengths[letter] for letter in axis]) for axis in form.axes
        )
        caller, kept_as = self.caller, self._kept_as(name)
        direct = isinstance(caller, DirectCaller)
        found = part(caller, kept_as, asked) if direct else _supervised(caller).part(kept_as, asked)
        letters = [letter for letter in form.letters if letter in kept]
        wide = found.reshape([ends[letter][1] - ends[letter][0] for letter in letters])
        return wide.transpose([letters.index(letter) for letter in kept])

    def extremes(self, name: str) -> list[tuple[int, ...]]:
        """The places of the least and of the greatest entry of an output, in the axes that the operator has."""
        caller, kept_as = self.caller, self._kept_as(name)
        direct = isinstance(caller, DirectCaller)
        found = extremes(caller, kept_as) if direct else _supervised(caller).extremes(kept_as)
        own, form = _patterns(self.form, name, len(self.shapes[name]))
        lengths = {NEW: 1, **dict(zip(own.letters, self.shapes[name], strict=True))}
        at = np.unravel_index(found, [lengths[letter] for letter in form.letters])
        return [*zip(*(at[form.letters.index(letter)].tolist() for letter in own.letters), strict=True)]

    def _kept_as(self, name: str) -> str:
        return f"{name}{AGAIN}" if self.second else name

    def release(self) -> None:
        """Let go of everything."""
        if isinstance(self.caller, DirectCaller):
            self.caller.rest()
        else:
            _supervised(self.caller).renew()


def large_subject(subject: Subject, room: int = 4 << 30) -> LargeSubject | None:
    """A subject as one that takes large calls, with so many bytes of room, if it can be."""
    return LargeSubject(subject, room) if isinstance(subject, AdapterSubject) else None


def in_form(form: Form, call: Call, shapes: Mapping[str, tuple[int, ...]]) -> LargeCall:
    """A call in a form; `MisfitError` where the form has no room for it."""
    if call.dtypes:
        raise MisfitError("inputs of dtypes of their own are not tried at these sizes")
    if form.assembling:
        raise MisfitError("outputs that are assembled from several are not tried at these sizes")
    if form.handed:
        raise MisfitError("results of a forward pass are not handed over at these sizes")
    if form.layout.stacks:
        raise MisfitError(f"the layout {form.layout.name} holds several arrays in one")
    inputs: dict[str, Any] = {}
    for name, x in call.inputs.items():
        inputs[name] = _moved(form, name, x) if isinstance(x, Drawn) else form.layout.arranged({name: x})[name]
    options = dict(call.options)
    if form.taken is not None:
        inputs, options = form.translated(inputs, call)
    options |= {name: form.sizes_of(call)[name] for name in form.sizes}
    for parameter, output in form.allocated.items():
        own, other = _patterns(form, output, len(shapes[output]))
        inputs[parameter] = Drawn("", shapes[output], _order(own, other), _folded(shapes[output], own, other))
    drawn = {name: x for name, x in inputs.items() if isinstance(x, Drawn)}
    plain = {name: np.asarray(x) for name, x in inputs.items() if name not in drawn}
    return LargeCall(tuple(inputs), drawn, plain, options, call.dtype, call.device)


def _supervised(caller: Any) -> SupervisedCaller:
    assert isinstance(caller, SupervisedCaller)
    return caller


def _moved(form: Form, name: str, x: Drawn) -> Drawn:
    own, other = _patterns(form, name, x.ndim)
    return x if own == other else replace(x, order=_order(own, other), folded=_folded(x.shape, own, other))


def _patterns(form: Form, name: str, ndim: int) -> tuple[Pattern, Pattern]:
    """The pattern of an array as the operator has it, and as the function does."""
    layout = form.layout
    own = pattern(layout.own[name]) if name in layout.own else Pattern(tuple((str(n),) for n in range(ndim)))
    other = layout.patterns.get(name, own)
    alone = all(name not in parts for parts in layout.stacks.values())
    letters = set(other.letters) - ({NEW} if alone else set())  # an array alone along that axis is there once
    if set(own.letters) != letters or len(own.letters) != ndim:
        raise MisfitError(f"the layout {layout.name} has no room for {name}")
    return own, other


def _order(own: Pattern, other: Pattern) -> tuple[int, ...]:
    return tuple(own.letters.index(letter) for letter in other.letters if letter in own.letters)


def _folded(shape: tuple[int, ...], own: Pattern, other: Pattern) -> tuple[int, ...]:
    lengths = {NEW: 1, **dict(zip(own.letters, shape, strict=True))}
    return tuple(math.prod(lengths[letter] for letter in axis) for axis in other.axes)


def _stretch(ends: list[tuple[int, int]], lengths: list[int]) -> tuple[int, int]:
    """The stretch of a folded axis that holds stretches of its parts, of which all but the first are whole."""
    inner = math.prod(lengths[1:])
    if any(end != (0, n) for end, n in zip(ends[1:], lengths[1:], strict=True)):
        raise MisfitError("a part of an axis that is folded into another one")
    return ends[0][0] * inner, ends[0][1] * inner
