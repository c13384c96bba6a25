"""Where a subject is wrong: its weights as a small map, if it has any, and the pattern of the wrong places in words."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cases.plans import plan
from ..cases.profiles import PROFILES
from ..cases.samples import Sample
from ..errors import SpecError
from ..judging.bench import Bench
from ..judging.bounds import Stray
from ..judging.cells import Failure
from ..judging.settling import Declined
from ..judging.trial import Faulted, Trial
from .patterns import in_words, noun_of
from .shares import MOST as HEADS
from .shares import shared_outputs, shares_told
from .steering import EXPLAINED_ENTRIES
from .turns import turns, turns_told
from .weights import Weights, all_finite, bounded, recovered, weighted

ROWS, COLUMNS = 6, 60
"""The largest map."""
PROBED = 3
"""Cases on which weights are recovered, in search of one where they differ."""
EVERYTHING = ("everywhere", "every visible key")
"""Patterns that need no picture."""


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
    subject: tuple[tuple[float, ...], ...] = ()
    """The weights of the rows that are shown, a row for each query; the mean over channels."""
    definition: tuple[tuple[float, ...], ...] = ()
    """The weights that they should be."""


def mapped(bench: Bench, failure: Failure, seed: int) -> Map | None:
    """Of the weights, if they differ, else of the first output that does; None where nothing is to be seen."""
    try:
        with np.errstate(all="ignore"):
            has_weights = weighted(bench, failure.found)
            drawn = _weights(bench, failure, seed) if has_weights else None
            return drawn or _gradients(bench, failure, seed) or _turns(bench, failure, seed) or _output(bench, failure)
    except (Declined, Faulted, Stray, SpecError):
        return None


# Weights


def _weights(bench: Bench, failure: Failure, seed: int) -> Map | None:
    found: list[Map] = []
    for sample in _fitting(bench, failure, seed):
        trial = Trial(bench, sample)
        one = _map(recovered(trial), trial) if _differs(trial) else None
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
    return 2 <= sample.values["v"].shape[-2] <= COLUMNS and sample.entries <= EXPLAINED_ENTRIES and all_finite(sample)


def _illegible(bench: Bench, sample: Sample) -> int:
    """How far a case is from few queries and keys, and from no masks and the like."""
    trial = Trial(bench, sample)
    queries, keys = trial.frames.shape(bench.mechanism.outputs[0], trial.base)[-2], sample.values["v"].shape[-2]
    arrays = sum(isinstance(sample.values[name], np.ndarray) for name in bench.mechanism.optional)
    return int(abs(keys - 10) + 3 * abs(queries - ROWS) + 6 * arrays)


def _differs(trial: Trial) -> bool:
    """Whether the subject is wrong on a case."""
    name = trial.mechanism.outputs[0]
    try:
        found = trial.observed(name, trial.base)
    except (Declined, Faulted):
        return False
    value, radius = bounded(trial, name, trial.base)
    return bool((~(np.abs(found - value) <= radius) & ~np.isnan(value)).any())


def _map(weights: Weights, trial: Trial) -> Map | None:
    """Where the weights of subject and definition differ; None where they do not."""
    label, (wrong, factor) = trial.sample.case.label, weights.off()
    if not wrong.any():
        return None
    nouns = [noun_of(axis) for axis in trial.mechanism.shapes["v"][:-2]]
    flat, seen = wrong.any(-1), weights.visible.any(-1)
    pattern = in_words(flat, [*nouns, "query", "key"], seen)
    channels = wrong.any(tuple(range(wrong.ndim - 1)))
    if pattern and not channels.all():
        pattern += f", in {in_words(channels, ['channel']) or 'some channels'}"
    words = _told(weights, wrong, pattern)
    plane = tuple(int(i) for i in np.argwhere(flat.any((-2, -1)))[0])
    first = _window(flat[plane].any(-1))
    pictured = [_picture(x[plane], first) for x in (weights.subject, weights.definition)]
    if pattern.partition(", in ")[0] in EVERYTHING:
        return Map(words, label, first=first, subject=pictured[0], definition=pictured[1])
    more = (np.abs(weights.subject) - np.abs(factor * weights.definition))[plane].sum(-1) > 0
    letters = np.where(flat[plane], np.where(more, "+", "-"), np.where(seen[plane], "o", "."))
    letters = np.where((np.isnan(weights.subject) & wrong)[plane].any(-1), "!", letters)
    rows = tuple("".join(row) for row in letters[first : first + ROWS])
    at = ", ".join(f"{noun} {i}" for noun, i, n in zip(nouns, plane, flat.shape[:-2], strict=True) if n > 1)
    return Map(words, label, rows, first, at, bool(pattern), *pictured)


def _picture(weights: Any, first: int) -> tuple[tuple[float, ...], ...]:
    """The weights of the rows that are shown, [query, key, channel], as their means over channels."""
    return tuple(tuple(row) for row in weights[first : first + ROWS].mean(-1).tolist())


def _window(affected: Any) -> int:
    """The first row to be shown, so that most of what is wrong is seen."""
    starts = range(max(1, len(affected) - ROWS + 1))
    return max(starts, key=lambda start: (int(affected[start : start + ROWS].sum()), -start))


def _told(weights: Weights, wrong: Any, pattern: str) -> str:
    """A pattern with what is the matter there."""
    hidden, unseen = ~weights.visible[wrong], ~weights.seen[wrong]
    if np.isnan(weights.subject[wrong]).all():
        kind = "NaN"
    elif hidden.all():
        kind = "weight on hidden keys"
    elif unseen.all():
        kind = "no weight on visible keys"
    elif (hidden | unseen).all():
        kind = "weight on hidden keys, and none on visible keys"
    else:
        kind = "other weights"
    if not pattern or pattern == "everywhere":
        return f"{kind} {pattern}".strip()
    return f"{kind}: {pattern}"


# Gradients


def _gradients(bench: Bench, failure: Failure, seed: int) -> Map | None:
    """Which query heads have a share in the gradients of keys and values, if that is not as it should be."""
    m, claims = bench.mechanism, bench.subject.claims
    if not m.gradient_of or "d_out" not in m.required or not shared_outputs(m):
        return None
    scenarios = plan(m, claims, PROFILES["quick"], seed, bench.dtype).scenarios
    fit = [s for s in scenarios if s.values["kv_heads"] < s.values["heads"] <= HEADS and s.mechanism is m]
    telling = sorted((s for s in fit if all_finite(s)), key=lambda s: (s.values["kv_heads"] == 1, s.entries))
    for sample in telling[:PROBED]:
        trial = Trial(bench, sample)
        words = "" if _place(bench, trial) is None else shares_told(trial)
        if words:
            return Map(words, sample.case.label)
    return None


# Turned pairs


def _turns(bench: Bench, failure: Failure, seed: int) -> Map | None:
    """Which channels are turned with which, and by which positions, if that is not as it should be."""
    m, claims = bench.mechanism, bench.subject.claims
    if not turns(m):
        return None
    scenarios = plan(m, claims, PROFILES["quick"], seed, bench.dtype).scenarios
    fit = [s for s in (failure.found, *scenarios) if s.mechanism is m and all_finite(s)]
    wrong = (trial for trial in (Trial(bench, s) for s in fit) if _differs(trial))
    for trial in itertools.islice(wrong, PROBED):
        words = turns_told(trial)
        if words:
            return Map(words, trial.sample.case.label)
    return None


# Entries of an output


def place_of(bench: Bench, sample: Sample) -> str:
    """Which entries of the first wrong output are wrong, in words; nothing where that is all of them, or no pattern."""
    try:
        with np.errstate(all="ignore"):
            found = _place(bench, Trial(bench, sample))
    except (Declined, Faulted, Stray, SpecError):
        return ""
    return "" if found is None or found[1] == "everywhere" else found[1]


def _output(bench: Bench, failure: Failure) -> Map | None:
    found = _place(bench, Trial(bench, failure.found))
    if found is None or found[1] in ("", "everywhere"):
        return None
    return Map(f"{found[0]} is wrong at {found[1]}", failure.found.case.label)


def _place(bench: Bench, trial: Trial) -> tuple[str, str] | None:
    """The first output that is wrong, and at which of its entries."""
    for name in bench.mechanism.outputs:
        if name in bench.mechanism.random or name in bench.mechanism.normal_form:
            continue
        try:
            found = np.asarray(trial.observed(name, trial.base), float)
        except Declined:
            continue
        exact, radius = bounded(trial, name, trial.base)
        wrong = ~(np.abs(found - exact) <= radius) & ~((found == exact) | np.isnan(exact))
        if wrong.any() and wrong.size > 1:
            nouns = _axes(bench, trial, wrong.shape)
            return name, in_words(wrong, nouns) if len(set(nouns)) == len(nouns) else ""
    return None


def _axes(bench: Bench, trial: Trial, shape: Sequence[int]) -> list[str]:
    """What the indices of an output's axes are called: as in an input of that shape, else by sizes of these lengths."""
    m, values = bench.mechanism, trial.sample.values
    for name, axes in m.shapes.items():
        if np.shape(values[name]) == tuple(shape) and len(axes) == len(shape):
            return [noun_of(axis) for axis in axes]
    lengths = [values[name] for name in m.sizes]
    unique = {values[name]: name for name in m.sizes if lengths.count(values[name]) == 1}
    return [noun_of(unique.get(length)) for length in shape]
