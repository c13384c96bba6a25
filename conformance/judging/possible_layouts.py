"""The layouts that a function may read, by the arrays and sizes that it is passed, before any call is looked at."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..cases.samples import Sample
from ..mechanisms.layouts import NEW, Layout, conditions, layout_of, pattern, sizes_of_letters
from ..mechanisms.mechanism import Mechanism
from ..subjects.forms import Form
from ..subjects.ties import single_sizes


def candidates(operator: Mechanism, form: Form | None = None) -> list[str]:
    """The layouts in which the same arrays are passed as by a form, each with all of its axes; results may be folded.

    Several arrays in one may have folded axes of which a function is told the lengths but for one.
    """
    found, letters = [layout_of(operator.layouts, name) for name in operator.layouts], sizes_by_letter(operator)
    if form is not None and form.layout.stacks:
        told = form.told | following(operator, form.told).keys()
        alike = [x for x in found if x.stacks == form.layout.stacks and not single_sizes(conditions(x, letters))]
        return [x.name for x in alike if all(told & {letters[y] for y in fold} for fold in _folds(x, operator))]
    return [x.name for x in found if not x.stacks and not _folds(x, operator) and not conditions(x, letters)]


def narrow(operator: Mechanism, form: Form) -> dict[str, list[str]]:
    """The layouts of the same arrays without an axis, or with folded ones of a told length; the sizes that are one.

    A size that parameters are told, or along which an array is spread for them, is none of these.
    """
    found, letters = [layout_of(operator.layouts, name) for name in operator.layouts], sizes_by_letter(operator)
    told = form.told | following(operator, form.told).keys()
    alike = (x for x in found if x.stacks == form.layout.stacks)
    known = [x for x in alike if all(told & {letters[y] for y in fold} for fold in _folds(x, operator))]
    single = {x.name: single_sizes(conditions(x, letters)) for x in known}
    fits = (x.name for x in known if (single[x.name] or _folds(x, operator)) and form.spread.isdisjoint(single[x.name]))
    return {name: single[name] for name in fits}


def tells_apart(operator: Mechanism, sample: Sample, form: Form) -> bool:
    """Whether no two layouts have arrays of the same shapes, but for those that differ in outputs or in folded axes."""
    shapes, known = set[Any](), [layout_of(operator.layouts, name) for name in candidates(operator, form)]
    for layout in known:
        arrays = layout.arranged({n: sample.values[n] for n in operator.required})
        shapes.add(tuple(x.shape for x in arrays.values()))
    return len(shapes) == len({tuple(_axes(layout, name) for name in operator.required) for layout in known})


def differing_later(operator: Mechanism, name: str) -> list[str]:
    """The layouts that differ from one in outputs behind the first one alone."""
    first, own = [*operator.required, operator.outputs[0]], layout_of(operator.layouts, name)
    others = (layout_of(operator.layouts, other) for other in operator.layouts if other != name)
    return [x.name for x in others if x.stacks == own.stacks and all(x.text(n) == own.text(n) for n in first)]


def of_same_inputs(operator: Mechanism, name: str) -> list[str]:
    """The layouts that differ from one in outputs alone."""
    own = layout_of(operator.layouts, name)
    others = (layout_of(operator.layouts, other) for other in operator.layouts if other != name)
    return [x.name for x in others if x.stacks == own.stacks and all(x.text(n) == own.text(n) for n in operator.inputs)]


def of_other_places(operator: Mechanism, name: str) -> list[str]:
    """The layouts that differ from one in the places of rows alone, which are where that has axes of one entry."""
    own, others = layout_of(operator.layouts, name), (layout_of(operator.layouts, other) for other in operator.layouts)
    plain = [x for x in others if x.name != name and not (x.stacks or own.stacks)]
    return [x.name for x in plain if all(_moved(x, own, n) for n in operator.layouts[name])]


def _moved(one: Layout, other: Layout, name: str) -> bool:
    """Whether the axes of an array are the same, or one entry long in either of two layouts."""
    axes, others = pattern(one.text(name)).axes, pattern(other.text(name)).axes
    return len(axes) == len(others) and all(a == b or (NEW,) in (a, b) for a, b in zip(axes, others, strict=True))


def _axes(layout: Layout, name: str) -> tuple[frozenset[str], ...]:
    """The letters of each axis of an array, in no order where they are several."""
    return tuple(frozenset(axis) for axis in pattern(layout.text(name)).axes)


def one_length(operator: Mechanism, sample: Sample) -> dict[str, int]:
    """One length and one width, as some functions need it."""
    first, *others = (operator.shapes[name] for name in operator.required)
    pairs = {b: a for other in others if len(other) == len(first) for a, b in zip(first, other, strict=True) if a != b}
    return {b: sample.values[a] for b, a in pairs.items() if a and b and operator.sizes[b].draws}


def following(operator: Mechanism, told: Collection[str]) -> dict[str, tuple[str, str]]:
    """The sizes that a function knows too if they equal one that it is told, each with the pair that is equal."""
    pairs = ((a, b) for a, size in operator.sizes.items() for b in sorted(size.uses & {*operator.sizes}))
    ends = ((new, (a, b)) for a, b in pairs for new, old in ((a, b), (b, a)) if old in told and new not in told)
    return dict(ends)


def needed_ties(operator: Mechanism, layout: str, told: Collection[str]) -> dict[str, str]:
    """The sizes that are to equal others in a layout with folded axes, of which a function is told some lengths."""
    known, names = following(operator, told), sizes_by_letter(operator)
    folds = [{names[letter] for letter in fold} for fold in layout_of(operator.layouts, layout).folded]
    return dict(known[name] for fold in folds if not fold & {*told} for name in sorted(fold & known.keys()))


def _folds(layout: Layout, operator: Mechanism) -> list[list[str]]:
    """The letters of each axis of inputs that is several in one."""
    axes = (axis for name in operator.required if name in layout.patterns for axis in layout.patterns[name].axes)
    return [letters for axis in axes if len(letters := [x for x in axis if x != NEW]) > 1]


def sizes_by_letter(operator: Mechanism) -> dict[str, str]:
    """The size that each letter of a layout represents."""
    return sizes_of_letters(next(iter(operator.layouts.values()), {}), operator.shapes)
