"""The features of a call other than the entries of its arrays: sizes, options, optional inputs, layout, regime."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..cases.samples import Sample
from ..frameworks.layouts import laid_out, named_layout, stored_once
from ..frameworks.numpy import NumpyFramework
from ..judging.settling import same
from ..mechanisms.definition import sizes_of
from ..mechanisms.mechanism import Mechanism
from ..numerics.drawn import Drawn
from .readings import axes_of

_NUMPY = NumpyFramework()


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one call."""

    sizes: Mapping[str, int]
    options: Mapping[str, Any]
    """Those that are not at their default, single values only; the others are None."""
    usual: Mapping[str, Any]
    """The defaults of options."""
    given: Mapping[str, bool]
    """The optional inputs, and whether they are given."""
    memory: Mapping[str, str]
    """How the entries of each required input lie in memory: contiguous, or a layout in which they do not."""
    layout: str
    regime: str
    axes: Mapping[str, int] = field(default_factory=dict)
    """The number of axes of each input that has more or less of them than its operator states."""
    shared: frozenset[tuple[str, str]] = frozenset()
    """The optional inputs that have one entry for all of an axis of several, each with the size of that axis."""
    apart: frozenset[tuple[str, str]] = frozenset()
    """Those that have an entry for each of several, with the size of the axis."""
    counted: frozenset[tuple[str, str]] = frozenset()
    """What is so of some entries of a row of integers, as of lengths: its name, and what (see `_counted`)."""
    multiples: frozenset[tuple[str, str]] = frozenset()
    """The sizes of which one has to be a multiple of the other, as of heads that share keys."""
    finite: bool = True
    """Whether all entries of all inputs are."""
    matters: Callable[[str], bool] = field(default=lambda convention: False, compare=False, repr=False)
    """Whether another word of a convention would give something else; of a case that was not called, never."""

    @property
    def same(self) -> str:
        """What two calls have in common of which the same is known."""
        known = self.sizes, self.options, self.given, self.memory, self.layout, self.regime, self.axes
        return repr((*known, sorted(self.shared), sorted(self.counted)))


def facts_of(sample: Sample, values: Mapping[str, Any] | None = None) -> Facts:
    """The facts of a case, or of a call of it with other values."""
    m = sample.mechanism
    values = sample.values if values is None else values
    shaped = sizes_of(m, values)
    lacking = {axis: 1 for axes in m.shapes.values() for axis in axes if axis is not None and axis not in shaped}
    values = {**values, **lacking, **shaped}
    optional = {name: values[name] for name in m.optional if isinstance(values[name], np.ndarray)}
    lengths = {name: [(axis, values[axis]) for axis in stated(m, name)] for name in optional}
    spread = {name: _spread(np.shape(x), lengths[name]) for name, x in optional.items()}
    axes = {name: len(axes) for name, axes in (*m.shapes.items(), *((n, x) for n, x in lengths.items() if x))}
    return Facts(
        {name: int(values[name]) for name in m.stating.sizes if isinstance(values.get(name), int | np.integer)},
        {name: _unusual(m, name, values[name]) for name in m.options if not isinstance(values[name], np.ndarray)},
        m.defaults,
        {name: isinstance(values[name], np.ndarray | Drawn) for name in m.optional},
        {name: memory_of(values[name], sample.layout, index) for index, name in enumerate(m.required)},
        sample.layout,
        sample.case.regime,
        {name: np.ndim(values[name]) for name, count in axes.items() if np.ndim(values[name]) != count},
        frozenset((name, axis) for name, found in spread.items() for axis, each in found.items() if not each),
        frozenset((name, axis) for name, found in spread.items() for axis, each in found.items() if each),
        frozenset((name, what) for name in m.inputs for what in _counted(m, values, name)),
        _multiples(m.stating),
        all(_finite(values[name]) for name in m.inputs),
    )


