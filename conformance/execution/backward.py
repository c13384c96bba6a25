"""Calls of a gradient operator, made by differentiating a function of another operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..frameworks.framework import Framework

COTANGENT = "d_out"
"""The input of a gradient operator that is the gradient of the function's output."""


@dataclass(frozen=True, slots=True)
class Backward:
    """How the function is called whose gradients are asked for."""

    required: tuple[str, ...]
    """What it is passed by position."""
    by_name: frozenset[str]
    """Of that, what it takes by name alone."""
    zeros: Mapping[str, str]
    """Required inputs on which no gradient depends, each with an input of the same shape; they are zero."""
    leaves: Mapping[str, str] = field(default_factory=dict)
    """Of a function whose parameters are not called like inputs: those that have a gradient, and what that is called.
    """


def differentiated(
    function: Callable[..., Any],
    framework: Framework,
    backward: Backward,
    passed: tuple[str, ...],
    outputs: frozenset[str],
) -> Callable[..., Any]:
    """A function of the inputs that are `passed` by position and others by name, and that returns gradients by name."""

    def gradients(*arrays: Any, **named: Any) -> dict[str, Any]:
        given = {**dict(zip(passed, arrays, strict=True)), **named}
        cotangent = given.pop(COTANGENT)
        for name, like in backward.zeros.items():
            x = given[like]
            zero = np.zeros(tuple(int(n) for n in x.shape))
            given[name] = framework.make(zero, framework.dtype(x), framework.device(x), "contiguous", 0)
        known = backward.leaves or {name: f"d_{name}" for name in given}
        leaves = [name for name in given if known.get(name) in outputs and framework.is_array(given[name])]

        def forward(*values: Any) -> Any:
            taken = {**given, **dict(zip(leaves, values, strict=True))}
            first = [taken.pop(name) for name in backward.required if name not in backward.by_name]
            return _first(function(*first, **taken))

        found = framework.pulled_back(forward, [given[name] for name in leaves], cotangent)
        return {known[name]: x for name, x in zip(leaves, found, strict=True)}

    return gradients


def _first(result: Any) -> Any:
    """The first output of what a function returned."""
    if isinstance(result, Mapping):
        return result["out"] if "out" in result else next(iter(result.values()))
    return result[0] if isinstance(result, tuple | list) else result
