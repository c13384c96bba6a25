"""Each option of a subject beyond a tile: alone, and all of them together, at sizes that a specification names."""

from __future__ import annotations

from collections.abc import Iterator

from ..mechanisms.mechanism import Mechanism
from ..subjects.claims import Claims
from .applicability import applicable, pins, plain_options
from .drawing import drawn, seed_of
from .samples import Case, Sample


def each_option(mechanism: Mechanism, claims: Claims, seed: int, dtype: str, *, few: bool = False) -> Iterator[Sample]:
    """The samples of the settings under `for_each_option`: without options, with each one, and with all of them.

    Alone, an option has the first of its values beside the usual one, together with others the second, if there is one;
    an optional input is given.
    Those with one option are left out if only a `few` are wanted.
    """
    pinned = pins(mechanism, claims)
    plain = {**plain_options(mechanism), **pinned}
    for name, setting in mechanism.for_each_option.items():
        if not applicable(setting.assigned, pinned):
            continue
        free = [x for x in (*mechanism.optional, *mechanism.options) if x not in pinned and x not in setting.assigned]
        tried = {x: pick for x in free if (pick := _pick(mechanism, x)) is not None}
        together = {f"{name} with all options": tuple(tried)} if len(tried) > 1 else {}
        alone = {} if few else {f"{name} with {x}": (x,) for x in tried}
        for label, given in ({name: ()} | alone | together).items():
            fixed = {x: value for x, value in plain.items() if x not in setting.assigned and x not in given}
            picks = {key: min(1 if len(given) == 1 else 2, last) for key, last in (tried[x] for x in given)}
            own = seed_of(seed, mechanism.name, label)
            case = Case(mechanism.name, label, own, fixed, picks, f"for_each_option:{name}")
            sample = drawn(mechanism, case, claims, dtype)
            if sample is not None:
                yield sample


def _pick(mechanism: Mechanism, name: str) -> tuple[str, int] | None:
    """The draw that decides on an option or an optional input, and its last choice; None where nothing does."""
    if name in mechanism.typing:
        return None
    drawn = {**mechanism.inputs, **mechanism.options}[name].draws
    kind = "choice" if name in mechanism.options else "maybe"
    site = next((site for site in drawn if site.name == kind), None)
    last = 0 if site is None else 1 if kind == "maybe" else (site.count or 1) - 1
    return (f"{name}.{site.ordinal}", last) if site is not None and last else None
