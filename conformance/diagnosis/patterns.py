"""The places where something is wrong, in words: a diagonal, a tile's edge, one head, the last key, everywhere.

What is looked at is an array of booleans with a noun for each axis; a pattern is named only where it is met exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Truths = Any
"""An array of booleans; NumPy's annotations take what `any` gives along an axis for a single one."""

LISTED = 3
"""Indices that are listed one by one where they form no pattern."""
ORDINALS = {2: "second", 3: "third", 4: "fourth"}
NOUNS = {
    "q_len": "query",
    "k_len": "key",
    "heads": "head",
    "kv_heads": "head",
    "batch": "item",
    "items": "item",
    "tokens": "token",
    "q_tokens": "query",
    "k_tokens": "key",
    "experts": "expert",
    "length": "position",
    "rows": "row",
    "columns": "column",
    "layers": "layer",
    "n": "entry",
    "dim": "channel",
    "head_dim": "channel",
    "value_dim": "channel",
    "axes": "axis",
}
"""What one index of an axis is called; other axes go by the name of their size."""


def noun_of(axis: str | None) -> str:
    """What one index of an axis is called, which is named by its size."""
    return NOUNS.get(axis, singular(axis)) if axis else "entry"


def in_words(wrong: Truths, nouns: Sequence[str], visible: Truths | None = None) -> str:
    """The pattern of the places that are true, nothing where they form none.

    With `visible`, which has the same shape, patterns are also sought in how places lie to what may be seen.
    """
    if not wrong.any():
        return ""
    if wrong.all():
        return "everywhere"
    if visible is None or wrong.ndim < 2:
        return _box(wrong, nouns) or _of_planes(wrong, nouns)
    affected = wrong.any((-2, -1))
    relation = _relation(wrong[affected], np.broadcast_to(visible, wrong.shape)[affected], nouns)
    plain = _of_planes(wrong, nouns)
    if not relation:
        return _box(wrong, nouns) or plain
    planes = wrong[affected]
    same = _plane(planes[0], nouns) if (planes == planes[0]).all() else ""
    return _within(f"{relation} ({same})" if same else relation, affected, nouns)


def _of_planes(wrong: Truths, nouns: Sequence[str]) -> str:
    """What planes of the last two axes have in common, and which planes those are."""
    if wrong.ndim < 2:
        return ""
    affected = wrong.any((-2, -1))
    planes = wrong[affected]
    found = _plane(planes[0], nouns) if (planes == planes[0]).all() else ""
    return _within(found, affected, nouns) if found else ""


def _plane(plane: Truths, nouns: Sequence[str]) -> str:
    return "" if plane.all() else _box(plane, nouns[-2:]) or _diagonal(plane, nouns[-2:]) or _tiles(plane)


def _within(found: str, affected: Truths, nouns: Sequence[str]) -> str:
    """A pattern with the planes that have it, nothing where those are without order."""
    if affected.all():
        return found
    where = _box(affected, nouns[:-2])
    return f"{found}, in {where}" if where else ""


# Along single axes


def _box(wrong: Truths, nouns: Sequence[str]) -> str:
    """The places as all combinations of some indices of each axis, the last axis first."""
    axes = range(wrong.ndim)
    sets = [wrong.any(tuple(other for other in axes if other != axis)) for axis in axes]
    product = np.ones((), bool)
    for some in sets:
        product = product[..., None] & some
    if (product != wrong).any():
        return ""
    named = [indices(some, noun) for some, noun in zip(sets, nouns, strict=True) if not some.all()]
    return " of ".join(reversed(named)) if all(named) else ""


