"""A definition for chosen positions of some axes: which axes allow that, and the values and bounds there.

An axis may be restricted where no output is computed along it, which the texts of the lines say.
Sizes keep their values, inputs are gathered at the positions, and `range` of the size gives the positions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..language.axes import Axes
from ..language.expressions import Expression
from ..language.labels import Labels
from ..language.restricting import RestrictedExpression, held
from ..numerics.grades import Grade
from .definition import Frame, sizes_of
from .layouts import pattern, sizes_of_letters
from .mechanism import Mechanism

Positions = Mapping[str, NDArray[np.int64]]
_HIDES = re.compile(r"where\((\w+), \w+, -infinity\)")
_DIVIDES = re.compile(r"(\w+) % (\w+) == 0")


@dataclass(frozen=True)
class Restriction:
    """A mechanism whose definition is for chosen positions of some axes."""

    mechanism: Mechanism
    """It with lines that ask for positions."""
    axes: frozenset[str]
    sources: Mapping[str, str]
    """For an axis of copies, the one that they are copies of."""
    shapes: Mapping[str, frozenset[Labels]]
    """The sizes of the axes of inputs and outputs."""

    def closed(self, positions: Positions, sizes: Mapping[str, int]) -> dict[str, NDArray[np.int64]]:
        """Positions with those of the axes that copies are made of, in either order of copies."""
        found = {name: np.asarray(places, np.int64) for name, places in positions.items()}
        for name, source in self.sources.items():
            if name in found and source in self.axes and source not in found:
                times = max(sizes[name] // max(sizes[source], 1), 1)
                found[source] = np.unique(np.concatenate([found[name] // times, found[name] % max(sizes[source], 1)]))
        return found

    def gathered(self, name: str, x: Any, positions: Positions, sizes: Mapping[str, int]) -> Any:
        """An input at the positions; `SpecError` where it has another length along a restricted axis."""
        for axis, label in self.places(name, x):
            if x.shape[axis] == sizes[label]:
                x = np.take(x, positions[label], axis)
            elif x.shape[axis] != 1:
                raise SpecError(f"{name} has {x.shape[axis]} entries along {label} = {sizes[label]}")
        return x

    def places(self, name: str, x: Any) -> list[tuple[int, str]]:
        """The restricted axes of an input, each with its size."""
        shape = np.shape(x)
        known = self.shapes.get(name, frozenset())
        found = {s for s in known if len(s) == len(shape)}
        if shape and not found and any(label in self.axes for s in known for label in s):
            raise SpecError(f"the axes of {name} are not known")
        marked = {tuple((at, label) for at, label in enumerate(s) if label in self.axes) for s in found}
        if len(marked) > 1:
            raise SpecError(f"the axes of {name} are not known")
        return [*next(iter(marked), ())] if shape else []

    def frame(
        self,
        values: Mapping[str, Any],
        positions: Positions,
        *,
        grade: Grade | None = None,
        dtype: str = "float64",
        sizes: Mapping[str, int] | None = None,
    ) -> Frame:
        """The evaluation at those positions of every axis, given whole inputs; or gathered ones and all `sizes`."""
        known = {**self.mechanism.words, **self.mechanism.defaults, **values}
        if sizes is None:
            sizes = {**_integers(values, self.mechanism.sizes), **sizes_of(self.mechanism, known)}
            positions = self.closed(positions, sizes)
            drawn = {n: known.get(n) for n in (*self.mechanism.inputs, *self.mechanism.options)}
            arrays = {n: x for n, x in drawn.items() if x is not None and np.ndim(x)}
            values = {**values, **{n: self.gathered(n, x, positions, sizes) for n, x in arrays.items()}}
        frame = Frame(self.mechanism, values, grade=grade, dtype=dtype)
        frame.values.update(sizes)
        frame.values.update({held(name): np.asarray(places, np.int64) for name, places in positions.items()})
        return frame


def _integers(values: Mapping[str, Any], names: Collection[str]) -> dict[str, int]:
    return {name: values[name] for name in names if name in values}


class Restrictions(dict[tuple[str, str, frozenset[str], bool, frozenset[str]], "Restriction | str"]):
    """What is known of the restrictions of a library."""


def restricted(
    mechanism: Mechanism, axes: Collection[str], *, alone: bool = False, trimmed: Collection[str] = ()
) -> Restriction:
    """A mechanism for chosen positions of some axes, and of those that they are copies of, unless they are `alone`.

    `SpecError` says where an output is computed along one of them. What is computed along axes that are `trimmed` is
    computed of their positions alone: what the whole gives where the others count for nothing, as hidden keys do.
    """
    known = mechanism.kept(Restrictions)
    key = (mechanism.name, mechanism.digest, frozenset(axes), alone, frozenset(trimmed))
    if key not in known:
        try:
            if trimmed:
                known[key] = _planned(mechanism, frozenset({*axes, *trimmed}), trimmed)
            else:
                known[key] = (_planned if alone else _closed)(mechanism, frozenset(axes))
        except SpecError as error:
            known[key] = error.message
    found = known[key]
    if isinstance(found, str):
        raise SpecError(found)
    return found


def restrictable(mechanism: Mechanism) -> tuple[str, ...]:
    """The axes of outputs that may be restricted, in their order."""
    if mechanism.by_reference or mechanism.undetermined:
        return ()
    try:
        whole = _axes(mechanism, ())
        labels = [label for name in _determined(mechanism) for shape in whole.shapes(name) for label in shape]
    except SpecError:
        return ()
    found = []
    for label in dict.fromkeys(labels):
        try:
            if label in mechanism.sizes:
                restricted(mechanism, {label})
                found.append(label)
        except SpecError:
            continue
    return tuple(found)


def output_shape(mechanism: Mechanism, name: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of an output for these sizes, as far as its text says it; `SpecError` where it does not."""
    known = _axes(mechanism, ()).shapes(name)
    found = {shape for shape in known if all(n == "1" or n in sizes for n in shape)} or {labels_of(mechanism, name)}
    found = {shape for shape in found if all(n == "1" or n in sizes for n in shape)}
    longest = max(map(len, found), default=0)
    shapes = {tuple(sizes.get(label, 1) for label in shape) for shape in found if len(shape) == longest}
    if len(shapes) != 1:
        raise SpecError(f"the shape of {name} is not known")
    return shapes.pop()


