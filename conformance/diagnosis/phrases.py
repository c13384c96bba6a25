"""A condition on calls in words."""

from __future__ import annotations

from typing import Any

from .conditions import Condition, Literal
from .separation import When

LAID_OUT = ("scattered", "memory", "layout")
"""Literals about how inputs lie in memory, which are tried with contiguous ones."""
PHRASES = {
    "from": "{name} >= {x}",
    "up to": "{name} <= {x}",
    "at least": "{name} >= {x}",
    "less": "{name} < {x}",
    "same": "{name} = {x}",
    "other": "{name} is not {x}",
    "power": "{name} / {x} is a power of two",
    "unpowered": "{name} / {x} is no power of two",
    "not": "{name} is not {x}",
    "given": "{a} is given",
    "absent": "no {name} is given",
    "set": "{name} is given",
    "usual": "{name} is not given",
    "equal": "{name} = {x}",
    "below": "{name} < {x}",
    "at most": "{name} <= {x}",
    "scattered": "{name} is not contiguous",
    "memory": "{name} is {x}",
    "layout": "the layout is {x}",
    "axes": "{name} has {x} axes",
    "plain": "{name} has {x} axes",
    "shared": "{name} is broadcast along {x}",
    "apart": "{name} is not broadcast along {x}",
    "finite": "all entries are finite",
    "settled": "{name} makes no difference",
    "regime": "the regime is {x}",
}
SOME = {
    "some": {
        "zero": "some of {name} are 0",
        "negative": "some of {name} are negative",
        "unequal": "{name} differ",
        "not": "some of {name} are not those of {x}",
        "=": "some of {name} are {x}",
        "size": "some of {name} are not multiples of {x}",
    },
    "none": {
        "zero": "none of {name} is 0",
        "negative": "none of {name} is negative",
        "unequal": "{name} are all the same",
        "not": "{name} are {x}",
        "=": "none of {name} is {x}",
        "size": "all of {name} are multiples of {x}",
    },
}
"""What is so of some entries of a row of integers, or of none."""


def where(condition: Condition) -> str:
    """A condition as what follows the word `where`: `a mask is given and causal = True`."""
    return " and ".join(phrase(literal) for literal in condition.literals)


def wrong(condition: Condition) -> str:
    """That a subject is wrong on a condition: `wrong where a mask is given and causal = True`."""
    if len(condition.literals) == 1:
        (only,) = condition.literals
        if only.kind == "from":
            return f"wrong for {only.name} >= {only.value}"
        if only.kind == "up to" and only.value > 1:
            return f"wrong for {only.name} <= {only.value}"
    return f"wrong where {where(condition)}"


def counted(when: When) -> str:
    """The whole sentence: `wrong for k_len >= 33 (29 of 30 cases); right otherwise (63 of 63)`."""
    inside = f"{when.wrong} of {when.inside}"
    late = "" if when.tested else ", so far"
    at = f", at {when.at}" if when.at else ""
    only = f", in {when.dtype} only" if when.right_in else ""
    if not when.condition.literals:
        nearly = "" if when.wrong == when.inside else "nearly "
        return f"wrong on {nearly}every case{at}{only} ({inside} cases{late})"
    made = ", and on contiguous copies" if all(x.kind in LAID_OUT for x in when.condition.literals) else ""
    otherwise = f"right otherwise{made} ({when.outside} of {when.outside})"
    says = wrong(when.condition).replace("wrong", "sometimes wrong", 1) if when.partly else wrong(when.condition)
    return f"{says}{at}{only} ({inside} cases{late}); {otherwise}"


def phrase(literal: Literal) -> str:
    """One literal in words."""
    name, x = literal.name, literal.value
    if literal.kind == "remainder":
        return _remainder(name, *x)
    if literal.kind in ("set", "usual") and x is not None:
        return f"{name} = {x}"
    if literal.kind in SOME:
        what = str(x)
        first, _, rest = what.partition(" ")
        kind = first if first in SOME[literal.kind] else "size"
        return SOME[literal.kind][kind].format(name=name, x=rest or what)
    if literal.kind == "up to" and x == 1:
        return f"{name} = 1"
    return PHRASES[literal.kind].format(name=name, a=a(name), x=_number(x))


def _remainder(name: str, modulus: int, first: int, last: int) -> str:
    if modulus == 2:
        return f"{name} is {'odd' if first else 'even'}"
    if first == last:
        return f"{name} % {modulus} is {first}"
    return (
        f"{name} % {modulus} is not 0"
        if (first, last) == (1, modulus - 1)
        else f"{name} % {modulus} is {first} to {last}"
    )


def a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _number(x: Any) -> str:
    return f"{x:g}" if isinstance(x, float) else str(x)
