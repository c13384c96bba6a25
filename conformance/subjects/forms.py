"""How a call of an operator becomes a call of a function with another interface, and how its results come back.

The judging process arranges NumPy arrays before they are sent, and restores those that come back, so that a worker
knows nothing of layouts and signatures: it makes arrays of what it is sent, passes them under the names that it is
told, and names the results. Whoever drives gradients through a function arranges inputs by `arranged`, and cotangents,
which are like outputs, by `layout.arranged`; gradients, which are like inputs, come back by `layout.restored`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError, UsageError, did_you_mean
from ..execution.calling import Call, Interface, Reply
from ..execution.faults import Fault
from ..language.expressions import Expression
from ..language.scopes import Values
from ..mechanisms.assembled import assembled, expression
from ..mechanisms.definition import Frame
from ..mechanisms.forward import computed, forward, results
from ..mechanisms.layouts import (
    NEW,
    Layout,
    MisfitError,
    axes_in_words,
    conditions,
    layout_of,
    numbers_of_axes,
    pattern,
    sizes_of_letters,
)
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.signatures import ENTRY_BYTES, SCRATCH, signature_named
from ..numerics import budget
from ..numerics.formats import FORMATS
from .passing import compiled, plain_value, said_of, used_by, worth
from .selections import selected_from
from .taken import Taken

SPREAD = re.compile(r"full\([^(),]+,([^()]*)\)")
"""The axes of an array that an expression makes of one value."""
ROOM = "uint8"
"""The dtype of an array that is room to work in."""
PACKED = "int32"
"""The dtype of parameters that hold several codes in one integer."""


@dataclass(frozen=True)
class Form:
    """The form in which a function takes the calls of an operator."""

    mechanism: Mechanism
    layout: Layout
    taken: Taken | None = None
    sizes: frozenset[str] = frozenset()
    """Parameters that are told a size of the call, as the number of heads where they are folded."""
    allocated: Mapping[str, str] = field(default_factory=dict)
    """Parameters that an output is written to, each with the output."""
    in_place: str = ""
    """The input that the call may change, and that is the first output afterwards if nothing is returned."""

    @property
    def plain(self) -> bool:
        """Whether calls are made as the operator has them."""
        return self.layout.canonical and not (self.sizes or self.allocated or self.taken)

    def with_dtype_of_call(self, parameters: Collection[str]) -> Form:
        """The form in which some parameters are passed in the dtype of a call, and not in one of their own."""
        if self.taken is None or not parameters:
            return self
        one = self.taken.signature
        kept = {name: dtype for name, dtype in one.dtypes.items() if name not in parameters}
        return replace(self, taken=replace(self.taken, signature=replace(one, dtypes=kept)))

    @property
    def required(self) -> tuple[str, ...]:
        """The arrays that every call has, in the layout."""
        return self.layout.names(self.mechanism.required)

    @property
    def fixed(self) -> Mapping[str, Any]:
        """The options that the interface has one value of."""
        texts = self.taken.signature.fixed if self.taken else {}
        return {name: plain_value(compiled(self.mechanism, text)(Values({}, ""))) for name, text in texts.items()}

    @property
    def conditions(self) -> tuple[str, ...]:
        """What has to hold of every call."""
        return (*self.room, *self.axes, *(self.taken.signature.requires if self.taken else ()))

    @property
    def axes(self) -> tuple[str, ...]:
        """What has to hold of the axes of inputs that have more in the layout than in the definition."""
        return numbers_of_axes(self.layout, self.mechanism.shapes)

    @property
    def room(self) -> tuple[str, ...]:
        """What has to hold of the sizes of a call so that its layout has room for it."""
        own = next(iter(self.mechanism.layouts.values()), {})
        return conditions(self.layout, sizes_of_letters(own, self.mechanism.shapes))

    @property
    def told(self) -> frozenset[str]:
        """The sizes that parameters are told, alone or in an expression of nothing but sizes."""
        passed = self.taken.passed.values() if self.taken else ()
        used = [used_by(how, self.mechanism) for how in passed if how.how == "array"]
        return self.sizes.union(*(names for names in used if names <= {*self.mechanism.sizes}))

    @property
    def spread(self) -> frozenset[str]:
        """The sizes that parameters are told, or along which expressions spread an array for them."""
        passed = self.taken.passed.values() if self.taken else ()
        texts = (axes for how in passed for text in how.texts for axes in SPREAD.findall(text))
        return self.told.union(*({*re.findall(r"[a-z_]\w*", text)} & {*self.mechanism.sizes} for text in texts))

    def interface(self, by_name: frozenset[str]) -> Interface:
        """What the caller of the function has to know; `by_name` is what it takes by name alone."""
        m, into = self.mechanism, dict(self.allocated)
        if self.in_place:
            into[self.in_place] = m.outputs[0]
        if self.taken is None:
            return Interface(m.operator, self.required, tuple(m.outputs), m.dtypes, by_name, into=into)
        one, passed = self.taken.signature, self.taken.passed
        arrays = {name: array for name, array in self.taken.arrays.items() if array == name or name not in m.outputs}
        dtypes = {name: one.dtypes.get(name, m.dtypes.get(array, "")) for name, array in arrays.items()}
        dtypes = {**m.dtypes, **one.dtypes, **{name: dtype for name, dtype in dtypes.items() if dtype}}
        rooms = [name for name, how in passed.items() if how.how == "room"]
        dtypes |= dict.fromkeys(rooms, ROOM)
        changed = {name: how.texts[1:] for name, how in passed.items() if how.how == "in_place"}
        named = [name for name in one.returns or m.outputs if name != "_"]
        into |= {n: said[0] if said else "".join(named[at : at + 1]) for at, (n, said) in enumerate(changed.items())}
        into |= dict.fromkeys([*rooms, *(n for n, said in changed.items() if said == (SCRATCH,))], "")
        outputs = tuple(name if name != "_" else f"_{number}" for number, name in enumerate(one.returns or m.outputs))
        dtypes |= dict.fromkeys({*outputs} - {*m.outputs, *one.dtypes}, "number")  # none of the operator's
        objects, typed = (frozenset(n for n, how in passed.items() if how.how == kind) for kind in ("object", "dtype"))
        both = (n for n in outputs if n in one.dtypes and n in m.dtypes and n in passed and passed[n].how == "array")
        returned = {name: m.dtypes[name] for name in both}
        leading = self.taken.leading
        return Interface(
            m.operator, leading, outputs, dtypes, into=into, objects=objects, typed=typed, returned=returned
        )

    def called(self, make: Callable[[Call], Reply], call: Call) -> Reply:
        """The reply to a call, which is made in this form; one that the form has no room for is not supported."""
        if self.plain:
            return make(call)
        try:
            arranged = self.arranged(call)
        except MisfitError as error:
            return Reply(fault=Fault("unsupported", str(error)))
        return self.restored(make(arranged), call)

    def arranged(self, call: Call) -> Call:
        """A call in this form; `MisfitError` where it has no room for it."""
        given, options = dict(call.inputs), dict(call.options)
        if self.taken is not None and (arrays := self.handed & {*self.taken.arrays.values()}):
            frame = self._forward(call)
            given |= {name: computed(frame, name) for name in arrays}
        inputs = self.layout.arranged(given)
        dtypes = {**call.dtypes, **self._of_parts(call.dtypes)}
        if self.taken is not None:
            dtypes |= {name: dtypes[array] for name, array in self.taken.arrays.items() if array in dtypes}
            inputs, options = self.translated(inputs, call)
        options |= {name: self.sizes_of(call)[name] for name in self.sizes}
        lengths = self.layout.lengths(call.inputs) if self.allocated else {}
        for parameter, output in self.allocated.items():
            shape = self._shape(output, call, lengths)
            inputs[parameter] = self.layout.arranged({output: np.full(shape, np.nan)})[output]
            dtypes |= {parameter: dtypes[output]} if output in dtypes else {}
        return replace(call, inputs=inputs, options=options, dtypes=dtypes)

    def _shape(self, output: str, call: Call, lengths: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of an output, by axes that inputs have, too; else that of its definition, or of the first input."""
        if output in self.layout.own:
            letters = pattern(self.layout.own[output]).letters
            if lengths.keys() >= {*letters}:  # an axis may be as long as an option says
                return tuple(lengths[letter] for letter in letters)
        given = {name: self.mechanism.meant(name, x) for name, x in {**self.fixed, **call.options}.items()}
        try:
            with np.errstate(all="ignore"), budget.metered():
                return np.shape(Frame(self.mechanism, {**given, **call.inputs})[output])
        except (SpecError, ValueError, IndexError):  # a call that is to be refused
            return call.inputs[self.mechanism.required[0]].shape

    def returned(self, outputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Outputs of the operator as the function returns them."""
        return self.layout.arranged(outputs)

    def kept_axes(self, reply: Reply) -> list[str]:
        """The outputs behind the first one that have a further axis of one entry, as `keepdim` leaves it."""
        texts = {name: self.layout.text(name) for name in self.mechanism.outputs[1:] if name in reply.outputs}
        axes = {name: len(pattern(text).axes) for name, text in texts.items() if text}
        return [
            n for n, count in axes.items() if reply.outputs[n].ndim == count + 1 and reply.outputs[n].shape[-1] == 1
        ]

    def _of_parts(self, dtypes: Mapping[str, str]) -> dict[str, str]:
        """The dtypes of arrays that are several in one; `MisfitError` where those are of several dtypes."""
        found = {}
        for whole, parts in self.layout.stacks.items():
            first, *others = (dtypes.get(part, "") for part in parts)
            if any(other != first for other in others):
                raise MisfitError(f"{whole} has one dtype, and its parts have several")
            if first:
                found[whole] = first
        return found

    def restored(self, reply: Reply, call: Call) -> Reply:
        """The reply to a call as the operator has it, given the call as the operator has it.

        What is passed in the place of an input that the call lacks may have a gradient, which is none of its outputs.
        """
        m, lacking = self.mechanism, self.mechanism.without_input(call.inputs)
        own = {name: x for name, x in reply.outputs.items() if name in m.outputs and name not in lacking}
        try:
            outputs = self.layout.restored(own, self.layout.lengths(call.inputs)) | self._assembled(reply, call)
        except (MisfitError, SpecError) as error:
            return replace(reply, outputs={}, fault=Fault("misshapen", str(error)))
        if reply.fault is None and self.assembling and self.mechanism.outputs[0] not in outputs:
            says = (
                f"returned {', '.join(reply.outputs)}, and not all that {self.mechanism.outputs[0]} is assembled from"
            )
            return replace(reply, outputs={}, fault=Fault("returned", says))
        return replace(reply, outputs=outputs)

    @functools.cached_property
    def assembling(self) -> dict[str, Expression]:
        """The outputs that are assembled from what the function returns."""
        if self.taken is None:
            return {}
        one = self.taken.signature
        return {name: expression(text, self.mechanism, one.returns) for name, text in one.outputs.items()}

    def _assembled(self, reply: Reply, call: Call) -> dict[str, NDArray[Any]]:
        return assembled(self.assembling, reply.outputs, self.known_of(call), call.dtype) if self.assembling else {}

    def known_of(self, call: Call) -> dict[str, Any]:
        """The sizes and the options of a call."""
        given = {name: self.mechanism.meant(name, x) for name, x in call.options.items()}
        return {**self.mechanism.defaults, **given, **self.sizes_of(call)}

    def in_words(self) -> str:
        """The axes of the first array that is not as in the definition, with those of an input before a result's."""
        m = self.mechanism
        sizes = sizes_of_letters(next(iter(m.layouts.values())), m.shapes)
        first = next((name for name in m.required if name in self.layout.patterns), m.required[0])
        whole = next((stack for stack, parts in self.layout.stacks.items() if first in parts), "")
        axes = axes_in_words(self.layout, first, {**sizes, "_": str(len(self.layout.stacks.get(whole, "_")))})
        if m.outputs[0] in self.layout.patterns and self.layout.patterns.keys().isdisjoint(m.inputs):
            return f"{axes} and returns {axes_in_words(self.layout, m.outputs[0], sizes)}"
        return axes if first == m.required[0] and not whole else f"{whole or first} as {axes}"

    def translated(self, arrays: Mapping[str, Any], call: Call) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the parameters of a known interface are passed: arrays, and all else."""
        assert self.taken is not None
        inputs, options = dict[str, Any](), dict[str, Any]()
        known = self._forward(call) if self.handed else self._values(call)
        for name, passed in self.taken.passed.items():
            if name in self.taken.arrays:
                if self.taken.arrays[name] in arrays:
                    inputs[name] = arrays[self.taken.arrays[name]]
                elif name in self.taken.wanting:
                    options[name] = None
                continue
            if passed.how == "out":
                continue
            if passed.how == "room":
                inputs[name] = np.zeros(int(passed.texts[0]))
                continue
            said = said_of(call, passed, self.mechanism)
            x = worth(passed, known, self.mechanism) if said is None else said
            if isinstance(x, np.ndarray):
                x = self._widened(x, name)
                own = self.taken.signature.dtypes.get(name)
                whole = x.astype(np.int64) if own == PACKED else x  # of which the first 32 bits are kept
                short = whole.dtype.kind == "i" and own != "integer"
                inputs[name] = whole.astype(np.int32) if short else x  # as kernels take lengths and places
            elif x is not None or name in self.taken.wanting or passed.how == "text":
                options[name] = x
        return inputs, options

    def entries(self, parameter: str, call: Call) -> NDArray[Any]:
        """What one parameter of a known interface is passed that has entries of an input."""
        assert self.taken is not None
        return self._widened(worth(self.taken.passed[parameter], self._values(call), self.mechanism), parameter)

    def _widened(self, x: NDArray[Any], parameter: str) -> NDArray[Any]:
        """Entries of an input with the axes of one entry that it has in the layout, which no interface says."""
        array = self._wide.get(parameter, "")
        letters = self.layout.patterns[array].letters if array else ()
        return self.layout.arranged({array: x})[array] if array and x.ndim == len({*letters} - {NEW}) else x

    @functools.cached_property
    def _wide(self) -> dict[str, str]:
        """The parameters that have entries of an input with axes of one entry in the layout, each with that input."""
        passed, layout = self.taken.passed if self.taken is not None else {}, self.layout
        wide = {name for name, each in layout.patterns.items() if NEW in each.letters} if not layout.stacks else ()
        found = {name: selected_from(each, layout.patterns) for name, each in passed.items()} if wide else {}
        return {name: array for name, array in found.items() if array in wide}

    def _values(self, call: Call) -> Values:
        m = self.mechanism
        given = {name: m.meant(name, x) for name, x in {**self.fixed, **call.options}.items()}
        own = {**dict.fromkeys(m.absent), **m.defaults, **given, **call.inputs, **self.sizes_of(call)}
        return Values({**own, ENTRY_BYTES: FORMATS[call.dtype].entry_bytes}, call.dtype)

    def _forward(self, call: Call) -> Frame:
        """The forward pass of a call; `MisfitError` where there is none, as for inputs that go not together."""
        assert self.taken is not None
        try:
            return forward(self.mechanism, self._values(call).values, self.taken.signature.conventions)
        except SpecError as error:
            raise MisfitError(str(error)) from None

    @property
    def handed(self) -> set[str]:
        """The results of the forward pass that parameters are passed, or are computed from."""
        known, taken = results(self.mechanism), self.taken
        passed = taken.passed.values() if taken and known else ()
        return {name for each in passed for name in used_by(each, self.mechanism)} & known

    def sizes_of(self, call: Call) -> dict[str, int]:
        m = self.mechanism
        found: dict[str, int] = {}
        for name, shape in m.shapes.items():
            axes = zip(reversed(shape), reversed(call.inputs[name].shape), strict=False)  # further ones stand in front
            found |= {size: n for size, n in axes if size}
        return found


def form_in(mechanism: Mechanism, layout: str, label: str, like: str = "") -> Form:
    """The form of a function that takes arrays in a layout, or as the operator has them if that is empty.

    With `like`, the layout is that of a known interface, unless one is given.
    A layout that the operator has not is a `UsageError` that begins with the label.
    """
    known = mechanism.layouts
    if layout and layout not in known:
        hint = did_you_mean(layout, known)
        listed = f" (its layouts: {', '.join(known)})" if known else "; it has one layout only"
        raise UsageError(f"{label}{mechanism.operator} has no layout {layout!r}{hint}{listed}")
    if like and not layout:
        return Form(mechanism, signature_named(like, label).layout_in(mechanism))
    if not known:
        return Form(mechanism, Layout("", {}, {}))
    return Form(mechanism, layout_of(known, layout or next(iter(known))))