def _counted(m: Mechanism, values: Mapping[str, Any], name: str) -> Iterator[str]:
    """What is so of some entries of a row of integers: a word, a size, an option, or a row that they are not."""
    if not _row(x := values[name]):
        return
    found = {"zero": x == 0, "negative": x < 0, "unequal": x != x[:1]}
    sizes = {size: values.get(size) for size in m.stating.sizes if size.endswith("_size")}
    found |= {size: x % n != 0 for size, n in sizes.items() if isinstance(n, int | np.integer) and n > 1}
    numbers = {option: values[option] for option in m.options}
    found |= {f"= {option}": x == n for option, n in numbers.items() if isinstance(n, int) and not isinstance(n, bool)}
    rows = {other: values[other] for other in m.inputs if other > name and _row(values[other])}
    found |= {f"not {other}": x != y for other, y in rows.items() if np.shape(x) == np.shape(y)}
    yield from (what for what, entries in found.items() if entries.any())


def _row(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind in "iu" and x.ndim == 1


def _spread(shape: tuple[int, ...], lengths: Sequence[tuple[str, int]]) -> dict[str, bool]:
    """The axes of several, and whether an array has an entry for each of them; axes that it lacks stand in front."""
    whole = (*(1,) * (len(lengths) - len(shape)), *shape)
    found = zip(lengths, whole[-len(lengths) :], strict=True) if lengths else ()
    return {axis: n == length for (axis, length), n in found if length > 1 and n in (1, length)}


class Multiples(dict[str, frozenset[tuple[str, str]]]):
    """Of which sizes one has to be a multiple of another, by operators of a library."""


def _multiples(m: Mechanism) -> frozenset[tuple[str, str]]:
    known = m.kept(Multiples)
    if m.digest not in known:
        found = re.findall(r"\b(\w+) % (\w+) == 0", " and ".join(line.text for line in m.requires.values()))
        known[m.digest] = frozenset((x, y) for x, y in found if x in m.sizes and y in m.sizes)
    return known[m.digest]


class Stated(dict[tuple[str, str, str], tuple[str, ...]]):
    """The axes of the optional inputs of a library."""


def stated(m: Mechanism, name: str) -> tuple[str, ...]:
    """The sizes of the axes of an optional input where it is not broadcast; nothing where its operator states none."""
    known, key = m.kept(Stated), (m.stating.name, m.stating.digest, name)
    if key not in known:
        known[key] = tuple(axes_of(m.stating, name) or ()) if name in m.stating.inputs else ()
    return known[key]


def _finite(x: Any) -> bool:
    return not isinstance(x, np.ndarray) or x.dtype.kind != "f" or bool(np.isfinite(x).all())


def memory_of(x: Any, layout: str, index: int) -> str:
    """How an input lies in memory: its layout, or contiguous where the entries lie one after the other all the same."""
    if layout == "contiguous" or not isinstance(x, np.ndarray):
        return "contiguous"
    made = _NUMPY.make(x.astype(np.float32) if x.dtype.kind == "f" else x, "float32", "cpu", layout, index)
    return "contiguous" if made.flags.c_contiguous else named_layout(layout, index)


def read_densely(x: Any, layout: str, index: int) -> Any:
    """An input as it is read by one who takes its memory for that of a contiguous array; NaN is unknown memory."""
    if layout == "contiguous" or not isinstance(x, np.ndarray) or x.dtype.kind != "f":
        return x
    if layout == "expanded":
        once = stored_once(x)
        memory = x.ravel() if once is None else once.ravel()
    else:
        made = laid_out(x, layout, index, lambda shape: np.full(shape, np.nan))
        memory = (made if made.base is None or named_layout(layout, index) == "offset" else made.base).ravel()
    read = np.full(x.size, np.nan)
    read[: memory.size] = memory[: x.size]
    return read.reshape(x.shape)


def _unusual(m: Mechanism, name: str, x: Any) -> Any:
    return None if name in m.defaults and same(x, m.defaults[name]) else x
