"""Ways to misread an input or to write an output: its first item for all, another order of its axes, nothing further.

Such a slip stands in no line of a definition, which reads an input as it is; it is the input or output that is changed.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import SpecError
from ..language.edits import FAR, RARE
from ..language.syntax import parse
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.restriction import labels_of

LIMITS = (16, 32, 64, 128, 256, 512, 1024)
"""As many of an axis as tiles, threads and tables have."""
LIMITED = "up to"
"""The words for what is read up to such a limit alone."""
DRAWN = {"normal": 0, "flags": 0, "indices": 1}
"""The draws that state the axes of an array, and how many arguments come before these."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read in place of an input."""

    cost: int
    name: str
    text: str
    """The expression."""
    says: str


def readings(m: Mechanism) -> Iterator[Reading]:
    """What each input may be taken for along each of its axes, and along two of them."""
    for name in m.inputs:
        axes = axes_of(m, name)
        if axes is None:
            continue
        whole, neutral, start = name, "0", ""
        if name in m.defaults:  # it may have fewer axes, or axes of length one, or be left out
            boolean, shape, start = (
                isinstance(m.defaults[name], bool),
                ", ".join(axes),
                f"{name} if single({name}) else ",
            )
            neutral = str(m.defaults[name]).lower() if boolean else "0"
            whole = f"({name} and full(true, {shape}))" if boolean else f"({name} + full(0, {shape}))"
        alone = (*_first_for_some(whole, axes), *(_stepping(whole, axes) if name in m.required else ()))
        for cost, text, says in (
            *_along(whole, axes, neutral),
            *_across(whole, axes),
            *_grouped(whole, axes, m),
            *alone,
        ):
            yield Reading(cost, name, start + text, f"{name} {says}")


def writings(m: Mechanism) -> Iterator[Reading]:
    """What may be written in the place of each output along each of its axes, and along two of them."""
    for name in m.outputs:
        try:
            axes = list(labels_of(m, name)) if name in m.definition and name not in m.random else []
        except SpecError:
            continue
        if not axes or not all(axis in m.sizes for axis in axes):
            continue
        added = ((RARE, f"cumsum({name}, {n - len(axes)})", f"added up along {axis}") for n, axis in enumerate(axes))
        for cost, text, says in (*_along(name, axes, "0"), *_across(name, axes), *_grouped(name, axes, m), *added):
            yield Reading(cost, name, text, f"{name} {says}")


def axes_of(m: Mechanism, name: str) -> list[str] | None:
    """The sizes of an input, the larger where an axis may be one; None where one of them is something else."""
    for node in ast.walk(parse(m.inputs[name].text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in DRAWN:
            axes = [_size(axis, m) for axis in node.args[DRAWN[node.func.id] :]]
            return [axis for axis in axes if axis] if axes and all(axes) else None
    return None


def _size(node: ast.expr, m: Mechanism) -> str:
    options = node.args if isinstance(node, ast.Call) else [node]
    found = [option.id for option in options if isinstance(option, ast.Name) and option.id in m.sizes]
    return found[0] if len(found) == 1 else ""


def _along(whole: str, axes: list[str], neutral: str) -> Iterator[tuple[int, str, str]]:
    """One axis that is read otherwise."""
    for number, n in enumerate(axes):
        at = number - len(axes)
        yield RARE, f"gather({whole}, 0 * range({n}), {at})", f"at the first of {n}"
        yield RARE, f"gather({whole}, (range({n}) + 1) % {n}, {at})", f"at the next of {n}"
        yield RARE, f"gather({whole}, max(range({n}) - 1, 0), {at})", f"at the one before of {n}"
        yield FAR, f"gather({whole}, {n} - 1 - range({n}), {at})", f"with {n} in reverse"
        behind = f"range({n})" + (f"[:{', none' * (-at - 1)}]" if at < -1 else "")
        for limit in LIMITS:
            yield FAR, f"where({behind} < {limit}, {whole}, {neutral})", f"{LIMITED} {limit} of {n}"


def _first_for_some(whole: str, axes: list[str]) -> Iterator[tuple[int, str, str]]:
    """The first along one axis for all, but for the first of another axis alone, or for all but that."""
    for one, other in itertools.permutations(range(len(axes)), 2):
        n, a = axes[one], axes[other]
        at = f"range({a})" + (f"[:{', none' * (len(axes) - 1 - other)}]" if other < len(axes) - 1 else "")
        first = f"gather({whole}, 0 * range({n}), {one - len(axes)})"
        yield FAR, f"where({at} == 0, {first}, {whole})", f"at the first of {n} for the first of {a}"
        yield FAR, f"where({at} > 0, {first}, {whole})", f"at the first of {n} for all but the first of {a}"


def _stepping(whole: str, axes: list[str]) -> Iterator[tuple[int, str, str]]:
    """From the first of an axis to the next, one entry of the memory too far, or too near; behind the end is zero."""
    sizes = " * ".join(axes)
    for number, a in enumerate(axes[:-1]):
        at = f"range({a})[:{', none' * (len(axes) - 1 - number)}]"
        for sign, says in (("+", "further"), ("-", "less far")):
            place = f"reshape(reshape(range({sizes}), {', '.join(axes)}) {sign} {at}, {sizes})"
            read = f"gather(reshape({whole}, {sizes}), min({place}, {sizes} - 1))"
            text = f"reshape(where({place} < {sizes}, {read}, 0), {', '.join(axes)})"
            yield FAR, text, f"one entry {says} at each of {a}"


def _grouped(whole: str, axes: list[str], m: Mechanism) -> Iterator[tuple[int, str, str]]:
    """Heads that are counted the other way round: through the groups first, or through the members of one."""
    if "heads" in axes and "kv_heads" in m.sizes:
        at, group = axes.index("heads") - len(axes), "(heads // kv_heads)"
        for a, b, says in (("kv_heads", group, "of each group"), (group, "kv_heads", "of all groups")):
            order = f"range(heads) % {a} * {b} + range(heads) // {a}"
            yield RARE, f"gather({whole}, {order}, {at})", f"with the first heads {says} in front"
        if at < -1:
            front, after = axes[:at], axes[at + 1 :]
            split = ", ".join([*front, "kv_heads", group, *after])
            order = ", ".join(
                map(
                    str, [*range(len(front) + 1), len(front) + 2, len(front) + 1, *range(len(front) + 3, len(axes) + 1)]
                )
            )
            text = f"reshape(permute(reshape({whole}, {split}), {order}), {', '.join(axes)})"
            yield RARE, text, f"laid out with {after[0]} before the heads of a group"


def _across(whole: str, axes: list[str]) -> Iterator[tuple[int, str, str]]:
    """Two neighbouring axes that are read in the other order."""
    places = range(len(axes))
    for first, second in itertools.pairwise(places):
        turned = [{first: second, second: first}.get(place, place) for place in places]
        order, sizes = ", ".join(map(str, turned)), ", ".join(axes)
        other = ", ".join(axes[place] for place in turned)
        a, b = axes[first], axes[second]
        yield RARE, f"reshape(permute({whole}, {order}), {sizes})", f"laid out with {b} before {a}"
        yield RARE, f"permute(reshape({whole}, {other}), {order})", f"read as if {b} came before {a}"
    if len(axes) > 1:
        a, b = axes[-2:]
        yield RARE, f"(transpose({whole}) if {a} == {b} else {whole})", "transposed"