def indices(some: Truths, noun: str) -> str:
    """Some of the indices of an axis, nothing where they are without order."""
    n, chosen = len(some), np.flatnonzero(some).tolist()
    first, last = chosen[0], chosen[-1]
    if len(chosen) == 1:
        return f"the first {noun}" if first == 0 else f"the last {noun}" if first == n - 1 else f"{noun} {first}"
    if len(chosen) == n - 1:
        (missing,) = set(range(n)) - set(chosen)
        if missing in (0, n - 1):
            return f"every {noun} but the {'first' if missing == 0 else 'last'}"
    if last - first == len(chosen) - 1:
        if noun == "channel" and 2 * len(chosen) == n and 0 in (first, n - 1 - last):
            return f"the {'second' if first else 'first'} half of the channels"
        if first == 0:
            return f"the first {len(chosen)} of {n} {plural(noun)}"
        return f"{plural(noun)} from {first} on" if last == n - 1 else f"{plural(noun)} {first} to {last}"
    step = chosen[1] - chosen[0]
    if first < step and chosen == list(range(first, n, step)):
        if first == 0:
            return f"every {ORDINALS[step]} {noun}" if step in ORDINALS else f"{plural(noun)} at multiples of {step}"
        return f"every {ORDINALS.get(step, f'{step}th')} {noun} from {first} on"
    if len(chosen) <= LISTED:
        return f"{plural(noun)} {', '.join(map(str, chosen[:-1]))} and {last}"
    return ""


def singular(name: str) -> str:
    """What one of those is called that a size counts, as a page of `max_pages`."""
    words = name.removeprefix("max_").replace("_", " ")
    return f"{words[:-3]}y" if words.endswith("ies") else words.removesuffix("s")


def plural(noun: str) -> str:
    return f"{noun[:-1]}ies" if noun.endswith("y") and not noun.endswith("ey") else f"{noun}s"


# In the plane of the last two axes


def _diagonal(plane: Truths, nouns: Sequence[str]) -> str:
    """A diagonal, a band, or what lies on one side of a diagonal."""
    rows, columns = plane.shape
    ahead = np.arange(columns) - np.arange(rows)[:, None]
    low, high = int(ahead[plane].min()), int(ahead[plane].max())
    if (plane != ((low <= ahead) & (ahead <= high))).any():
        return ""
    row, column = nouns
    if low == high:
        return f"{column} = {row}{_shifted(low)}"
    if high == ahead.max():
        return f"{column} >= {row}{_shifted(low)}"
    if low == ahead.min():
        return f"{column} <= {row}{_shifted(high)}"
    return f"{row}{_shifted(low)} <= {column} <= {row}{_shifted(high)}"


def _shifted(by: int) -> str:
    return f" {'+' if by > 0 else '-'} {abs(by)}" if by else ""


def _tiles(plane: Truths) -> str:
    """Square tiles along the diagonal, or all that lies outside them."""
    rows, columns = (np.arange(n) for n in plane.shape)
    for side in (2, 4, 8, 16, 32, 64):
        within = rows[:, None] // side == columns // side
        if within.all():
            return ""
        for name, expected in ((f"tiles of {side} by {side}", within), (f"outside tiles of {side} by {side}", ~within)):
            if (plane == expected).all():
                return name
    return ""


def _relation(planes: Truths, visible: Truths, nouns: Sequence[str]) -> str:
    """How the places of every plane lie to what may be seen in it."""
    row, column = nouns[-2:]
    neighbours = {
        f"every hidden {column}": ~visible,
        f"every visible {column}": visible,
        f"the {column} after the last one visible to a {row}": _beside(visible, last=True, inside=False),
        f"the last {column} visible to a {row}": _beside(visible, last=True, inside=True),
        f"the {column} before the first one visible to a {row}": _beside(visible, last=False, inside=False),
        f"the first {column} visible to a {row}": _beside(visible, last=False, inside=True),
    }
    return next((words for words, places in neighbours.items() if (places == planes).all()), "")


def _beside(visible: Truths, *, last: bool, inside: bool) -> Truths:
    """The last or first visible column of every row, or its neighbour outside."""
    found = np.zeros_like(visible)
    for *plane, row in np.argwhere(visible.any(-1)).tolist():
        seen = np.flatnonzero(visible[(*plane, row)])
        column = int(seen[-1 if last else 0]) + (0 if inside else 1 if last else -1)
        if 0 <= column < visible.shape[-1]:
            found[(*plane, row, column)] = True
    return found
