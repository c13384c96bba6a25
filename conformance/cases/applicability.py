"""Which parts of a mechanism a subject can be tested on, decided before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..language.expressions import Expression
from ..mechanisms.inspection import NO_DEFAULT, default_of
from ..mechanisms.mechanism import Mechanism
from ..subjects.claims import Claims


def undeclared(mechanism: Mechanism, claims: Claims, dtype: str = "") -> str | None:
    """What of a mechanism a subject does not claim at all, in one dtype if it is given; None where it can be tried."""
    if dtype and mechanism.typing and claims.of_codes not in ("", dtype):
        return f"returns {claims.of_codes} for codes"
    for name in sorted(claims.always - mechanism.signature):
        return f"is never called without {name}"
    for name in (*mechanism.optional, *mechanism.options):
        if name in mechanism.typing:
            continue
        claimed = name in claims.names or name in claims.fixed
        if not claimed and name not in mechanism.defaults:
            return f"does not take {name}"
        only = (
            claims.fixed.get(name, mechanism.defaults.get(name))
            if name not in claims.names or name in claims.fixed
            else NO_DEFAULT
        )
        if name in mechanism.own and only is not NO_DEFAULT:
            drawn = {**mechanism.inputs, **mechanism.options}[name]
            if default_of(drawn, ()) != only:
                return f"takes {name} = {only} only" if claimed else f"does not take {name}"
    return None


def pins(mechanism: Mechanism, claims: Claims) -> dict[str, Any]:
    """What is settled before drawing: options that are fixed, and the defaults of what is not claimed.

    Of dtypes that an option says, those beyond its first word are claimed by limits.
    """
    optional = (*mechanism.optional, *mechanism.options)
    first = plain_options(mechanism) if mechanism.typing else {}
    unsaid = {n: first[n] for n in mechanism.typing if n not in claims.names and n not in claims.limits}
    unclaimed = {n: mechanism.defaults[n] for n in optional if n not in claims.names and n in mechanism.defaults}
    return {**unclaimed, **unsaid, **{n: x for n, x in claims.fixed.items() if n in mechanism.options}}


def plain_options(mechanism: Mechanism, claims: Claims | None = None) -> dict[str, Any]:
    """The options and optional inputs of a mechanism at the first choice of their draws.

    With `claims`, what a subject is never without has its own number in place of none.
    """
    drawn = {**mechanism.options, **{name: mechanism.inputs[name] for name in mechanism.optional}}
    named = (*mechanism.conventions.values(), *mechanism.vocabulary.values())
    words = {word for words in named for word in words}
    found = {name: default_of(expression, words) for name, expression in drawn.items()}
    own = claims.usual if claims else {}
    return {name: own.get(name, x) if x is None else x for name, x in found.items() if x is not NO_DEFAULT}


def applicable(setting: Mapping[str, Expression], pinned: Mapping[str, Any]) -> bool:
    """Whether a scenario or regime asks for nothing but what is pinned, where something is."""
    for name, expression in setting.items():
        if name in pinned:
            wanted = default_of(expression, (pinned[name],) if isinstance(pinned[name], str) else ())
            if wanted is NO_DEFAULT or wanted != pinned[name]:
                return False
    return True
