"""Calls of known interfaces in terms of their operators: from arguments back to inputs and options.

A signature says what a parameter is passed in terms of an operator. Here sizes follow from shapes, and options are
those for which the expression of a parameter gives what was passed.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..data.texts import told
from ..errors import SpecError
from ..language.expressions import Expression
from ..language.scopes import Values
from ..numerics import budget
from ..numerics.formats import FORMATS
from .layouts import pattern, sizes_of_letters
from .library import Library
from .mechanism import Mechanism
from .signatures import Passed, Signature, beside, scope_of_parameters, signatures
from .workloads import Left, Use

TRIED = 2000
"""Ways to choose options that are looked at for one parameter."""
AXES = ("dim", "axis")
"""Parameters that are the number of an axis, which is counted from the last one here."""
_NUMBER = re.compile(r"choice\(none, ([0-9.]+)[,)]")
"""An option that is a number where it is not none; the first one stands for all."""
_LARGEST = re.compile(r"max\(concat\(\[0\], (\w+)\)\)")


class UnlikeError(Exception):
    """A call that its operator has not."""


def understood(call: Mapping[str, Any], library: Library) -> Use | Left:
    """A call as it was noted down, in the terms of an operator, or why it has none."""
    interface, count = call["interface"], call["count"]
    one = _of_calls(interface, call.get("arguments", {}))
    if one is None or "fault" in call:
        return Left(interface, f"it could not be recorded: {call['fault']}" if "fault" in call else "unknown", count)
    try:
        found = _Understanding(one, library[one.operator], call["arguments"])
        return found.use(count, call.get("device", "cpu"), call.get("gradient", False))
    except (UnlikeError, SpecError) as error:
        return Left(interface, str(error).splitlines()[0], count)


def _of_calls(interface: str, given: Mapping[str, Any]) -> Signature | None:
    """The interface of that name; of calls that pass what it leaves alone, the one beside it that has them."""
    one = signatures().get(interface)
    left = {*one.parameters} - {*one.mapped} if one else set[str]()
    asked = {name for name in left if not _nothing(given.get(name))}
    return next((other for other in beside(interface) if asked & {*other.mapped}), one)


class _Understanding:
    """One call on its way."""

    def __init__(self, one: Signature, mechanism: Mechanism, given: Mapping[str, Any]) -> None:
        self.one, self.mechanism, self.given = one, mechanism, given
        self.sizes: dict[str, int] = {}
        self.dtypes: dict[str, str] = {}
        self.strides: dict[str, tuple[int, ...]] = {}
        self.most: dict[str, int] = {}
        self.optional: dict[str, tuple[int, ...]] = {}
        self.axes = 0
        """How many axes the first array has."""
        self.values: dict[str, Any] = {**dict.fromkeys(mechanism.absent), **mechanism.defaults}
        """What expressions see: sizes, options, and arrays of zeros in place of inputs."""

    def use(self, count: int, device: str, gradient: bool) -> Use:
        self._arrays()
        for name, passed in self.one.parameters.items():
            if name in self.given and name not in self.one.arrays_in(self.mechanism):
                self._parameter(name, passed, self.given[name])
        for name, x in self.given.items():
            if name not in self.one.parameters and not _nothing(x):
                raise UnlikeError(f"{name} is not a known parameter")
        m = self.mechanism
        changed = {n: x for n, x in self.values.items() if n in m.options and x != m.defaults.get(n, x)}
        always = {n: self.values[n] for n in m.options if n in self.values and n not in m.defaults}
        options = {n: m.passed(n, x) if isinstance(x, np.ndarray) else x for n, x in {**changed, **always}.items()}
        return Use(
            m.operator,
            self._dtype(),
            self.sizes,
            options,
            self.optional,
            self.strides,
            self.most,
            count,
            self.one.name,
            device,
            gradient,
        )

    def _dtype(self) -> str:
        own = {n: d for n, d in self.dtypes.items() if n not in self.mechanism.dtypes}
        first = next(iter(own.values()), "")
        for name, dtype in own.items():
            if dtype != first:
                raise UnlikeError(f"arrays are of several dtypes: {first}, and {name} of {dtype}")
        if first not in FORMATS:
            raise UnlikeError(f"arrays of {first or 'no dtype'} are not tried")
        return first

    # Arrays, whose shapes are the sizes

    def _arrays(self) -> None:
        m, layout = self.mechanism, self.one.layout_in(self.mechanism)
        own = next(iter(m.layouts.values()), {})
        letters = sizes_of_letters(own, m.shapes) if m.layouts else {}
        for parameter, array in self.one.arrays_in(m).items():
            x, nothing = self._passed_to(parameter), self.given.get(parameter) is None
            if nothing and array not in m.required and array not in layout.stacks:
                continue
            if array not in m.inputs and array not in layout.stacks:
                raise UnlikeError(f"{parameter} is passed, which a further mechanism of {m.operator} has")
            if not _is_array(x):
                raise UnlikeError(f"{parameter} is not passed" if nothing else f"{parameter} is not an array")
            self.dtypes[array] = x["dtype"]
            if array in layout.stacks or (array in own and not (layout.canonical and self._of_rows)):
                self._in_layout(parameter, array, x, letters)
            elif array in m.shapes:
                self._leading(parameter, array, x)
            else:
                self.optional[array] = tuple(x["shape"])
        for name in {size for shape in m.shapes.values() for size in shape if size} - {*self.sizes}:
            if m.layouts and name in letters.values():
                self.sizes[name] = 1
        self.values |= self.sizes
        for name, shape in m.shapes.items():
            known = [self.sizes.get(size or "") for size in shape]
            if None not in known:
                self.values[name] = _zeros([n for n in known if n is not None])
        for name, shape in self.optional.items():
            self.values[name] = _zeros(shape)

    @property
    def _of_rows(self) -> bool:
        """Whether the operator takes each row by itself, so that there may be more axes of them."""
        return all(len(shape) <= 2 for shape in self.mechanism.shapes.values())

    def _passed_to(self, parameter: str) -> Any:
        return self.given.get(parameter)

    def _in_layout(self, parameter: str, array: str, x: Mapping[str, Any], letters: Mapping[str, str]) -> None:
        layout = self.one.layout_in(self.mechanism)
        form = layout.patterns.get(array) or pattern(layout.own[array])
        shape = x["shape"]
        if len(shape) != len(form.axes):
            raise UnlikeError(f"{parameter} has {len(shape)} axes, and not {len(form.axes)}")
        for axis, n in zip(form.axes, shape, strict=True):
            if len(axis) == 1 and axis[0] in letters:
                self._size(letters[axis[0]], n, parameter)
        own = pattern(layout.own[array]).letters if array in layout.own else ()
        apart = {axis[0]: step for axis, step in zip(form.axes, x["strides"] or (), strict=False) if len(axis) == 1}
        if array in self.mechanism.inputs and {*own} <= {*apart}:
            self._lies(array, [self.sizes[letters[each]] for each in own], [apart[each] for each in own])

    def _leading(self, parameter: str, array: str, x: Mapping[str, Any]) -> None:
        """An array in the operator's own layout; more axes than it has are those of its first one."""
        known, shape = self.mechanism.shapes[array], list(x["shape"])
        if len(shape) < len(known):
            raise UnlikeError(f"{parameter} has {len(shape)} axes, and not {len(known)}")
        self.axes = self.axes or len(shape)
        ahead = len(shape) - len(known)
        folded = [math.prod(shape[: ahead + 1]), *shape[ahead + 1 :]]
        for size, n in zip(known, folded, strict=True):
            if size is not None:
                self._size(size, n, parameter)
        if not ahead:
            self._lies(array, shape, x["strides"] or ())

    def _lies(self, array: str, shape: list[int], strides: Any) -> None:
        """Note down the strides of an array that is not contiguous; of one in which entries share memory, nothing."""
        wide = sorted(((step, n) for step, n in zip(strides, shape, strict=False) if n > 1))
        apart = all(step >= below * n for (below, n), (step, _) in itertools.pairwise(wide))
        if len(strides) == len(shape) and apart and all(step > 0 for step, _ in wide):
            plain = [math.prod(shape[at + 1 :]) for at in range(len(shape))]
            if any(step != known and n > 1 for step, known, n in zip(strides, plain, shape, strict=True)):
                self.strides[array] = tuple(strides)

    def _size(self, size: str, n: int, parameter: str) -> None:
        if self.sizes.setdefault(size, n) != n:
            raise UnlikeError(f"{size} is {self.sizes[size]}, and {n} in {parameter}")

    # What else is passed

    def _parameter(self, name: str, passed: Passed, x: Any) -> None:
        if passed.how == "left":
            if not _nothing(x):
                raise UnlikeError(f"{name} is {_shown(x)}. {passed.texts[0]}")
        elif passed.how == "text":
            if x not in (None, passed.texts[0], passed.otherwise):
                raise UnlikeError(f"{name} is {_shown(x)}, and not {passed.texts[0]}")
            for condition in passed.expressions:
                self._expressed(name, condition, x == passed.texts[0])
        elif passed.how in ("object", "in_place"):
            raise UnlikeError(f"{name} is passed {_shown(x)}")
        elif passed.how in ("array", "tuple"):
            several = passed.how == "tuple"
            entries = x if several and isinstance(x, list) else [x] * len(passed.texts)
            if len(entries) != len(passed.texts):
                raise UnlikeError(f"{name} is {_shown(x)}")
            for text, entry in zip(passed.texts, entries, strict=True):
                self._expressed(name, text, entry)

    def _expressed(self, name: str, text: str, x: Any) -> None:
        """Find the options with which an expression gives what was passed."""
        m, expression = self.mechanism, Expression(text, scope_of_parameters(self.mechanism))
        x = m.meant(text, x) if isinstance(x, str) else x
        if name in AXES and type(x) is int and x == self.axes - 1:
            x = -1
        largest = _LARGEST.fullmatch(text)
        if largest is not None and largest[1] in m.required and isinstance(x, int):
            self.most[largest[1]] = x
            return
        unknown = [n for n in m.required if n in expression.uses and n not in self.values]
        free = [n for n in (*m.options, *m.optional) if n in expression.uses and n not in self.optional]
        choices = [*(self._lengths(n, x) for n in unknown), *(self._candidates(n, x) for n in free)]
        for chosen in itertools.islice(itertools.product(*map(list, choices)), TRIED):
            values = {**self.values, **dict(zip((*unknown, *free), chosen, strict=True))}
            if _gives(expression, values, x):
                self._keep(values, (*unknown, *free))
                return
        data = {n for n in m.required if n in expression.uses}
        if (x is None and free) or (data and not _is_array(x) and not isinstance(x, str)):
            return  # what the function itself decides, or what follows from data
        raise UnlikeError(f"{name} is {_shown(x)}")

    def _keep(self, values: Mapping[str, Any], names: tuple[str, ...]) -> None:
        m = self.mechanism
        for name in names:
            x = self.values[name] = values[name]
            if isinstance(x, np.ndarray) and name in m.required:
                self.sizes |= {size: n for size, n in zip(m.shapes[name], x.shape, strict=True) if size}
                self.values |= self.sizes
            elif isinstance(x, np.ndarray) and name in m.optional:
                self.optional[name] = x.shape

    def _lengths(self, name: str, x: Any) -> Iterator[Any]:
        """An input of one axis whose length nothing has told yet: about as long as what is made of it."""
        if _is_array(x) and len(self.mechanism.shapes[name]) == 1 and len(x["shape"]) == 1:
            yield from (_zeros([n]) for n in range(max(x["shape"][0] - 1, 0), x["shape"][0] + 2))

    def _candidates(self, name: str, x: Any) -> Iterator[Any]:
        m = self.mechanism
        if name in m.defaults:
            yield self.values.get(name, m.defaults[name])
        number = _NUMBER.match(m.options[name].text) if name in m.options else None
        if _is_array(x) and number is not None:
            yield float(number[1])  # which tables are made of a number, their shapes do not tell
        elif _is_array(x):
            truth = name in m.inputs and any(site.name == "flags" for site in m.inputs[name].draws)
            if truth == (x["dtype"] == "bool"):
                yield _zeros(x["shape"], truth)
        elif name in m.options:
            words = m.vocabulary.get(name, ())
            own = () if isinstance(x, str) and words and x not in words else (x,)
            several = (*own, None, True, False, *words)
            yield from several if m.defaults.get(name) is None else (each for each in several if each is not None)


