"""The shapes of what a function returns, by the shapes of what it is passed."""

from __future__ import annotations

import ast
from collections.abc import Callable

from ..errors import SpecError
from .labels import (
    ONE,
    SINGLE,
    AlongError,
    Change,
    Labelled,
    Labels,
    Shapes,
    arguments,
    given,
    key_of,
    whole,
)

Shaped = Callable[[Labelled, ast.Call], Shapes]
BY_ENTRY = (
    "abs",
    "exp",
    "log",
    "sqrt",
    "sin",
    "cos",
    "tanh",
    "erf",
    "sigmoid",
    "round",
    "significant",
    "finite",
    "unclaimed",
)
REDUCING = ("sum", "mean", "logsumexp", "max", "min", "all", "any")
ORDERED = ("cumsum", "shift", "largest", "above", "argsort")
"""Functions that compute along an axis and keep it."""


_OWN: dict[str, Shaped] = {}
"""Functions whose results have a shape of their own, by name."""


def returned(axes: Labelled, node: ast.Call) -> Shapes:
    """The shapes of a call; `AlongError` where a function computes along a restricted axis."""
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in _OWN:
        return _OWN[name](axes, node)
    if name in BY_ENTRY:
        return axes.of(node.args[0])
    if name in ("where", "implies", "either"):
        return axes.joined(*map(axes.of, arguments(node)))
    if name in REDUCING:
        return _reduced(axes, node, name)
    if name in ORDERED:
        found, axis = axes.of(node.args[0]), given(node, "axis", 2 if name == "largest" else 1)
        for shape in found:
            if shape:
                axes.free(shape[whole(axis, -1)], f"{name} goes along it")
        return found
    everything = [shape for part in arguments(node) for shape in axes.of(part)]
    for shape in everything:
        for label in shape:
            axes.free(label, f"{name} takes it as a whole")
    if axes.restricted:
        raise AlongError(", ".join(sorted(axes.restricted)), f"{name} takes everything as a whole")
    raise SpecError(f"the shape of {name} is not known")


def _reduced(axes: Labelled, node: ast.Call, name: str) -> Shapes:
    if name in ("max", "min") and len(node.args) > 1:
        return axes.joined(*map(axes.of, node.args))
    found, axis, keep = axes.of(node.args[0]), given(node, "axis", 1), given(node, "keep", 2)
    results = set[Labels]()
    for shape in found:
        if not shape:
            results.add(shape)
        elif axis is None and name in ("all", "any"):
            for label in shape:
                axes.free(label, f"{name} goes along it")
            results.add(())
        else:
            at = whole(axis, -1) % len(shape)
            axes.free(shape[at], f"{name} goes along it")
            middle = (ONE,) if keep is not None else ()
            results.add((*shape[:at], *middle, *shape[at + 1 :]))
    return frozenset(results)


def _shapes_of(*names: str) -> Callable[[Shaped], Shaped]:
    """A function that gives the shapes of calls of functions of these names."""

    def known(shaped: Shaped) -> Shaped:
        _OWN.update(dict.fromkeys(names, shaped))
        return shaped

    return known


# Functions


@_shapes_of("stored")
def _stored(axes: Labelled, node: ast.Call) -> Shapes:
    """What is rounded alike counts where it is added up, which is never along a restricted axis."""
    return axes.of(node.args[0])


@_shapes_of("sum_like")
def _sum_like(axes: Labelled, node: ast.Call) -> Shapes:
    results = set[Labels]()
    for x in axes.of(node.args[0]):
        for y in axes.of(node.args[1]):
            for at, label in enumerate(reversed(x), 1):
                if at > len(y) or y[-at] == ONE:
                    axes.free(label, "sum_like goes along it")
            results.add(y)
    return frozenset(results)


@_shapes_of("sum_ahead")
def _sum_ahead(axes: Labelled, node: ast.Call) -> Shapes:
    return _along_the_last(axes, axes.joined(*map(axes.of, arguments(node))), "sum_ahead")


@_shapes_of("softmax")
def _softmax(axes: Labelled, node: ast.Call) -> Shapes:
    """That of another operator, which is computed row by row."""
    return _along_the_last(axes, axes.of(arguments(node)[0]), "softmax")


def _along_the_last(axes: Labelled, found: Shapes, name: str) -> Shapes:
    for shape in found:
        if shape:
            axes.free(shape[-1], f"{name} goes along it")
    return found


@_shapes_of("average")
def _average(axes: Labelled, node: ast.Call) -> Shapes:
    weights, values, axis = axes.of(node.args[0]), axes.of(node.args[1]), given(node, "axis", 2)
    if axis is None:
        return axes.product(weights, values)
    results = set[Labels]()
    for shape in axes.joined(weights, values):
        at = whole(axis, -1) % len(shape)
        axes.free(shape[at], "average goes along it")
        results.add((*shape[:at], *shape[at + 1 :]))
    return frozenset(results)


