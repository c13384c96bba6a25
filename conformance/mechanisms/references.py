"""The float64 reference of an operator: a second implementation for all, and the definition of some.

What a reference does is not counted while it runs, so its work is estimated before: as a definition it may come with a
file of a stranger, whatever sizes that draws.
"""

from __future__ import annotations

import functools
import inspect
import math
import runpy
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..data.texts import told
from ..errors import Place, SpecError, TargetError, UsageError
from ..numerics.budget import OPERATION, OverspentError, spend
from ..numerics.grades import Grade
from ..numerics.numbers import Number, value
from .mechanism import Mechanism


def reference_of(mechanism: Mechanism, place: Place | None = None) -> Callable[..., Any]:
    """The reference function of a mechanism's operator; a `SpecError` where there is none."""
    from attnspec import reference

    name = mechanism.operator
    own = mechanism.library.references if mechanism.library is not None else {}
    if name in own:
        return own[name]
    if name not in reference.__all__:
        told = f"the operator {name!r} has no function in attnspec.reference; write its definition"
        raise SpecError(f"{told}, or name a file that has one by --reference", place)
    return getattr(reference, name)


def has_reference(mechanism: Mechanism) -> bool:
    """Whether the operator of a mechanism has a reference."""
    try:
        reference_of(mechanism)
    except SpecError:
        return False
    return True


def functions_of(path: Path, operators: Collection[str]) -> dict[str, Callable[..., Any]]:
    """The references in a Python file, which is run: its functions that are called like operators.

    A file that cannot be run is a `TargetError`, and one that has none of them a `UsageError`.
    """
    from attnspec import reference

    own = [name for name in operators if name not in reference.__all__]
    if not path.is_file():
        raise TargetError(f"no such file: {path}")
    try:
        names = runpy.run_path(str(path))
    except Exception as error:
        raise TargetError(f"{path} cannot be run: {type(error).__name__}: {told(error)}") from error
    found = {name: names[name] for name in own if inspect.isfunction(names.get(name))}
    if not found:
        known = f"({', '.join(own)})" if own else "(--spec adds operators)"
        raise UsageError(f"{path} has no function that is called like an operator without a reference {known}")
    return found


def unfit(mechanism: Mechanism, place: Place | None) -> SpecError | None:
    """What is wrong with the reference of a mechanism whose definition it is, if it is none or takes something else."""
    names = (*mechanism.optional, *mechanism.options, *mechanism.conventions)
    try:
        inspect.signature(reference_of(mechanism, place)).bind(*mechanism.required, **dict.fromkeys(names))
    except SpecError as error:
        return SpecError(f"definition: {error.message}", place)
    except TypeError as error:
        return SpecError(f"definition: the reference of {mechanism.operator!r} has another signature: {error}", place)
    return None


def work_of(mechanism: Mechanism, values: Mapping[str, Any]) -> int:
    """An estimate of what a reference does: as many steps as all axes and all whole options multiplied.

    An axis of several inputs counts once. Beam search keeps `width` sequences, or as many as there are, and compares
    each of them with all that it drops; the axes of `einsum` mean what its equation says, so all of them count.
    """
    if mechanism.operator == "beam_search":
        vocab, length = max(len(np.atleast_1d(values["log_probs"])), 1), max(int(values["length"]), 0)
        kept = min(max(int(values["width"]), 0), vocab ** min(length, 64))
        return length * kept * vocab * (kept + length + 20) * OPERATION // 4
    named: dict[str, int] = {}
    for name in mechanism.inputs:
        axes, shape = mechanism.shapes.get(name, ()), np.shape(values[name])
        for place, n in enumerate(shape):
            known = axes[place - len(shape)] if place >= len(shape) - len(axes) else None
            several = known is not None and mechanism.operator != "einsum"
            named[f"{known} {axes[:place].count(known)}" if several else f"{name} {place}"] = n
    options = [x for n in mechanism.options for x in np.ravel(values[n]) if isinstance(x, int | np.integer)]
    return math.prod(max(n, 1) for n in named.values()) * math.prod(max(abs(int(x)), 1) for x in options) * OPERATION


