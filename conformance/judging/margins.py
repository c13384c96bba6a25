"""The margins of entries: their errors, in units of their bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..mechanisms.definition import Frame
from ..numerics import budget
from ..numerics.comparing import Comparison

DECADES, PER_DECADE = 4, 4
"""Powers of ten below 1 that errors are counted in, and the parts of each."""
PLACES = 1 + DECADES * PER_DECADE
"""Counts: entries without any error, and those of each part."""
LENGTHS = ("k_len", "q_len", "k_tokens", "q_tokens", "length", "tokens")
"""Sizes that count tokens."""
MOST = 24
"""Lengths, and sizes of scores, of which the worst case is kept."""
SCORES = ("scores", "logits")
"""Lines of definitions that hold what is compared with one another."""


@dataclass(frozen=True, slots=True)
class Margin:
    """The errors of one case: how many entries have which, the largest, and where that stands."""

    counts: NDArray[np.int64]
    worst: float
    row: int
    """Its place along the last axis but one."""
    rows: int


@dataclass(frozen=True, slots=True)
class CaseMargin:
    """The largest error of a case, of its length and with its scores."""

    case: str
    length: int
    worst: float
    row: int
    rows: int
    score: float
    """The largest finite score, without its sign; 0 where there are none."""


@dataclass(slots=True)
class Margins:
    """The errors of the cases on which a law holds."""

    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(PLACES, np.int64))
    by_length: dict[int, CaseMargin] = field(default_factory=dict)
    by_score: dict[int, CaseMargin] = field(default_factory=dict)
    """By the power of two that the largest score is nearest to."""

    @property
    def cases(self) -> list[CaseMargin]:
        """The worst of each length and of each size of scores, each once."""
        return list(dict.fromkeys([*self.by_length.values(), *self.by_score.values()]))

    def add(self, margin: Margin, label: str, sizes: Mapping[str, Any], score: float = 0.0) -> None:
        """Count a case, and keep it if it is the worst of its length, or of its size of scores."""
        self.counts += margin.counts
        # an array of such a name is an input, as the lengths of items are
        found = [sizes[name] for name in LENGTHS if isinstance(sizes.get(name), int | np.integer)]
        length = int(max(found, default=0))
        case = CaseMargin(label, length, margin.worst, margin.row, margin.rows, score)
        if length > 0:
            _keep_worst(self.by_length, length, case)
        if score > 0:
            _keep_worst(self.by_score, round(math.log2(score)), case)


def _keep_worst(cases: dict[int, CaseMargin], key: int, case: CaseMargin) -> None:
    known = cases.get(key)
    if known.worst < case.worst if known else len(cases) < MOST:
        cases[key] = case


def largest_score(frame: Frame) -> float:
    """The largest finite entry of what a definition calls scores, without its sign; 0 where it has none."""
    lines = frame.mechanism.definition
    name = next((name for name in SCORES if name in lines), None)
    with np.errstate(all="ignore"), budget.metered():  # a line that no output needed is computed here
        entries = np.zeros(0) if name is None else np.abs(np.asarray(frame[name], float))
    return float(np.max(entries, initial=0.0, where=np.isfinite(entries)))


def margin_of(records: Sequence[Comparison]) -> Margin | None:
    """The errors of comparisons that hold; None where no bound was needed of any."""
    counts, worst, row, rows = np.zeros(PLACES, np.int64), 0.0, 0, 1
    bounded = [np.asarray(r.units, float) for r in records if np.ndim(r.radius) or r.radius]
    for units in bounded:
        within = units[units <= 1]
        some = within[within > 0]
        places = np.ceil((np.log10(some) + DECADES) * PER_DECADE).astype(np.int64)
        counts += np.bincount(np.clip(places, 1, PLACES - 1), minlength=PLACES)
        counts[0] += within.size - some.size
        if units.size and units.max() > worst:
            worst = float(units.max())
            at = np.unravel_index(int(units.argmax()), units.shape)
            row, rows = (int(at[-2]), units.shape[-2]) if units.ndim > 1 else (0, 1)
    return Margin(counts, worst, row, rows) if bounded else None