@_shapes_of("size")
def _size(axes: Labelled, node: ast.Call) -> Shapes:
    found, axis = axes.of(node.args[0]), whole(given(node, "axis", 1), -1)
    labels = {shape[axis] for shape in found if -len(shape) <= axis < len(shape)}
    own = labels & axes.restricted
    if own:
        if len(labels) > 1 or () in found:
            raise AlongError(min(own), "its length is asked for where it may be another one")
        axes.plan.changes[key_of(node)] = Change("size", min(own))
    return SINGLE


@_shapes_of("ndim", "single")
def _single(axes: Labelled, node: ast.Call) -> Shapes:
    axes.of(node.args[0])
    return SINGLE


@_shapes_of("transpose")
def _transpose(axes: Labelled, node: ast.Call) -> Shapes:
    return frozenset((*s[:-2], s[-1], s[-2]) if s else s for s in axes.of(node.args[0]))


@_shapes_of("permute")
def _permute(axes: Labelled, node: ast.Call) -> Shapes:
    order = [whole(axis, 0) for axis in node.args[1:]]
    return frozenset(tuple(shape[at] for at in order) if shape else shape for shape in axes.of(node.args[0]))


@_shapes_of("reshape")
def _reshape(axes: Labelled, node: ast.Call) -> Shapes:
    found, new = axes.of(node.args[0]), [axes.label(part) for part in node.args[1:]]
    for shape in found:
        if shape:
            _check_reshaped(axes, list(shape), list(new))
    axes.count(node.args[1:])
    return frozenset(tuple(new) if shape else shape for shape in found)


def _check_reshaped(axes: Labelled, old: list[str], new: list[str]) -> None:
    for end in (0, -1):
        while old and new and old[end] == new[end] != "":
            old.pop(end)
            new.pop(end)
    for label in (*old, *new):
        axes.free(label, "it is reshaped")


@_shapes_of("full")
def _full(axes: Labelled, node: ast.Call) -> Shapes:
    axes.of(node.args[0])
    axes.count(node.args[1:])
    return frozenset({tuple(map(axes.label, node.args[1:]))})


@_shapes_of("range")
def _range(axes: Labelled, node: ast.Call) -> Shapes:
    label = axes.label(node.args[0]) if len(node.args) == 1 else ""
    if label in axes.restricted:
        axes.plan.changes[key_of(node)] = Change("positions", label)
    return frozenset({(label,)})


@_shapes_of("eye")
def _eye(axes: Labelled, node: ast.Call) -> Shapes:
    label = axes.free(axes.label(node.args[0]), "eye goes along it twice")
    return frozenset({(label, label)})


@_shapes_of("repeat", "tile")
def _repeat(axes: Labelled, node: ast.Call) -> Shapes:
    results = set[Labels]()
    for shape in axes.of(node.args[0]):
        if not shape:
            results.add(shape)
            continue
        at = whole(given(node, "axis", 2), -1) % len(shape)
        label = axes.times(shape[at], node.args[1])
        if label in axes.restricted:
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            axes.plan.changes[key_of(node)] = Change("copied", label, shape[at], tiled=name == "tile")
        else:
            axes.free(shape[at], "copies of it are made")
        results.add((*shape[:at], label, *shape[at + 1 :]))
    return frozenset(results)


@_shapes_of("concat")
def _concat(axes: Labelled, node: ast.Call) -> Shapes:
    axis, results = whole(given(node, "axis", 2), -1), set[Labels]()
    for shape in axes.joined(axes.of(node.args[0]), axes.of(node.args[1])):
        at = axis % len(shape)
        axes.free(shape[at], "more is put behind it")
        results.add((*shape[:at], "", *shape[at + 1 :]))
    return frozenset(results)


@_shapes_of("gather")
def _gather(axes: Labelled, node: ast.Call) -> Shapes:
    found, indices = axes.of(node.args[0]), axes.of(node.args[1])
    results = set[Labels]()
    for shape in found:
        at = whole(given(node, "axis", 2), -1) % max(len(shape), 1)
        if shape:
            axes.free(shape[at], "entries of it are gathered")
        results |= {(*shape[:at], *index, *shape[at + 1 :]) if shape else shape for index in indices}
    return frozenset(results)


# Draws


@_shapes_of("normal", "flags")
def _normal(axes: Labelled, node: ast.Call) -> Shapes:
    return frozenset({tuple(map(axes.label, node.args))})


@_shapes_of("indices")
def _indices(axes: Labelled, node: ast.Call) -> Shapes:
    return frozenset({tuple(map(axes.label, node.args[1:]))})


@_shapes_of("permutation")
def _permutation(axes: Labelled, node: ast.Call) -> Shapes:
    return frozenset({(axes.label(node.args[0]),)})


@_shapes_of("partition")
def _partition(axes: Labelled, node: ast.Call) -> Shapes:
    return frozenset({(axes.label(node.args[1]) if len(node.args) > 1 else "",)})


@_shapes_of("like")
def _like(axes: Labelled, node: ast.Call) -> Shapes:
    return axes.of(node.args[0])


@_shapes_of("between", "every")
def _between(axes: Labelled, node: ast.Call) -> Shapes:
    return SINGLE


@_shapes_of("choice", "maybe")
def _choice(axes: Labelled, node: ast.Call) -> Shapes:
    return frozenset(shape for part in node.args for shape in axes.of(part))
