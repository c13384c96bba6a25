"""The layouts of an operator: the order of axes, folded axes, and arrays that are packed into one.

A layout is text by array: letters for axes, letters in parentheses for axes that are folded into one, and `_` for the
axis along which several arrays lie that are passed as one, or for axes of one entry. The first layout of an operator is
the definition's own.
Everything here is a pure function on NumPy arrays. `arranged` and `restored` are each other's inverse on inputs and on
outputs alike, so that whoever drives gradients arranges cotangents as outputs, and restores gradients as inputs.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]
NEW = "_"
"""The axis along which several arrays lie that are passed as one."""
_GROUP = re.compile(r"\(([a-z_](?: [a-z_])*)\)|([a-z_])")
_STACK = re.compile(r"[a-z][a-z0-9_]*(?: \+ [a-z][a-z0-9_]*)+")


class MisfitError(ValueError):
    """Arrays that a layout cannot hold."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """The axes of one array, each one letter or several that are folded."""

    axes: tuple[tuple[str, ...], ...]

    @property
    def letters(self) -> tuple[str, ...]:
        return tuple(letter for axis in self.axes for letter in axis)

    @property
    def folded(self) -> frozenset[str]:
        """The letters that share an axis."""
        return frozenset(letter for axis in self.axes if len(axis) > 1 for letter in axis)


@functools.cache
def pattern(text: str) -> Pattern:
    """The pattern that is written as `b s (h d)`; `ValueError` for a text that is none."""
    found, rest = [], text
    while rest:
        match = _GROUP.match(rest)
        if match is None or (match.end() < len(rest) and rest[match.end()] != " "):
            raise ValueError(f"{text!r} is not a layout: expected letters of axes, as in 'b s (h d)'")
        found.append(tuple((match[1] or match[2]).split(" ")))
        rest = rest[match.end() + 1 :]
    made = Pattern(tuple(found))
    letters = [letter for letter in made.letters if letter != NEW]
    if len({*letters}) < len(letters):
        raise ValueError(f"{text!r} has an axis twice")
    return made


def is_stack(text: str) -> bool:
    """Whether a text names arrays that are passed as one, as in `q + k + v`."""
    return _STACK.fullmatch(text) is not None


@dataclass(frozen=True)
class Layout:
    """One layout beside the canonical one."""

    name: str
    own: Mapping[str, str]
    """The canonical pattern of each array."""
    given: Mapping[str, str]
    """The patterns in which this layout differs, and of what is passed as one, the names of its parts."""

    @functools.cached_property
    def stacks(self) -> dict[str, tuple[str, ...]]:
        """The arrays that hold several."""
        return {name: tuple(text.split(" + ")) for name, text in self.given.items() if is_stack(text)}

    @functools.cached_property
    def patterns(self) -> dict[str, Pattern]:
        """The patterns of the arrays that are not passed as they are."""
        texts = {n: t for n, t in self.given.items() if n not in self.stacks}
        return {name: pattern(text) for name, text in texts.items() if text != self.own.get(name)}

    @property
    def canonical(self) -> bool:
        return not self.patterns and not self.stacks

    @property
    def folds(self) -> bool:
        """Whether axes are folded, so that a function has to be told their lengths."""
        return bool(self.folded)

    @property
    def folded(self) -> set[tuple[str, ...]]:
        """The letters of each axis that is several in one."""
        axes = (tuple(x for x in axis if x != NEW) for p in self.patterns.values() for axis in p.axes)
        return {axis for axis in axes if len(axis) > 1}

    def text(self, name: str) -> str:
        """The pattern of an array."""
        return self.given.get(name, self.own.get(name, ""))

    def names(self, required: tuple[str, ...]) -> tuple[str, ...]:
        """What is passed by position for the required inputs: an array that holds several stands for the first."""
        inside = {part: name for name, parts in self.stacks.items() for part in parts}
        return tuple(dict.fromkeys(inside.get(name, name) for name in required))

    def lengths(self, arrays: Arrays) -> dict[str, int]:
        """The length of each axis, of arrays in canonical layout."""
        found: dict[str, int] = {}
        for name, x in arrays.items():
            letters = pattern(self.own[name]).letters if name in self.own else ()
            if len(letters) == x.ndim:
                found = {**dict(zip(letters, x.shape, strict=True)), **found}
        return found

    def arranged(self, arrays: Arrays) -> dict[str, NDArray[Any]]:
        """Arrays of the operator, inputs or outputs, as they are in this layout; `MisfitError` where it has no room."""
        spread = {name: self._spread(name, x) for name, x in arrays.items()}
        found: dict[str, NDArray[Any]] = {}
        for name, (x, form) in spread.items():
            whole = next((stack for stack, parts in self.stacks.items() if name in parts), None)
            if whole is None:
                found[name] = _folded(x, form)
            elif whole not in found:
                parts = [spread[part][0] for part in self.stacks[whole] if part in spread]
                try:
                    together = np.concatenate(parts, form.letters.index(NEW))
                except ValueError:
                    shapes = ", ".join(str(list(part.shape)) for part in parts)
                    raise MisfitError(
                        f"{' and '.join(self.stacks[whole])} do not fit into one array: {shapes}"
                    ) from None
                found[whole] = _folded(together, form)
        return found

    def restored(self, arrays: Arrays, lengths: Mapping[str, int]) -> dict[str, NDArray[Any]]:
        """Arrays in this layout as the operator has them; `lengths` are those of the axes, as `lengths` finds them.

        `MisfitError` for one that has other axes.
        """
        found: dict[str, NDArray[Any]] = {}
        for name, x in arrays.items():
            if name not in self.stacks:
                found[name] = self._gathered(name, x, lengths)
                continue
            parts = self.stacks[name]
            form = self.patterns[parts[0]]
            axis = form.letters.index(NEW)
            wide = _unfolded(name, x, form, {**lengths, NEW: len(parts)})
            for at, part in enumerate(parts):
                found[part] = self._gathered(part, _folded(wide.take([at], axis), form), {**lengths, NEW: 1})
        return found

    def _spread(self, name: str, x: NDArray[Any]) -> tuple[NDArray[Any], Pattern]:
        """An array with its axes in order and none folded, and its pattern."""
        own = pattern(self.own[name]) if name in self.own else Pattern(())
        form = self.patterns.get(name)
        if form is None or x.ndim != len(own.letters):
            return x, own if len(own.axes) == x.ndim else Pattern(tuple((str(n),) for n in range(x.ndim)))
        absent = [axis for axis, letter in enumerate(own.letters) if letter not in form.letters]
        if any(x.shape[axis] != 1 for axis in absent):
            axis = next(axis for axis in absent if x.shape[axis] != 1)
            raise MisfitError(f"the layout {self.name} has no room for {name} {list(x.shape)} with an axis {axis}")
        kept = [letter for letter in own.letters if letter in form.letters]
        x = np.squeeze(x, tuple(absent)).transpose([kept.index(letter) for letter in form.letters if letter in kept])
        for axis, letter in enumerate(form.letters):
            x = x if letter in kept else np.expand_dims(x, axis)
        return x, form

    def _is_arranged(self, form: Pattern, axes: int, lengths: Mapping[str, int]) -> bool:
        """Whether an array of unknown lengths is in this layout, as another one is of which all are known."""
        known = (lengths.keys() >= {*pattern(self.own[name]).letters} for name in self.patterns)
        return not form.folded and axes == len(form.axes) and any(known)

    def _gathered(self, name: str, x: NDArray[Any], lengths: Mapping[str, int]) -> NDArray[Any]:
        """The inverse of `_spread` and folding; single numbers and arrays that nothing is known of are as they were."""
        form = self.patterns.get(name)
        own = pattern(self.own[name]).letters if form is not None else ()
        if form is None or x.ndim == 0 or not (lengths.keys() & {*own} or self._is_arranged(form, x.ndim, lengths)):
            return x
        wide = _unfolded(name, x, form, {NEW: 1, **lengths})
        extra = tuple(axis for axis, letter in enumerate(form.letters) if letter not in own)
        if any(wide.shape[axis] != 1 for axis in extra):
            raise MisfitError(f"{name} has the shape {list(x.shape)}, which is none of {self.text(name)!r}")
        wide = np.squeeze(wide, extra)
        left = [letter for letter in form.letters if letter in own]
        wide = wide.transpose([left.index(letter) for letter in own if letter in left])
        return np.expand_dims(wide, tuple(axis for axis, letter in enumerate(own) if letter not in left))


def _folded(x: NDArray[Any], form: Pattern) -> NDArray[Any]:
    """An array with one axis a letter as its pattern has it, contiguous."""
    shape, at = [], 0
    for axis in form.axes:
        shape.append(math.prod(x.shape[at : at + len(axis)]))
        at += len(axis)
    return np.ascontiguousarray(x).reshape(shape)


def _unfolded(name: str, x: NDArray[Any], form: Pattern, lengths: Mapping[str, int]) -> NDArray[Any]:
    """An array with one axis a letter; only folded ones need their lengths."""
    if x.ndim != len(form.axes):
        raise MisfitError(
            f"{name} has the shape {list(x.shape)}, which does not have the {len(form.axes)} axes of its layout"
        )
    shape: list[int] = []
    for axis, length in zip(form.axes, x.shape, strict=True):
        shape += [length] if len(axis) == 1 else [lengths.get(letter, 1) for letter in axis]
    if math.prod(shape) != x.size:
        expected = [math.prod(lengths.get(letter, 1) for letter in axis) for axis in form.axes]
        raise MisfitError(f"{name} has the shape {list(x.shape)}, not {expected}")
    return x.reshape(shape)


def stacks_of(layouts: Mapping[str, Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    """The arrays of all layouts that hold several, each with these."""
    texts = {name: text for layout in layouts.values() for name, text in layout.items() if is_stack(text)}
    return {name: tuple(text.split(" + ")) for name, text in texts.items()}


def layout_of(layouts: Mapping[str, Mapping[str, str]], name: str) -> Layout:
    """One of the layouts of an operator, the first of which is its own."""
    return Layout(name, next(iter(layouts.values())), layouts[name])


def axes_in_words(layout: Layout, name: str, sizes: Mapping[str, str]) -> str:
    """The axes of an array, as in `[batch, length, heads, dim]`; `sizes` has the size of each letter."""
    texts = [
        " * ".join(_plain(sizes.get(letter, letter)) for letter in axis) for axis in pattern(layout.text(name)).axes
    ]
    return f"[{', '.join(texts)}]"


def _plain(size: str) -> str:
    """A size as people say it of one array."""
    return re.sub(r"^(q|k|kv|head|value)_", "", size).replace("len", "length") if size != "length" else size


def sizes_of_letters(own: Mapping[str, str], shapes: Mapping[str, tuple[str | None, ...]]) -> dict[str, str]:
    """The size that each letter represents, from the shapes of the required inputs."""
    found: dict[str, str] = {}
    for name, shape in shapes.items():
        letters = pattern(own[name]).letters if name in own else ()
        if len(letters) == len(shape):
            found |= {letter: size for letter, size in zip(letters, shape, strict=True) if size and letter not in found}
    return found


def conditions(layout: Layout, sizes: Mapping[str, str]) -> tuple[str, ...]:
    """What has to hold of the sizes of a call so that a layout has room for it, as expressions."""
    found: dict[str, None] = {}
    for name, form in layout.patterns.items():
        absent = [letter for letter in pattern(layout.own[name]).letters if letter not in form.letters]
        found |= {f"{sizes[letter]} == 1": None for letter in absent if letter in sizes}
    for parts in layout.stacks.values():
        first, *others = (layout.patterns[part].letters for part in parts)
        for other in others:
            pairs = ((a, b) for a, b in zip(first, other, strict=False) if a != b and a in sizes and b in sizes)
            found |= {f"{sizes[a]} == {sizes[b]}": None for a, b in pairs}
    return tuple(found)


def numbers_of_axes(layout: Layout, shapes: Mapping[str, tuple[str | None, ...]]) -> tuple[str, ...]:
    """What has to hold of the axes of required inputs that have more in a layout than in the first, as expressions.

    They are to have as many as in the first layout; one that is a single number in some calls may have any.
    """
    found, packed = list[str](), {part for parts in layout.stacks.values() for part in parts}
    for name, form in layout.patterns.items():
        own = len(pattern(layout.own[name]).axes)
        if NEW in form.letters and name not in packed and len(shapes.get(name, ())) == own:
            found.append(f"ndim({name}) == {own}")
    return tuple(found)


def faults(layouts: Mapping[str, Mapping[str, str]], known: set[str]) -> Iterator[tuple[str, str, str]]:
    """What is wrong with the layouts of an operator that has these arrays: the layout, the array, and a sentence."""
    if not layouts:
        return
    canonical, own = next(iter(layouts.items()))
    for name, text in own.items():
        if is_stack(text) or (found := _fault(text)) or pattern(text).folded or NEW in pattern(text).letters:
            yield canonical, name, (not is_stack(text) and _fault(text)) or "the first layout has axes of one letter"
            return
    for layout, given in layouts.items():
        for name, text in given.items():
            if is_stack(text):
                parts = text.split(" + ")
                lacking = [part for part in parts if re.findall("[a-z_]", given.get(part, "")).count(NEW) != 1]
                if name in known:
                    yield layout, name, f"{name!r} is an array of the operator already"
                elif lacking:
                    yield layout, name, f"{lacking[0]!r} has not one axis {NEW!r} along which it lies"
            elif name not in known:
                yield layout, name, f"no input or output is called {name!r}"
            elif name not in own:
                yield layout, name, f"the first layout says nothing of {name!r}"
            elif found := _fault(text):
                yield layout, name, found
            elif strange := [x for x in pattern(text).letters if x not in (*pattern(own[name]).letters, NEW)]:
                yield layout, name, f"{name!r} has no axis {strange[0]!r}; it has {own[name]!r}"


def _fault(text: str) -> str:
    try:
        pattern(text)
    except ValueError as error:
        return str(error)
    return ""
