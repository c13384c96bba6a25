"""How a call of an operator becomes one of a function that takes it in another form, and its results come back.

The judging process arranges NumPy arrays before they are sent, and restores those that come back, so that a worker
knows nothing of layouts: it makes arrays of what it is sent, passes them under the names that it is told, and names the
results. Whoever drives gradients through a function arranges inputs by `arranged`, and cotangents, which are like
outputs, by `layout.arranged`; gradients, which are like inputs, come back by `layout.restored`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ..errors import UsageError, did_you_mean
from ..execution.calling import Call, Fault, Interface, Reply
from ..mechanisms.layouts import Layout, MisfitError, axes_in_words, conditions, layout_of, sizes_of_letters
from ..mechanisms.mechanism import Mechanism


@dataclass(frozen=True)
class Form:
    """The form in which a function takes the calls of an operator."""

    mechanism: Mechanism
    layout: Layout
    sizes: Mapping[str, str] = field(default_factory=dict)
    """Parameters that are told a size of the call, as the number of heads where they are folded; by their names."""

    @property
    def plain(self) -> bool:
        """Whether calls are made as the operator has them."""
        return self.layout.canonical and not self.sizes

    @property
    def required(self) -> tuple[str, ...]:
        """What is passed by position."""
        return self.layout.names(self.mechanism.required)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What has to hold of a call so that there is room for it."""
        own = next(iter(self.mechanism.layouts.values()), {})
        return conditions(self.layout, sizes_of_letters(own, self.mechanism.shapes))

    def interface(self, by_name: frozenset[str]) -> Interface:
        """What the caller of the function has to know; `by_name` is what it takes by name alone."""
        m = self.mechanism
        return Interface(m.operator, self.required, tuple(m.outputs), m.dtypes, by_name)

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
        inputs = self.layout.arranged(call.inputs)
        return replace(call, inputs=inputs, options={**call.options, **self._told(call)})

    def restored(self, reply: Reply, call: Call) -> Reply:
        """The reply to a call as the operator has it, given the call as the operator has it."""
        try:
            outputs = self.layout.restored(reply.outputs, self.layout.lengths(call.inputs))
        except MisfitError as error:
            return replace(reply, outputs={}, fault=Fault("misshapen", str(error)))
        return replace(reply, outputs=outputs)

    def in_words(self) -> str:
        """The axes of the first array that is not as in the definition, such as `[batch, length, heads, dim]`."""
        m = self.mechanism
        sizes = sizes_of_letters(next(iter(m.layouts.values())), m.shapes)
        first = next((name for name in m.required if name in self.layout.patterns), m.required[0])
        whole = next((stack for stack, parts in self.layout.stacks.items() if first in parts), "")
        axes = axes_in_words(self.layout, first, {**sizes, "_": str(len(self.layout.stacks.get(whole, "")))})
        return axes if first == m.required[0] and not whole else f"{whole or first} as {axes}"

    def _told(self, call: Call) -> dict[str, int]:
        if not self.sizes:
            return {}
        m = self.mechanism
        found: dict[str, int] = {}
        for name, shape in m.shapes.items():
            found |= {size: n for size, n in zip(shape, call.inputs[name].shape, strict=False) if size}
        return {parameter: found[size] for parameter, size in self.sizes.items()}


def form_in(mechanism: Mechanism, layout: str, label: str) -> Form:
    """The form of a function that takes arrays in a layout, or as the operator has them if that is empty.

    A layout that the operator has not is a `UsageError` that begins with the label.
    """
    known = mechanism.layouts
    if layout and layout not in known:
        hint = did_you_mean(layout, known)
        listed = f" (its layouts: {', '.join(known)})" if known else "; it has one layout only"
        raise UsageError(f"{label}{mechanism.operator} has no layout {layout!r}{hint}{listed}")
    if not known:
        return Form(mechanism, Layout("", {}, {}))
    return Form(mechanism, layout_of(known, layout or next(iter(known))))
