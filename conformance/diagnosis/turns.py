"""Which channels are turned with which, and by which position, of what turns pairs of channels as rotary positions do.

Such an output is linear in its input: of an input that is one in a single channel and zero elsewhere, what comes back
is a column of the rotation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..judging.settling import Settled
from ..judging.trial import Trial
from ..mechanisms.mechanism import Mechanism
from .weights import bounded

MOST = 16
"""Channels that are looked at; each costs a call."""
NEAR = 2
"""How far from those of a case other positions are looked at."""


def turns(m: Mechanism) -> bool:
    """Whether a mechanism turns the channels of `x` by one position for each row of it."""
    return m.required[:2] == ("x", "positions") and m.shapes["x"][-2:-1] == m.shapes.get("positions")


def turns_told(trial: Trial) -> str:
    """What is wrong with the pairs or with the positions, in words; nothing where that is not to be told."""
    x, positions = trial.sample.values["x"], trial.sample.values["positions"]
    if not 4 <= x.shape[-1] <= MOST or len(positions) < 2 or not trial.mechanism.outputs:
        return ""
    columns = [_column(trial, channel) for channel in range(x.shape[-1])]
    subject, exact, radius = (np.stack(parts, -1) for parts in zip(*columns, strict=True))
    if (np.abs(subject - exact) <= radius).all():
        return ""
    return pairs_told(np.abs(subject) > radius, np.abs(exact) > radius) or positions_told(
        subject, radius, _elsewhere(trial, others := nearby(positions)), positions, others
    )


def _column(trial: Trial, channel: int) -> tuple[Any, Any, Any]:
    """What becomes of one channel in the first plane, [row, channel]: of the subject, by the definition, the bound."""
    name, x = trial.mechanism.outputs[0], trial.sample.values["x"]
    settled = trial.settle({"x": _one(x.shape, channel)})
    exact, radius = bounded(trial, name, settled)
    found = np.asarray(trial.observed(name, settled), float)
    plane = (0,) * (x.ndim - 2)
    return found[plane], exact[plane], np.broadcast_to(radius, exact.shape)[plane]


def _one(shape: Sequence[int], channel: int) -> Any:
    x = np.zeros(shape)
    x[..., channel] = 1.0
    return x


def nearby(positions: Any) -> Any:
    """The positions that may have been taken for those of a case: near ones, counted and negative ones."""
    near = (positions[:, None] + np.arange(-NEAR, NEAR + 1)).ravel()
    counted = np.arange(len(positions) + 1)
    return np.unique(np.concatenate([near, -positions, counted, positions[0] + counted]))


def _elsewhere(trial: Trial, positions: Any) -> Any:
    """The rotation by other positions, [position, channel, channel of the input]."""
    name, x = trial.mechanism.outputs[0], trial.sample.values["x"]
    shape = (*(1,) * (x.ndim - 2), len(positions), x.shape[-1])

    def column(channel: int) -> Any:
        settled: Settled = trial.settle({"x": _one(shape, channel), "positions": positions})
        return np.asarray(trial.frames.exact(name, settled), float)[(0,) * (x.ndim - 2)]

    return np.stack([column(channel) for channel in range(x.shape[-1])], -1)


def pairs_told(subject: Any, definition: Any) -> str:
    """In words which channels are turned with others than they should be, [row, channel, channel of the input]."""
    found, meant = subject.any(0), definition.any(0)
    wrong = np.flatnonzero((found != meant).any(0))
    if not wrong.size:
        return ""
    channel = int(wrong[0])
    own, other = (set(np.flatnonzero(one[:, channel]).tolist()) - {channel} for one in (found, meant))
    lost = other - own
    more = f", and {wrong.size - 1} more of {meant.shape[1]} channels otherwise" if wrong.size > 1 else ""
    if not own and not found[channel, channel]:
        return f"channel {channel} is lost{more}"
    if not own:
        return f"channel {channel} is not turned, and should be with {_listed(other)}{more}"
    where = f"and not with {_listed(lost)}" if lost else "and should not be"
    return f"channel {channel} is turned with {_listed(own - other or own)}, {where}{more}"


def _listed(channels: set[int]) -> str:
    return " and ".join(f"channel {channel}" for channel in sorted(channels))


def positions_told(subject: Any, radius: Any, elsewhere: Any, positions: Any, others: Any) -> str:
    """In words by which positions rows are turned, if each of them is turned as by one of the `others`, which rise."""
    near = (np.abs(subject[:, None] - elsewhere) <= radius[:, None]).all((-2, -1))

    def turned_by(asked: Any) -> Any:
        """Which rows are turned as by the positions that are asked for."""
        place = np.minimum(np.searchsorted(others, asked), len(others) - 1)
        return near[np.arange(len(positions)), place] & (others[place] == asked)

    own = turned_by(positions)
    if own.all() or not near.any(1).all():
        return ""
    places = np.arange(len(positions))
    patterns = {
        "every row is turned by its place, and not by its position": places,
        "every row is turned by its place, counted from the first position": positions[0] + places,
        "every row is turned as position 0": 0 * positions,
        "every row is turned as the first": 0 * positions + positions[0],
        "every row is turned the other way": -positions,
        **{_moved(by): positions + by for by in range(-NEAR, NEAR + 1) if by},
    }
    for words, asked in patterns.items():
        if turned_by(asked).all():
            return words
    row = int(np.flatnonzero(~own)[0])
    used = others[near[row]][np.abs(others[near[row]] - positions[row]).argmin()]
    return f"row {row}, of position {positions[row]}, is turned as position {used}"


def _moved(by: int) -> str:
    steps = "one position" if abs(by) == 1 else f"{abs(by)} positions"
    return f"every row is turned as {steps} {'later' if by > 0 else 'earlier'}"
