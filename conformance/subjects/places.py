"""What the places of parameters say of them, and which are no array of the input at their place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ..execution.messages import annotation_of
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.stated import stated
from .renaming import COUNTED, FLAG, matched, parameters_of, sizes_in

COUNT = re.compile(r"(num|max)_\w+")
"""What a parameter is called that is a whole number."""
INDICES = re.compile(r"(indices|_ids|_idx|_index|_topk|_positions|_lens)$")
"""How the name of a parameter ends that has numbers of other entries."""
OBJECT = re.compile(r"(\w+_)?(cfg|config)|config_obj|block|module|model|layer|node|graph|obj")
"""What a parameter is called that is an object of a program."""
PLAIN = frozenset({"int", "float", "bool", "str", "dict", "device", "dtype", "Callable", "Module", "Node", "qscheme"})
"""How a parameter is annotated that is no array."""
ARRAYS = frozenset({"Tensor", "array", "ndarray", "Array", "ArrayLike"})
"""How a parameter is annotated that is one."""


def misplaced(function: Callable[..., Any], mechanism: Mechanism, like: str = "") -> tuple[str, str, str] | None:
    """The first parameter that is no array of the input at its place, with that and what says so; None without one.

    Its name may say another input, a size, an option, or an output behind the first one; what is called as that may be
    any array. Of a function that is called by a line it is one of those that are passed an input.
    """
    own = matched(function, mechanism, None, by_place=False)[0]
    says = {*mechanism.required, *mechanism.takes, *mechanism.outputs[1:], *mechanism.sizes}
    plain = parameters_of(function)
    places = stated(like).parameters if like else dict(zip((p.name for p in plain), mechanism.required, strict=False))
    for p in (p for p in plain if places.get(p.name) in mechanism.required):
        place = places[p.name]
        means = own.get(p.name, place).removeprefix("{out: ").removesuffix("}")
        if means in says and means != place and not (means in mechanism.sizes and len(p.name) == 1):
            return p.name, place, f"its name says {means}"
        if p.name not in own and (other := _denial(p.name, mechanism.dtypes.get(place, "number"))):
            return p.name, place, other
        if annotation_of(p) in PLAIN and mechanism.shapes.get(place, (None,)):  # which is no single number
            return p.name, place, f"its annotation says {annotation_of(p)}"
    if like and (counted := _counted_alone(places, mechanism)):
        return counted, mechanism.required[0], "its name says how many entries that has"
    for p in plain:
        passed = own.get(p.name, "") if p.default is p.empty else ""
        if passed in sizes_in(mechanism) and annotation_of(p) in ARRAYS:
            return p.name, passed, f"its annotation says {annotation_of(p)}"
    return None


def _denial(name: str, dtype: str) -> str:
    """What the name of a parameter says that is no array of a dtype; nothing without."""
    if FLAG.match(name):
        return "its name says a flag"
    if COUNT.match(name):
        return "its name says a count"
    if INDICES.search(name) and dtype != "integer":
        return "its name says indices"
    return "its name says no array" if OBJECT.fullmatch(name) else ""


def _counted_alone(passed: Mapping[str, str], mechanism: Mechanism) -> str:
    """The parameter that is told how many entries or rows the first input has, which no other is passed."""
    first = next(iter(mechanism.required), "")
    speaking = {name: text for name, text in passed.items() if first and re.search(rf"\b{first}\b", text)}
    counts = {text.format(first) for text in COUNTED.values()}
    return next(iter(speaking), "") if {*speaking.values()} <= counts else ""


def called_as_inputs(function: Callable[..., Any], mechanism: Mechanism) -> set[str]:
    """The parameters that give inputs of every call, as their names say."""
    by_name = matched(function, mechanism, None, by_place=False)[0]
    return {name for name, text in by_name.items() if text in mechanism.required}


def placed(function: Callable[..., Any], mechanism: Mechanism) -> dict[str, str]:
    """The parameters that give inputs by their places alone, as no name says that they do, each with its input."""
    by_name = matched(function, mechanism, None, by_place=False)[0]
    own = matched(function, mechanism, None)[0]
    return {name: text for name, text in own.items() if by_name.get(name) != text and text in mechanism.required}
