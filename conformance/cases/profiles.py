"""How many cases are tested: profiles, by name."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UsageError, did_you_mean


@dataclass(frozen=True, slots=True)
class Profile:
    """How much is tried. The definition is tried on every case; every other law has its number of cases."""

    name: str
    covering: int
    """Rows of the covering array."""
    draws: int
    """Cases that Hypothesis draws."""
    admitted: int
    """Cases of each block (scenarios, covering array, draws) that a law is tried on; the least it is to have in all."""
    strict: bool = False
    """Whether an undeclared convention is a failure: a gate must know what it gates."""
    core: bool = False
    """Whether only those scenarios are tried that are needed to show every known mistake.

    They miss a good part of the mistakes that nobody knows yet.
    """
    large: bool = False
    """Whether cases of the sizes of production are tried as well."""
    crossed: int = 0
    """Rows of crossed sizes, which only the definition is tried on."""


PROFILES = {
    "smoke": Profile("smoke", covering=0, draws=0, admitted=1, core=True),
    "quick": Profile("quick", covering=8, draws=6, admitted=2, crossed=6),
    "ci": Profile("ci", covering=80, draws=60, admitted=12, strict=True, crossed=20),
    "nightly": Profile("nightly", covering=400, draws=1000, admitted=100, strict=True, crossed=40),
    "serving": Profile("serving", covering=0, draws=0, admitted=1, core=True, large=True),
}


def profile_named(name: str) -> Profile:
    """The profile of that name; an unknown one is a `UsageError`."""
    if name not in PROFILES:
        raise UsageError(f"unknown profile {name!r}{did_you_mean(name, PROFILES)} (profiles: {', '.join(PROFILES)})")
    return PROFILES[name]
