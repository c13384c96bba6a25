"""Cases of a workload: the recorded calls of a program, with drawn arrays.

All of a call is in its case, so that it is found again without its workload: sizes and options, the choices by which
optional inputs have the shapes that were seen, and how arrays lie.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..language.scopes import Values
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.restriction import restrictable
from ..mechanisms.workloads import Use
from ..numerics import budget
from ..numerics.drawn import Drawn
from ..subjects.claims import Claims
from .applicability import pins, plain_options, undeclared
from .drawing import seed_of
from .large import LARGE, ROOM, LargeSample
from .samples import Case, Sample, Unfit

WORKED = "workload."
"""What the names of verdicts on calls of a workload begin with."""
STRIDED = "strided "
"""What a memory layout begins with that names strides."""
WAYS = 500
"""Ways to draw one input that are looked at."""
LIES = re.compile(rf"{STRIDED}\w+=\d+(\.\d+)*( \w+=\d+(\.\d+)*)*")
"""Such a layout, as it is written."""
_PARTITION = re.compile(r"partition\((\w+), (\w+)\)")


class WorkedSample(LargeSample):
    """A call of a workload, whose arrays are keys, and lie as they were seen."""

    def keyed(self, name: str, entries: int) -> bool:
        return name in strides_in(self.layout) or super().keyed(name, entries)

    @property
    def handed(self) -> dict[str, Any]:
        found, lies = dict(self.values), strides_in(self.layout)
        drawn = {name: x for name in lies if isinstance(x := found[name], Drawn)}
        return found | {name: replace(x, strides=lies[name]) for name, x in drawn.items()}


def worked_sample(mechanism: Mechanism, use: Use, claims: Claims, dtype: str, seed: int) -> Sample | str:
    """The case of a call, or why a subject is not asked for it."""
    reason = undeclared(mechanism, claims)
    if reason is not None:
        return reason
    pinned, fixed = pins(mechanism, claims), dict[str, Any]()
    for name, default in plain_options(mechanism).items():
        fixed[name] = mechanism.meant(name, use.options[name]) if name in use.options else default
    fixed |= {name: x for name, x in use.options.items() if name not in fixed}
    for name in {*use.options, *use.optional} & {*pinned}:
        if name in use.optional or fixed[name] != pinned[name]:
            return f"does not take {name}" + (f" = {fixed[name]}" if name in use.options else "")
    fixed = {**fixed, **{n: x for n, x in pinned.items() if n not in use.options}, **use.sizes}
    picks: dict[str, int] = {}
    for name, shape in use.optional.items():
        fixed.pop(name, None)
        found = _picked(mechanism, name, shape, fixed)
        if found is None:
            return f"{name} of {list(shape)} is never drawn"
        picks |= found
    literals = {name: x for name, most in use.most.items() if (x := _lengths(mechanism, name, most, use)) is not None}
    label, lies = f"{WORKED}{use.key}", _told(use.strides)
    case = Case(
        mechanism.name, label, seed_of(seed, mechanism.name, label), fixed, picks, layout=lies, literals=literals
    )
    try:
        return worked(mechanism, case, claims, dtype)
    except (Unfit, SpecError) as error:
        return str(error).splitlines()[0]


def worked(mechanism: Mechanism, case: Case, claims: Claims, dtype: str) -> Sample:
    """The sample of such a case: of large arrays or of those that lie in their own way, keys; `Unfit` as of any."""
    entries = sum(_entries(mechanism, name, case.fixed) for name in mechanism.required)
    if restrictable(mechanism) and (entries >= LARGE or case.layout.startswith(STRIDED)):
        with budget.roomy(ROOM):
            return WorkedSample(mechanism, case, dtype, claims=claims)
    return Sample(mechanism, case, dtype, claims=claims)


def strides_in(layout: str) -> dict[str, tuple[int, ...]]:
    """The strides that a memory layout names, of each array; none of any other layout."""
    if not layout.startswith(STRIDED):
        return {}
    parts = (part.split("=") for part in layout.removeprefix(STRIDED).split(" "))
    return {name: tuple(map(int, own.split("."))) for name, own in parts}


def _told(strides: Mapping[str, tuple[int, ...]]) -> str:
    own = " ".join(f"{name}={'.'.join(map(str, each))}" for name, each in strides.items())
    return f"{STRIDED}{own}" if own else "contiguous"


def _entries(mechanism: Mechanism, name: str, sizes: Mapping[str, Any]) -> int:
    shape = [sizes.get(size or "", 1) for size in mechanism.shapes.get(name, ())]
    return int(np.prod([n for n in shape if isinstance(n, int)], dtype=object)) if shape else 0


def _picked(mechanism: Mechanism, name: str, shape: tuple[int, ...], known: Mapping[str, Any]) -> dict[str, int] | None:
    """The choices by which an optional input is drawn in a shape; None where none are."""
    expression = mechanism.inputs[name]
    sites = [site for site in expression.draws if site.name in ("choice", "maybe", "every")]
    counts = [site.count or 2 for site in sites]
    for indices in itertools.islice(itertools.product(*map(range, counts)), WAYS):
        picks = {site.ordinal: index for site, index in zip(sites, indices, strict=True)}
        with np.errstate(all="ignore"), budget.roomy(ROOM):
            found = expression(_Shapes(known, picks))
        if isinstance(found, np.ndarray) and found.shape == shape:
            return {f"{name}.{ordinal}": index for ordinal, index in picks.items()}
    return None


class _Shapes(Values):
    """An environment of sizes, in which arrays are drawn that take no memory."""

    def __init__(self, values: Mapping[str, Any], picks: Mapping[int, int]) -> None:
        super().__init__(values, "float64")
        self.picks = picks

    def source(self, ordinal: int) -> _Unmade:
        return _Unmade(self.picks.get(ordinal, 0))


class _Unmade:
    """The source of one draw."""

    def __init__(self, picked: int) -> None:
        self.picked = picked

    def pick(self, count: int) -> int:
        return self.picked % max(count, 1)

    def normal(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return np.broadcast_to(0.0, shape)

    uniform = normal

    def below(self, limit: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
        return np.broadcast_to(np.int64(0), shape)

    def permutation(self, n: int) -> NDArray[np.int64]:
        return np.arange(n)


def _lengths(mechanism: Mechanism, name: str, most: int, use: Use) -> NDArray[np.int64] | None:
    """Lengths of which one is the largest that was seen, and the others share the rest; None where they do not fit."""
    parts = _PARTITION.fullmatch(mechanism.inputs[name].text)
    if parts is None:
        return None
    total, count = use.sizes[parts[1]], use.sizes[parts[2]]
    if not (count > 0 and most <= total <= count * most):
        return None
    each, more = divmod(total - most, max(count - 1, 1))
    return np.array([most, *[each + 1] * more, *[each] * (count - 1 - more)], np.int64)
