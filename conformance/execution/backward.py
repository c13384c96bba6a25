"""Calls of a gradient operator, made by differentiating a function of another operator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..frameworks.framework import Framework, NotDifferentiableError

AGAIN = "again"
"""How gradients are asked for that are those of a second backward pass through the same graph."""
PART = " of "
"""What is between the name of a gradient and the parameter that it is of, where that has some entries of an input."""
AFTERWARDS = "afterwards"
"""How gradients are asked for right after a call of the function without any."""
WHOLE = "", AGAIN, AFTERWARDS
"""The ways of asking for all gradients at once."""
COTANGENT = "d_out"
"""The input of a gradient operator that is the gradient of the function's first output."""


@dataclass(frozen=True, slots=True)
class Backward:
    """How the function is called whose gradients are asked for."""

    required: tuple[str, ...]
    """What it is passed by position."""
    by_name: frozenset[str]
    """Of that, what it takes by name alone."""
    zeros: Mapping[str, str]
    """Required inputs on which no gradient depends, each with an input of the same shape; they are zero."""
    results: tuple[str, ...] = ("out",)
    """What it returns, in order; the gradient of each after the first is an input `d_` and its name, if it is given."""
    leaves: Mapping[str, str] = field(default_factory=dict)
    """Of a function whose parameters are not called like inputs: those that have a gradient, and what that is called.

    One that has some entries of an input has a gradient of its own, which is called after both.
    """


def differentiated(
    function: Callable[..., Any],
    framework: Framework,
    backward: Backward,
    passed: tuple[str, ...],
    outputs: frozenset[str],
) -> Callable[..., Any]:
    """A function of the inputs that are `passed` by position and others by name, and that returns gradients by name.

    `manner` is one of `WHOLE`, or the one gradient that is asked for, all other inputs being constant.
    """

    def gradients(*arrays: Any, manner: str = "", **named: Any) -> dict[str, Any]:
        given = {**dict(zip(passed, arrays, strict=True)), **named}
        asked = {at: name for name, at in cotangents_in(given, backward.results).items()}
        cotangents = [given.pop(name) for name in asked.values()]
        for name, like in backward.zeros.items():
            x = given[like]
            zero = np.zeros(tuple(int(n) for n in x.shape))
            given[name] = framework.make(zero, framework.dtype(x), framework.device(x), "contiguous", 0)
        known = backward.leaves or {name: f"d_{name}" for name in given}
        leaves = [name for name in given if known.get(name) in outputs and framework.is_array(given[name])]
        leaves = [name for name in leaves if manner in (*WHOLE, known[name].partition(PART)[0])]

        def forward(*values: Any) -> Any:
            taken = {**given, **dict(zip(leaves, values, strict=True))}
            first = [taken.pop(name) for name in backward.required if name not in backward.by_name]
            result = function(*first, **taken)
            return [_part(result, at, backward.results[at]) if at else _first(result) for at in asked]

        if manner == AFTERWARDS:
            forward(*(given[name] for name in leaves))
        found = framework.pulled_back(forward, [given[name] for name in leaves], cotangents, again=manner == AGAIN)
        total = dict[str, Any]()
        for name, x in zip(leaves, found, strict=True):  # an input may be passed as several parameters
            total[known[name]] = total[known[name]] + x if known[name] in total else x
        return total

    return gradients


def cotangents_in(inputs: Collection[str], results: Sequence[str]) -> dict[str, int]:
    """The inputs that are gradients of a function's results, each with the place of its result."""
    further = {f"d_{name}": at for at, name in enumerate(results) if at and f"d_{name}" in inputs}
    return {COTANGENT: 0, **further}


def _part(result: Any, at: int, name: str) -> Any:
    """A further output of what a function returned."""
    if isinstance(result, Mapping) and name in result:
        return result[name]
    if isinstance(result, tuple | list) and len(result) > at:
        return result[at]
    raise NotDifferentiableError(f"it does not return {name!r}")


def _first(result: Any) -> Any:
    """The first output of what a function returned."""
    if isinstance(result, Mapping):
        return result["out"] if "out" in result else next(iter(result.values()))
    return result[0] if isinstance(result, tuple | list) else result
