"""The definition on rows of a large case without bounds, as fast as possible, to select the rows to judge.

Places that no row of a stretch sees are left out, such as keys behind a causal mask or before a window. Inputs of half
precision are computed with in single precision, whose rounding is far below theirs. Where there are very many scores,
channels are added up where the definition is linear in them, exponentials are taken by torch, and products are coarse
where the processor has instructions for it: of factors in bfloat16.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..mechanisms.restriction import Restriction, hiding, labels_of, restricted
from ..numerics.formats import FORMATS
from ..numerics.numbers import value
from ..numerics.products import bfloat16_is_quick, quickly
from ..numerics.workspace import Workspace
from .folding import Folded, folded
from .portions import STRETCH, Between, Item, Portions, Rows

HALVES = ("bfloat16", "float16")
"""Dtypes whose rounding is far above that of single precision."""
COARSE = "bfloat16"
"""The dtype of which products may be coarse: factors rounded to it are no worse than what a kernel gives."""
SCORES = 1 << 26
"""Scores from which on it is worth while to import torch for their products."""
LINEAR = 1e-3
"""The share of the largest entry up to which what is given of sums may differ from sums of what is given."""
FEWER = 0.9
"""The share of the places of an axis up to which it is worth while to leave the others out."""


class Quick:
    """Rows of a large case without their bounds."""

    def __init__(self, portions: Portions, names: Sequence[str]) -> None:
        """`names` are the outputs that are asked for."""
        self.portions, self.names = portions, names
        m = portions.mechanism
        self.single = portions.bench.dtype in HALVES and all(
            m.dtype_of(name, portions.bench.dtype) in FORMATS for name in m.inputs
        )
        self.coarse = self.single and portions.scores >= SCORES
        """Whether it is worth while to compare coarsely."""
        self.halved = self.coarse and portions.bench.dtype == COARSE and bfloat16_is_quick()
        """Whether products of bfloat16 are."""
        self.workspace = Workspace() if self.coarse else None
        if self.coarse:  # of which each takes half the memory
            portions.stretch = 2 * STRETCH
        self.mask, self.axis = "", ""
        self.trimmed: Restriction | None = None
        found = hiding(m)
        if found is not None and all(found[1] not in labels_of(m, name) for name in names):
            self.mask, self.axis = found
            with contextlib.suppress(SpecError):
                self.trimmed = restricted(m, portions.restriction.axes, trimmed={self.axis})
        self.looked = 0
        """At how many places of the axis the last rows looked; 0 where that is not known."""
        self._folded: Folded | None = None
        self._tried = not self.coarse

    def outputs(self, item: Item, rows: Rows, *, coarse: bool = False) -> dict[str, Any]:
        """The outputs on some rows of an item; with `coarse`, of products in bfloat16 where that pays."""
        with quickly(coarse=coarse and self.halved, workspace=self.workspace):
            return self._outputs(item, rows, None)

    def sums(self, item: Item, rows: Rows) -> tuple[Folded, dict[str, Any]] | None:
        """The outputs on some rows of an item, of which the first has sums of channels; None where it cannot have."""
        if not self._tried:
            self._tried, self._folded = True, self._linear(item, rows)
        if self._folded is None:
            return None
        with quickly(coarse=self.halved, workspace=self.workspace):
            return self._folded, self._outputs(item, rows, self._folded)

    def _linear(self, item: Item, rows: Rows) -> Folded | None:
        """How channels are added up, if what is given of sums is the sums of what is given on some rows."""
        portions, first = self.portions, self.names[0]
        axes, trimmed = portions.restriction.axes, self.axis if self.trimmed is not None else ""
        channels, seed = portions.shapes[first][-1], portions.sample.case.seed
        found = folded(portions.mechanism, axes, trimmed, self.names, channels, seed)
        if found is None:
            return None
        with quickly(workspace=self.workspace):
            whole, sums = (np.asarray(self._outputs(item, rows[:64], each)[first]) for each in (None, found))
        expected = found.of(whole)
        near = LINEAR * float(np.abs(expected).max(initial=0))
        return found if sums.shape == expected.shape and np.abs(sums - expected).max(initial=0) <= near else None

    def _outputs(self, item: Item, rows: Rows, sums: Folded | None) -> dict[str, Any]:
        portions = self.portions
        frame = portions.frame(item, rows, None, single=self.single, sums=sums)
        trimmed, self.looked = self.trimmed if sums is None else sums.trimmed, 0
        if self.trimmed is not None and trimmed is not None:
            allowed = value(portions.outputs(frame, [self.mask])[self.mask])
            seen = self._seen(allowed)
            if seen is not None:
                try:
                    between = Between(trimmed, self.axis, *seen)
                    frame = portions.frame(item, rows, None, single=self.single, between=between, sums=sums)
                    frame.memo[self.mask] = allowed[..., between.start : between.stop]
                    found = portions.outputs(frame, self.names)
                    self.looked = between.stop - between.start
                    return found
                except (SpecError, ValueError, IndexError):
                    self.trimmed = None  # something is computed of the whole axis
        return portions.outputs(frame, self.names)

    def _seen(self, allowed: NDArray[np.bool_]) -> tuple[int, int] | None:
        """From where to where some row sees something, where that is much less than everything.

        None where a row sees nothing, whose output may be made of all there is.
        """
        n = self.portions.sizes[self.axis]
        if np.ndim(allowed) == 0 or allowed.shape[-1] != n or not allowed.any(axis=-1).all():
            return None
        seen = np.flatnonzero(allowed.any(axis=tuple(range(allowed.ndim - 1))))
        if not len(seen) or seen[-1] + 1 - seen[0] > FEWER * n:
            return None
        return int(seen[0]), int(seen[-1]) + 1