class OutputLabels(dict[tuple[str, str, str], Labels]):
    """The sizes of the axes of the outputs of a library."""


def labels_of(mechanism: Mechanism, name: str) -> Labels:
    """The sizes of the axes of an output: as its text says, and where that is silent, as the first layout does."""
    known, key = mechanism.kept(OutputLabels), (mechanism.name, mechanism.digest, name)
    if key not in known:
        known[key] = _labels_of(mechanism, name)
    return known[key]


def _labels_of(mechanism: Mechanism, name: str) -> Labels:
    found = _axes(mechanism, ()).shapes(name)
    labels = max(found, key=lambda shape: (len(shape), sum(label not in ("", "1") for label in shape)))
    own: Mapping[str, str] = next(iter(mechanism.stating.layouts.values()), {})
    letters = pattern(own[name]).letters if name in own else ()
    if len(letters) != len(labels):
        return labels
    sizes = sizes_of_letters(own, mechanism.stating.shapes)
    return tuple(label or sizes.get(letter, "") for label, letter in zip(labels, letters, strict=True))


def _determined(mechanism: Mechanism) -> list[str]:
    return [name for name in mechanism.outputs if name not in mechanism.random]


def hiding(mechanism: Mechanism) -> tuple[str, str] | None:
    """The line that says what is hidden, and the size of the axis along which that counts for nothing; None without.

    It is a line that chooses minus infinity elsewhere, such as `where(allowed, biased, -infinity)`.
    """
    for line in () if mechanism.by_reference else mechanism.definition.values():
        found = _HIDES.fullmatch(line.text)
        if found is not None and found[1] in mechanism.definition:
            labels = max(_axes(mechanism, ()).shapes(found[1]), key=len)
            if labels and labels[-1] in mechanism.sizes:
                return found[1], labels[-1]
    return None


def _axes(mechanism: Mechanism, axes: Collection[str], trimmed: Collection[str] = ()) -> Axes:
    conditions = " ; ".join(condition.text for condition in mechanism.requires.values())
    words = {word for each in mechanism.conventions.values() for word in each} | set(mechanism.conventions)
    words |= {word for each in mechanism.vocabulary.values() for word in each}
    drawn = {**mechanism.inputs, **mechanism.options}
    return Axes(
        mechanism.definition,
        drawn,
        mechanism.optional,
        mechanism.sizes,
        axes,
        _DIVIDES.findall(conditions),
        words,
        frozenset(trimmed),
    )


def _closed(mechanism: Mechanism, axes: frozenset[str]) -> Restriction:
    found = _planned(mechanism, axes)
    more = axes | set(found.sources.values())
    if more == axes:
        return found
    try:
        return _planned(mechanism, more)
    except SpecError:
        return found


def _planned(mechanism: Mechanism, axes: frozenset[str], trimmed: Collection[str] = ()) -> Restriction:
    if mechanism.by_reference:
        raise SpecError(f"{mechanism.name} is defined by its reference")
    analysed = _axes(mechanism, axes, trimmed)
    shapes = {name: analysed.shapes(name) for name in _determined(mechanism)}
    shapes |= {name: analysed.shapes(name) for name in (*mechanism.inputs, *mechanism.options)}
    changes = [change for plan in analysed.plans.values() for change in plan.changes.values()]
    sources = {change.name: change.source for change in changes if change.how == "copied" and change.source}
    lines: dict[str, Expression] = {
        name: RestrictedExpression(line, analysed.plans[name])
        if name in analysed.plans and analysed.plans[name].changes
        else line
        for name, line in mechanism.definition.items()
    }
    return Restriction(replace(mechanism, definition=lines), axes, sources, shapes)
