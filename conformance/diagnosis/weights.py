"""The weights of attention, recovered from any implementation by probing.

What is linear in its values `v` has weights: with values that are one at a single key and zero elsewhere, the output is
the weight of that key.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cases.samples import Sample
from ..judging.bench import Bench
from ..judging.settling import Settled
from ..judging.trial import Trial
from ..numerics.formats import half_unit
from ..numerics.grades import result_format

ALIKE = 1e-3
"""The share by which two weights of a row may differ in their factors and still be said to shrink alike."""


@dataclass(frozen=True, slots=True)
class Weights:
    """What a subject and the definition weigh each key by, [..., query, key, channel], and what rounding may do."""

    subject: Any
    definition: Any
    bound: Any

    @property
    def visible(self) -> Any:
        """Which keys have a weight by the definition."""
        return np.abs(self.definition) > self.bound

    @property
    def seen(self) -> Any:
        """Which keys have one by the subject."""
        return ~(np.abs(self.subject) <= self.bound)

    def off(self) -> tuple[Any, Any]:
        """Which weights are off beside the others of their row, and the factor of every row.

        Where one key is seen that should be hidden, all other weights of the row shrink by one factor; they are not to
        blame. A row most of which is off is off as a whole, and so is one that is right but for its factor.
        """
        both, support = self.visible & self.seen, self.visible != self.seen
        raw = ~(np.abs(self.subject - self.definition) <= self.bound)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a row of nothing has no median
            ratios = np.where(both, self.subject / self.definition, np.nan)
            factor = np.nanmedian(ratios, -2, keepdims=True)
            told = support.any(-2, keepdims=True) | (both.sum(-2, keepdims=True) > 2)
            factor = np.where(np.isfinite(factor) & told, factor, 1.0)
            wide = self.bound * (1.0 + np.abs(factor)) + ALIKE * np.abs(factor * self.definition)
            off = support | ~(np.abs(self.subject - factor * self.definition) <= wide)
        beside = (off & both).sum(-2, keepdims=True)
        whole = ~off.any(-2, keepdims=True) | (2 * beside > both.sum(-2, keepdims=True))
        return np.where(whole, raw, off), np.where(whole, 1.0, factor)


def weighted(bench: Bench, sample: Sample) -> bool:
    """Whether a mechanism has weights: its first output has a row of the values' size, and is linear in them."""
    m = bench.mechanism
    name, axes = m.outputs[0], m.shapes.get("v", ())
    if name in m.random or len(axes) < 3 or axes[-2] == "kv_heads":  # keys are not probed where heads stand
        return False
    trial = Trial(bench, sample)
    v, out = sample.values["v"], np.asarray(trial.frames.exact(name, trial.base))
    if out.ndim != v.ndim or out.shape[-1] != v.shape[-1] or not all_finite(sample):
        return False
    one, two = probe(v, 0), np.cos(np.arange(v.size)).reshape(v.shape)
    first, second, third = (trial.frames.exact(name, trial.settle({"v": x})) for x in (one, two, 2 * one - two))
    return bool(np.allclose(2 * first - second, third, rtol=1e-2, atol=1e-2, equal_nan=True))


def probe(v: NDArray[Any], key: int) -> NDArray[np.float64]:
    """Values that are one at a single key."""
    values = np.zeros(v.shape)
    values[..., key, :] = 1.0
    return values


def all_finite(sample: Sample) -> bool:
    """Whether no input holds NaN or an infinity, which no weight keeps out of an output."""
    arrays = (sample.values[name] for name in sample.mechanism.required)
    return all(np.isfinite(x).all() for x in arrays if isinstance(x, np.ndarray) and x.dtype.kind == "f")


def bounded(trial: Trial, name: str, settled: Settled) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What the definition gives as an output, and how far the worst rounding may be from it."""
    bench = trial.bench
    grade = bench.subject.claims.grade(bench.dtype)
    exact = np.asarray(trial.frames.exact(name, settled), float)
    _, _, worst = trial.frames.bound(name, settled, grade)
    reach = np.abs(exact) + np.where(np.isfinite(worst), worst, 0.0)
    return exact, worst + half_unit(reach, result_format(bench.dtype, grade))


def recovered(trial: Trial) -> Weights:
    """The weights on a case, key by key; `Declined` or `Faulted` where the subject does not answer."""
    name, v = trial.mechanism.outputs[0], trial.sample.values["v"]
    found, exact, bound = [], [], []
    for key in range(v.shape[-2]):
        settled = trial.settle({"v": probe(v, key)})
        found.append(trial.observed(name, settled))
        value, radius = bounded(trial, name, settled)
        exact.append(value)
        bound.append(radius)
    return Weights(np.stack(found, -2), np.stack(exact, -2), np.stack(bound, -2))
