"""The definition on rows of a large case as quickly as it can be had, where it merely says which rows to look at.

Places that no row of a stretch sees are left out, such as keys behind a causal mask or before a window. Inputs of half
precision are computed with in single precision, whose rounding is far below theirs. Where there are very many scores,
their products may be coarse: of factors in bfloat16, by torch, which has instructions of the processor for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..mechanisms.restriction import Restriction, hiding, labels_of, restricted
from ..numerics.formats import FORMATS
from ..numerics.numbers import value
from ..numerics.products import quickly
from .portions import Between, Item, Portions, Rows

HALVES = ("bfloat16", "float16")
"""Dtypes whose rounding is far above that of single precision."""
COARSE = "bfloat16"
"""The dtype of which products may be coarse: factors rounded to it are no worse than what a kernel gives."""
SCORES = 1 << 26
"""Scores from which on it is worth while to import torch for their products."""
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
        self.coarse = self.single and portions.bench.dtype == COARSE and portions.scores >= SCORES
        """Whether products of bfloat16 are worth while."""
        self.mask, self.axis = "", ""
        self.trimmed: Restriction | None = None
        found = hiding(m)
        if found is not None and all(found[1] not in labels_of(m, name) for name in names):
            self.mask, self.axis = found
            try:
                self.trimmed = restricted(m, portions.restriction.axes, trimmed=self.axis)
            except SpecError:
                return

    def outputs(self, item: Item, rows: Rows, *, coarse: bool = False) -> dict[str, Any]:
        """The outputs on some rows of an item; with `coarse`, of products in bfloat16 where that pays."""
        with quickly(coarse=coarse and self.coarse):
            return self._outputs(item, rows)

    def _outputs(self, item: Item, rows: Rows) -> dict[str, Any]:
        portions = self.portions
        frame = portions.frame(item, rows, None, single=self.single)
        if self.trimmed is not None:
            seen = self._seen(value(portions.outputs(frame, [self.mask])[self.mask]))
            if seen is not None:
                try:
                    between = Between(self.trimmed, self.axis, *seen)
                    frame = portions.frame(item, rows, None, single=self.single, between=between)
                    return portions.outputs(frame, self.names)
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
