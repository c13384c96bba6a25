"""What two implementations both claim, and what only one of them claims."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..errors import UsageError
from ..execution.limits import Multiples, allows, settled
from ..mechanisms.mechanism import Mechanism
from .claims import Claims

FREE = object()
"""Of an option that may have any value."""
SHOWN = 6
"""Values of a limit that are named."""


def together(one: Claims, other: Claims, operator: Mechanism) -> tuple[Claims, Claims]:
    """The claims of both for the cases that both claim, which are the same ones for either.

    An option that one of them lacks is at its default for both, and one that is fixed has that value for both.
    Raises `UsageError` where they have no case in common.
    """
    fixed: dict[str, Any] = {}
    dropped, inputs = set[str](), {name for m in operator.kin for name in m.optional}
    for name, default in _defaults(operator).items():
        values = [x for x in (_value(claims, name, default) for claims in (one, other)) if x is not FREE]
        if values[1:] and (values[0] is None) != (values[1] is None) | (values[0] != values[1]):
            raise UsageError(f"they have no case in common: {name} is {values[0]} in one, and {values[1]} in the other")
        if values and name in inputs:
            dropped.add(name)
        elif values:
            fixed[name] = values[0]
    limits = _limits(one.limits, other.limits)
    requires = tuple({condition.text: condition for condition in (*one.requires, *other.requires)}.values())
    compiled, sparing = one.compiled or other.compiled, one.sparing or other.sparing
    first, second = (
        replace(
            claims,
            names=claims.names - dropped,
            always=claims.always - dropped,
            fixed=fixed,
            limits=limits,
            requires=requires,
            compiled=compiled,
            sparing=sparing,
        )
        for claims in (one, other)
    )
    return first, second


def lacking(one: Claims, other: Claims, operator: Mechanism) -> Iterator[str]:
    """What the first claims and the other one does not, each in words."""
    for name, default in _defaults(operator).items():
        x = _value(other, name, default)
        if x is not FREE and _value(one, name, default) is FREE:
            yield name if x == default else f"{name} other than {x}"
    for dtype in one.dtypes:
        if other.declared and dtype not in other.dtypes:
            yield dtype
    for name, allowed in other.limits.items():
        own = one.limits.get(name)
        if own is None or not all(allows(allowed, x) for x in own):
            yield f"{name} other than {_listed(allowed)}"
    known = {condition.text for condition in one.requires}
    yield from (f"calls other than `{condition.text}`" for condition in other.requires if condition.text not in known)


def _defaults(operator: Mechanism) -> dict[str, Any]:
    """The optional inputs and the options of all mechanisms of an operator that have a default."""
    found: dict[str, Any] = {}
    for mechanism in operator.kin:
        for name in (*mechanism.optional, *mechanism.options):
            if name in mechanism.defaults:
                found.setdefault(name, mechanism.defaults[name])
    return found


def _value(claims: Claims, name: str, default: Any) -> Any:
    """The only value that an option may have; `FREE` where there are several."""
    if name in claims.fixed:
        return claims.fixed[name]
    return FREE if name in claims.names else default


def _limits(one: Mapping[str, Collection[Any]], other: Mapping[str, Collection[Any]]) -> dict[str, Collection[Any]]:
    found: dict[str, Collection[Any]] = {**one, **other}
    for name in set(one) & set(other):
        if settled(one[name]) != settled(other[name]):
            found[name] = tuple(x for x in one[name] if allows(other[name], x))
            if not found[name]:
                raise UsageError(f"they have no case in common: no value of {name} is within the limits of both")
    return found


def _listed(values: Collection[Any]) -> str:
    if isinstance(values, Multiples):
        return str(values)
    if isinstance(values, range):
        step = f" in steps of {values.step}" if values.step != 1 else ""
        return f"{values[0]} to {values[-1]}{step}"
    named = [str(x) for x in values]
    return ", ".join(named[:SHOWN]) + (" ..." if named[SHOWN:] else "")
