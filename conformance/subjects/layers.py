"""The layers of a model: parameters that repeat in every layer, as one for all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..errors import UsageError
from ..execution.survey import Weight

NUMBERED = re.compile(r"(.*_)?(\d+)")
"""A segment of a path that says which layer it is, as in `layers.0.` or `layers_0.`."""


def layered(weights: Sequence[Weight], layers: int) -> tuple[Weight, ...]:
    """The parameters with a `*` for the number of their layer; a `UsageError` where there are more or fewer layers."""
    stacks = _stacks(weights)
    found: dict[str, Weight] = {}
    for weight in weights:
        at, start, number = _layer(weight.path)
        if at < 0 or start not in stacks:
            found[weight.path] = weight
            continue
        if stacks[start] != layers:
            raise UsageError(
                f"{start}* has {stacks[start]} layers where {layers} are asked for, "
                "and decoder is defined for one or two of them; "
                "let the constructor take their number, as n_layers"
            )
        if number == 0:
            path = f"{start}*{weight.path[at:]}"
            found[path] = Weight(path, weight.shape, weight.holder)
    return tuple(found.values())


def _stacks(weights: Sequence[Weight]) -> dict[str, int]:
    """What the paths of layers that are all alike begin with, and how many of them there are."""
    held: dict[str, dict[int, dict[str, tuple[int, ...]]]] = {}
    for weight in weights:
        at, start, number = _layer(weight.path)
        if at >= 0:
            held.setdefault(start, {}).setdefault(number, {})[weight.path[at:]] = weight.shape
    return {start: len(one) for start, one in held.items() if _alike(one)}


def _alike(layers: dict[int, dict[str, tuple[int, ...]]]) -> bool:
    first, *further = layers.values()
    return sorted(layers) == [*range(len(layers))] and len(first) > 2 and all(one == first for one in further)


def _layer(path: str) -> tuple[int, str, int]:
    """Where the first number of a path ends, what comes before it, and the number; -1 where there is none."""
    for at, segment in _segments(path):
        if (found := NUMBERED.fullmatch(segment)) is not None:
            end = at + len(segment)
            return end, path[: end - len(found[2])], int(found[2])
    return -1, "", 0


def _segments(path: str) -> Iterator[tuple[int, str]]:
    at = 0
    for segment in path.split("."):
        yield at, segment
        at += len(segment) + 1