def _gives(expression: Expression, values: Mapping[str, Any], x: Any) -> bool:
    """Whether an expression gives what was passed; of arrays, one of the same shape and kind."""
    try:
        with np.errstate(all="ignore"), budget.metered():
            found = expression(Values(values, "float64"))
    except (SpecError, TypeError, ValueError, KeyError, ArithmeticError):
        return False
    found = getattr(found, "must", getattr(found, "value", found))
    if _is_array(x):
        is_bool = isinstance(found, np.ndarray) and found.dtype.kind == "b"
        return isinstance(found, np.ndarray) and list(found.shape) == x["shape"] and is_bool == (x["dtype"] == "bool")
    if isinstance(found, np.ndarray) and found.ndim:
        return False
    found = found.item() if isinstance(found, np.generic | np.ndarray) else found
    same_kind = isinstance(found, bool) == isinstance(x, bool) and (found is None) == (x is None)
    return same_kind and found == x


def _is_array(x: Any) -> bool:
    return isinstance(x, Mapping) and "shape" in x


def _nothing(x: Any) -> bool:
    """Whether a parameter is at what asks for nothing."""
    return x is None or (not isinstance(x, Mapping | list) and not x)


def _shown(x: Any) -> str:
    return f"an array of {x['shape']}" if _is_array(x) else told(x)


def _zeros(shape: Any, truth: bool = False) -> Any:
    """An array that takes no memory, whatever its shape."""
    return np.broadcast_to(np.zeros((), bool if truth else float), tuple(shape))
