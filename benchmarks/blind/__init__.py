"""Reported faults, written anew as kernels: what the diagnosis says of what it was not made from.

Each is a small kernel as its author would have written it, with the fault that was reported, and not an edited
definition.
What its failure should be called, and under which condition it is wrong, was written down before it was diagnosed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from attnspec.adapters import Adapter


@dataclass(frozen=True, slots=True)
class Fault:
    """A kernel with a reported fault, and what is expected of its diagnosis."""

    source: str
    """The thread in which it was reported."""
    adapter: Adapter
    names: tuple[str, ...]
    """The known mistakes that it may be called, whatever the condition beside them."""
    line: str
    """The line of the definition whose change describes it, where nothing known does."""
    when: str
    """The condition, as an expression over sizes, options and given inputs; nothing where no such condition has it."""

    @property
    def name(self) -> str:
        return self.adapter.name


FAULTS: dict[str, Fault] = {}


def fault(
    source: str,
    operator: str,
    *,
    names: tuple[str, ...] = (),
    line: str = "",
    when: str = "",
    conventions: Mapping[str, str] | None = None,
    layout: str = "",
    limits: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Note the decorated kernel, and what is expected of its diagnosis."""

    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__
        adapter = Adapter(
            name,
            operator,
            function,
            "numpy",
            conventions=dict(conventions or {}),
            limits=dict(limits or {}),
            layout=layout,
        )
        FAULTS[name] = Fault(source, adapter, names, line, when)
        return function

    return note


def faults() -> dict[str, Fault]:
    """All of them, by name."""
    for module in ("dense", "sequences", "rows", "gradients", "modules", "states", "choices", "codes", "places"):
        importlib.import_module(f"{__name__}.{module}")
    return FAULTS
