"""Where a subject is wrong, as a small map and in words.

What is linear in its values `v` has weights, and they are recovered from any black box: with values that are one at a
single key and zero elsewhere, the output is the weight of that key.
Of everything else, the entries of an output that are wrong are put into words.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cases import Sample
from .cells import Failure
from .errors import SpecError
from .formats import half_unit
from .grades import result_format
from .patterns import in_words
from .plans import PROFILES, plan
from .trial import Bench, Declined, Faulted, Stray, Trial

ROWS, COLUMNS = 6, 60
"""The largest map."""
PROBED = 3
"""Cases on which weights are recovered, in search of one where they differ."""
LARGE = 20_000
"""Entries of a case beyond which no map is made of it."""
EVERYTHING = ("everywhere", "every key that may be seen")
"""Patterns that need no picture."""
NOUNS = {
    "q_len": "query",
    "k_len": "key",
    "heads": "head",
    "kv_heads": "head",
    "batch": "item",
    "length": "position",
    "rows": "row",
    "columns": "column",
    "layers": "layer",
    "n": "entry",
    "dim": "channel",
    "head_dim": "channel",
    "value_dim": "channel",
}
"""What one index of an axis is called; other axes go by the name of their size."""


@dataclass(frozen=True, slots=True)
class Map:
    """Where a subject is wrong."""

    words: str
    """What is wrong, and where, as far as it forms a pattern."""
    case: str
    """The label of the case that it is seen on."""
    rows: tuple[str, ...] = ()
    """A row for each query and a letter for each key: `.` hidden, `o` as it should be, `+` and `-` too much and too
    little beside the others of its row, `!` no number."""
    first: int = 0
    """The query of the first row."""
    plane: str = ""
    """Which of several planes is shown."""
    named: bool = True
    """Whether what is wrong forms a pattern."""


def mapped(bench: Bench, failure: Failure, seed: int) -> Map | None:
    """Of the weights, if there are any, else of the first output that is wrong; None where nothing is to be seen."""
    try:
        with np.errstate(all="ignore"):
            shaped = attention_shaped(bench, failure.found)
            return _weights(bench, failure, seed) if shaped else _output(bench, failure)
    except (Declined, Faulted, Stray, SpecError):
        return None


# Weights


def attention_shaped(bench: Bench, sample: Sample) -> bool:
    """Whether a mechanism takes averages of its values `v`: the first output has a row of their size for each query."""
    m = bench.mechanism
    name, axes = m.outputs[0], m.shapes.get("v", ())
    if name in m.random or len(axes) < 3:
        return False
    trial = Trial(bench, sample)
    v, out = sample.values["v"], np.asarray(trial.exact(name, trial.base))
    if out.ndim != v.ndim or out.shape[-1] != v.shape[-1] or not _finite(sample):
        return False
    one, two = _probe(v, 0), np.cos(np.arange(v.size)).reshape(v.shape)
    found = [np.asarray(trial.exact(name, trial.settle({"v": x}))) for x in (one, two, 2 * one - two)]
    return bool(np.allclose(2 * found[0] - found[1], found[2], rtol=1e-3, atol=1e-3, equal_nan=True))


def _probe(v: NDArray[Any], key: int) -> NDArray[np.float64]:
    """Values that are one at a single key."""
    probe = np.zeros(v.shape)
    probe[..., key, :] = 1.0
    return probe


def _finite(sample: Sample) -> bool:
    arrays = (sample.values[name] for name in sample.mechanism.required)
    return all(np.isfinite(x).all() for x in arrays if isinstance(x, np.ndarray) and x.dtype.kind == "f")


def _weights(bench: Bench, failure: Failure, seed: int) -> Map | None:
    found: list[Map] = []
    for sample in _fitting(bench, failure, seed):
        trial = Trial(bench, sample)
        one = _recovered(trial) if _differs(trial) else None
        if one is not None:
            found.append(one)
            if one.named or len(found) == PROBED:
                break
    return next((one for one in found if one.named), found[0] if found else None)


def _fitting(bench: Bench, failure: Failure, seed: int) -> list[Sample]:
    """Cases whose map would fit, first those that are seen best."""
    claims = bench.subject.claims
    scenarios = plan(bench.mechanism, claims, PROFILES["quick"], seed, bench.dtype).scenarios
    possible = [s for s in dict.fromkeys((failure.found, *scenarios)) if _fits(s)]
    return sorted(possible, key=lambda sample: _illegible(bench, sample))


def _fits(sample: Sample) -> bool:
    return 2 <= sample.values["v"].shape[-2] <= COLUMNS and sample.entries <= LARGE and _finite(sample)


def _illegible(bench: Bench, sample: Sample) -> int:
    """How far a case is from few queries and keys, and from no masks and the like."""
    trial = Trial(bench, sample)
    queries, keys = trial.shape(bench.mechanism.outputs[0], trial.base)[-2], sample.values["v"].shape[-2]
    arrays = sum(isinstance(sample.values[name], np.ndarray) for name in bench.mechanism.optional)
    return int(abs(keys - 10) + 3 * abs(queries - ROWS) + 6 * arrays)


def _differs(trial: Trial) -> bool:
    """Whether the subject is wrong on a case."""
    name = trial.mechanism.outputs[0]
    try:
        found = trial.observed(name, trial.base)
    except (Declined, Faulted):
        return False
    value, radius = _bound(trial, name, trial.base)
    return bool((~(np.abs(found - value) <= radius) & ~np.isnan(value)).any())


def _bound(trial: Trial, name: str, settled: Any) -> tuple[Any, Any]:
    """What the definition gives, and how far the worst rounding may be from it."""
    bench = trial.bench
    grade = bench.subject.claims.grade(bench.dtype)
    exact = np.asarray(trial.exact(name, settled), float)
    _, _, worst = trial.bound(name, settled, grade)
    rounding = half_unit(np.abs(exact) + np.where(np.isfinite(worst), worst, 0.0), result_format(bench.dtype, grade))
    return exact, worst + rounding


def _recovered(trial: Trial) -> Map | None:
    """The weights of subject and definition, key by key, and where they differ."""
    name, v = trial.mechanism.outputs[0], trial.sample.values["v"]
    found, exact, radius = [], [], []
    for key in range(v.shape[-2]):
        settled = trial.settle({"v": _probe(v, key)})
        found.append(trial.observed(name, settled))
        value, worst = _bound(trial, name, settled)
        exact.append(value)
        radius.append(worst)
    subject, definition, bound = (np.stack(parts, -2) for parts in (found, exact, radius))  # ..., query, key, channel
    wrong, share = off_balance(subject, definition, bound)
    if not wrong.any():
        return None
    nouns = [_noun(axis) for axis in trial.mechanism.shapes["v"][:-2]]
    visible = np.abs(definition) > bound
    flat, seen = wrong.any(-1), visible.any(-1)
    pattern = in_words(flat, [*nouns, "query", "key"], seen)
    channels = wrong.any(tuple(range(wrong.ndim - 1)))
    if pattern and not channels.all():
        pattern += f", in {in_words(channels, ['channel']) or 'some channels'}"
    words = _told(subject, definition, bound, wrong, pattern)
    if pattern in EVERYTHING:
        return Map(words, trial.sample.case.label)
    plane = tuple(int(i) for i in np.argwhere(flat.any((-2, -1)))[0])
    more = (subject - share * definition)[plane]
    lost = np.isnan(subject)[plane]
    letters = np.where(seen[plane], "o", ".")
    letters = np.where(flat[plane], np.where(more.sum(-1) > 0, "+", "-"), letters)
    letters = np.where((lost & wrong[plane]).any(-1), "!", letters)
    first = _window(flat[plane].any(-1))
    rows = tuple("".join(row) for row in letters[first : first + ROWS])
    at = ", ".join(f"{noun} {i}" for noun, i, n in zip(nouns, plane, flat.shape[:-2], strict=True) if n > 1)
    return Map(words, trial.sample.case.label, rows, first, at, bool(pattern))


def _window(affected: NDArray[np.bool_]) -> int:
    """The first row to be shown, so that most of what is wrong is seen."""
    starts = range(max(1, len(affected) - ROWS + 1))
    return max(starts, key=lambda start: (int(affected[start : start + ROWS].sum()), -start))


def off_balance(subject: Any, definition: Any, bound: Any) -> tuple[NDArray[np.bool_], Any]:
    """Which weights are off beside the others of their row, along the axis before the last, and the rows' own factors.

    Where one key is seen that should be hidden, all other weights of the row shrink by one factor; they are not to
    blame. A row most of which is off is off as a whole, and so is one that is right but for its factor.
    """
    visible, seen = np.abs(definition) > bound, ~(np.abs(subject) <= bound)
    both = visible & seen
    support = visible != seen
    raw = ~(np.abs(subject - definition) <= bound)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a row of nothing has no median
        factor = np.nanmedian(np.where(both, subject / definition, np.nan), -2, keepdims=True)
        told = support.any(-2, keepdims=True) | (both.sum(-2, keepdims=True) > 2)
        factor = np.where(np.isfinite(factor) & told, factor, 1.0)
        wide = bound * np.maximum(1.0, np.abs(factor)) + 1e-3 * np.abs(factor * definition)
        off = support | ~(np.abs(subject - factor * definition) <= wide)
    beside = (off & both).sum(-2, keepdims=True)
    whole = ~off.any(-2, keepdims=True) | (2 * beside > both.sum(-2, keepdims=True))
    return np.where(whole, raw, off), np.where(whole, 1.0, factor)


def _told(subject: Any, definition: Any, bound: Any, wrong: Any, pattern: str) -> str:
    """A pattern with what is the matter there."""
    if np.isnan(subject[wrong]).all():
        return f"no numbers: {pattern}" if pattern else "no numbers in places"
    hidden, unseen = (np.abs(definition) <= bound)[wrong], (np.abs(subject) <= bound)[wrong]
    if hidden.all():
        kind = "weight where there should be none"
    elif unseen.all():
        kind = "no weight where there should be some"
    elif (hidden | unseen).all():
        kind = "weight where there should be none, and none where there should be"
    else:
        kind = "other weights"
    if not pattern or pattern == "everywhere":
        return f"{kind} {pattern}".strip()
    return f"{kind}: {pattern}"


def _noun(axis: str | None) -> str:
    return NOUNS.get(axis or "", axis or "entry")


# Entries of an output


def _output(bench: Bench, failure: Failure) -> Map | None:
    trial = Trial(bench, failure.found)
    for name in bench.mechanism.outputs:
        if name in bench.mechanism.random or name in bench.mechanism.normal_form:
            continue
        try:
            found = np.asarray(trial.observed(name, trial.base), float)
        except Declined:
            continue
        exact, radius = _bound(trial, name, trial.base)
        wrong = ~(np.abs(found - exact) <= radius) & ~((found == exact) | np.isnan(exact))
        if wrong.any() and wrong.size > 1:
            nouns = _axes(bench, trial, wrong.shape)
            words = in_words(wrong, nouns) if len(set(nouns)) == len(nouns) else ""
            told = words and words != "everywhere"
            return Map(f"{name} is wrong at {words}", failure.found.case.label) if told else None
    return None


def _axes(bench: Bench, trial: Trial, shape: Sequence[int]) -> list[str]:
    """What the indices of an output's axes are called: as in an input of that shape, else by sizes of these lengths."""
    m, values = bench.mechanism, trial.sample.values
    for name, axes in m.shapes.items():
        if np.shape(values[name]) == tuple(shape) and len(axes) == len(shape):
            return [_noun(axis) for axis in axes]
    lengths = [values[name] for name in m.sizes]
    unique = {values[name]: name for name in m.sizes if lengths.count(values[name]) == 1}
    return [_noun(unique.get(length)) for length in shape]