def by_reference(
    mechanism: Mechanism, values: Mapping[str, Any], names: tuple[str, ...], grade: Grade | None
) -> dict[str, Any]:
    """Outputs as the float64 reference gives them, under a grade with what that leaves open.

    Beside its outputs, the reference of an operator whose meaning is a loop returns `rounding`, the error of what it
    compares in units of relative rounding, and `margin`, how far the closest of its decisions was from going the other
    way: a number, or for every output an array that broadcasts to it. Where a decision is closer than twice the error
    it may go either way, and nothing is determined.
    """
    plain, place = {n: value(x) for n, x in values.items()}, mechanism.reference_place
    try:
        spend(work_of(mechanism, {**mechanism.defaults, **plain}))
        results = reference_outputs(mechanism, plain)
    except OverspentError as error:
        raise OverspentError(f"the reference of {mechanism.operator!r}: {error.message}", place) from None
    except (TypeError, LookupError, AttributeError, ArithmeticError) as error:
        told = f"the reference of {mechanism.operator!r} cannot be called: {type(error).__name__}: {error}"
        raise SpecError(told[:300], place) from None
    if grade is None:
        return {name: results[name] for name in names}
    narrowest = grade.stored or grade.arithmetic
    error, margin = results.get("rounding", 0.0) * 2.0**-narrowest.digits, results.get("margin", np.inf)

    def bounded(name: str) -> Number:
        x = np.asarray(results[name])
        own = error if x.dtype.kind == "f" else 0.0  # integers are right, unless a decision goes the other way
        closest = margin[name] if isinstance(margin, Mapping) else margin
        radius = np.where(np.less_equal(closest, 2 * error), np.inf, own)
        return Number.within(x.astype(float), np.broadcast_to(radius, x.shape))

    return {name: bounded(name) for name in names}


def reference_outputs(mechanism: Mechanism, values: Mapping[str, Any]) -> dict[str, Any]:
    """What the float64 reference of the mechanism's operator returns, by output; the second witness."""
    function = reference_of(mechanism, mechanism.reference_place or Place(mechanism.path, 1, 1))
    values = {**mechanism.words, **mechanism.defaults, **values}
    inputs = [values[name] for name in mechanism.required]
    keywords = {name: values[name] for name in mechanism.optional if isinstance(values[name], np.ndarray)}
    spoken = (name for name in mechanism.options if name not in mechanism.typing)
    keywords |= {name: mechanism.passed(name, values[name]) for name in spoken}
    keywords |= {name: values[name] for name in mechanism.conventions}
    with np.errstate(all="ignore"):
        results = function(*inputs, **keywords)
    return results if isinstance(results, dict) else {mechanism.outputs[0]: results}


def answered(
    mechanism: Mechanism, values: Mapping[str, Any], words: Mapping[str, str]
) -> tuple[dict[str, Any], set[str]]:
    """As `reference_outputs` under words of conventions; and the conventions whose word the reference has looked at."""
    asked = set[str]()
    noted = {convention: Noted(word, functools.partial(asked.add, convention)) for convention, word in words.items()}
    return reference_outputs(mechanism, {**values, **noted}), asked


class Noted(str):
    """A text that tells when it is looked at, by any operation or method of texts.

    Whoever gets around these, as a search in another text does, finds no word that means anything.
    """

    text: str
    note: Callable[[], None]

    def __new__(cls, text: str, note: Callable[[], None]) -> Noted:
        one = super().__new__(cls, "\0")
        one.text, one.note = text, note
        return one


def _noting(method: Callable[..., Any]) -> Callable[..., Any]:
    def noting(self: Noted, *args: Any, **named: Any) -> Any:
        self.note()
        return method(self.text, *args, **named)

    return noting


for _name, _method in vars(str).items():
    if callable(_method) and _name not in ("__new__", "__getattribute__"):
        setattr(Noted, _name, _noting(_method))
