"""Channels of a large case that are summed in groups, to compare rows with less computation.

Where an output is linear in all that has its last axis, as attention is in its values, what the definition gives of
sums of channels are those sums of what it gives, which is tried on some rows. Each channel is added with a sign of its
own, drawn by the case, so that no mistake but by chance cancels.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.restriction import Restriction, labels_of, restricted
from ..numerics.streams import pick

GROUP = 8
"""Channels that are added up."""
LEAST = 4 * GROUP
"""Channels from which on it is worth while."""


@dataclass(frozen=True, slots=True)
class Folded:
    """A definition of which an axis has sums of channels."""

    label: str
    """The size of the axis."""
    sums: NDArray[np.float32]
    """What each channel counts in each sum: [channels, sums]. The sums have the variance of one channel."""
    inputs: frozenset[str]
    """The inputs that have the axis, which is their last."""
    restriction: Restriction
    """The definition for the sums, and for positions of other axes."""
    trimmed: Restriction | None
    """The same, of some places of an axis alone."""

    @property
    def count(self) -> int:
        return self.sums.shape[1]

    def of(self, x: NDArray[np.floating]) -> NDArray[np.floating]:
        """The sums of an array, along its last axis."""
        return x @ self.sums.astype(x.dtype)


def folded(
    mechanism: Mechanism, axes: Collection[str], trimmed: str, names: Sequence[str], channels: int, seed: int
) -> Folded | None:
    """A definition for positions of some axes whose last one has sums; None where inputs have it elsewhere, too.

    `trimmed` is the axis of which only some places may be looked at, if there is one; `names` are the outputs.
    """
    labels = labels_of(mechanism, names[0])
    label = labels[-1] if labels else ""
    others = [each for name in names[1:] for each in labels_of(mechanism, name)]
    if channels < LEAST or label not in mechanism.sizes or label in {*axes, trimmed, *others}:
        return None
    try:
        found = restricted(mechanism, axes, trimmed={label})
        cut = restricted(mechanism, axes, trimmed={label, trimmed}) if trimmed else None
    except SpecError:
        return None
    shapes = {name: [shape for shape in found.shapes[name] if label in shape] for name in mechanism.inputs}
    own = {name for name, some in shapes.items() if some}
    if any(label in shape[:-1] for name in own for shape in shapes[name]):
        return None
    groups = np.arange(channels) // GROUP
    signs = np.array([1.0 if pick(2, seed, "sign", at) else -1.0 for at in range(channels)])
    sums = signs[:, None] * (groups[:, None] == np.arange(groups[-1] + 1)) / np.sqrt(np.bincount(groups))
    return Folded(label, sums.astype(np.float32), frozenset(own), found, cut)
