"""Which sizes and inputs equal others in every call of a function, or are one, by its layout and its conditions."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from attnspec.adapters import Adapter

from ..mechanisms.mechanism import Mechanism
from .forms import Form


def single(form: Form | None) -> dict[str, tuple[int, ...]]:
    """The sizes that are one wherever a layout has room for a call."""
    return dict.fromkeys(single_sizes(form.room if form else ()), (1,))


def single_sizes(conditions: Sequence[str]) -> list[str]:
    """The sizes that are one by what has to hold of a layout."""
    found = (condition.partition(" == ") for condition in conditions)
    return [name for name, _, other in found if other == "1"]


def equal(adapter: Adapter, form: Form | None, sizes: Collection[str]) -> dict[str, str]:
    """The sizes and inputs that are to equal others, by conditions that say no more than that."""
    requires = (adapter.requires,) if isinstance(adapter.requires, str) else adapter.requires
    requires = (*requires, *(form.taken.signature.requires if form and form.taken else ()))
    found = [said for text in requires if (said := re.fullmatch(r"(\w+) == (\w+)", text))]
    alike = [said for text in requires if (said := re.fullmatch(r"identical\((\w+), (\w+)\)", text))]
    equal = {said[1]: said[2] for said in found if {said[1], said[2]} <= {*sizes}}
    return equal | {said[2]: said[1] for said in alike}


def filled(form: Form | None, mechanism: Mechanism) -> dict[str, float]:
    """The inputs of which an interface says that all entries are one number."""
    found = [re.fullmatch(r"all\((\w+) == (\d+)\)", text) for text in (form.conditions if form else ())]
    return {said[1]: float(said[2]) for said in found if said and said[1] in mechanism.required}


def tied(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """Sizes that equal another one by the one or the other; of two that are to equal each other, the first follows."""
    found = dict(one)
    for name, size in other.items():
        last = size
        while last in found and last != name:
            last = found[last]
        if name not in found and last != name:
            found[name] = size
    return found


def ties(mechanism: Mechanism, form: Form | None) -> dict[str, str]:
    """The sizes that equal another one so that arrays fit into one: that which follows from the other, or the later."""
    found = {}
    for first, _, other in (condition.partition(" == ") for condition in (form.room if form else ())):
        if other != "1":
            follows = other in mechanism.sizes[first].uses
            found |= {first: other} if follows else {other: first}
    return found
