"""The names that an expression may use, and their values when it is called."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import SpecError
from ..numerics.grades import Grade
from .draws import Source

CONSTANTS: dict[str, Any] = {
    "true": True,
    "false": False,
    "none": None,
    "infinity": math.inf,
    "nan": math.nan,
    "pi": math.pi,
}
RESERVED = frozenset({*CONSTANTS, "unspecified", "implies"})


class Environment(Protocol):
    """What an expression is evaluated in."""

    grade: Grade | None
    """The precision that is claimed for what is computed, or None for exact values."""
    dtype: str

    def __getitem__(self, name: str) -> Any: ...

    def output(self, name: str, site: CallSite | None) -> Any:
        """What the subject returns: on the case itself, or with the replacements of a call."""
        ...

    def word(self, convention: str) -> str:
        """The word of a convention that is in force."""
        ...

    def operator(self, name: str, arguments: dict[str, Any]) -> Any:
        """The definition of another operator."""
        ...

    def source(self, ordinal: int) -> Source:
        """The stream of the n-th draw of this expression."""
        ...


class Values:
    """Plain values as an environment, in which nothing is drawn or called."""

    grade: Grade | None = None

    def __init__(self, values: Mapping[str, Any], dtype: str) -> None:
        self.values, self.dtype = values, dtype

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def output(self, name: str, site: CallSite | None) -> Any:
        raise SpecError(f"there is no {name} here")

    def word(self, convention: str) -> str:
        raise SpecError(f"{convention} does not apply here")

    def operator(self, name: str, arguments: dict[str, Any]) -> Any:
        raise SpecError(f"{name} cannot be called here")

    def source(self, ordinal: int) -> Source:
        raise SpecError("drawing is not allowed here")


@dataclass(frozen=True, slots=True)
class Takes:
    """What can be passed to an operator: inputs by position, and anything by name."""

    positional: tuple[str, ...]
    named: frozenset[str]


@dataclass(frozen=True, slots=True)
class Scope:
    """What the names of an expression may be: values, words, outputs that can be called, operators, and draws."""

    names: frozenset[str] = frozenset()
    words: Mapping[str, str] = field(default_factory=dict)
    """Every word, with the convention that it is a word of."""
    outputs: frozenset[str] = frozenset()
    replaceable: frozenset[str] = frozenset()
    operators: Mapping[str, Takes] = field(default_factory=dict)
    draws: bool = False

    def having(self, *names: str) -> Scope:
        """The same scope with further values."""
        more = self.names | set(names)
        return Scope(more, self.words, self.outputs, self.replaceable, self.operators, self.draws)


@dataclass(frozen=True, slots=True)
class DrawSite:
    """A draw in an expression: its function, its place among them, and how many choices it has where that is known."""

    name: str
    ordinal: int
    count: int | None


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call of an output: what is replaced, by name, and the names that the replacements read."""

    text: str
    replaced: Mapping[str, Callable[[Any], Any]]
    uses: frozenset[str]

    def __call__(self, environment: Environment) -> dict[str, Any]:
        """The replacements, evaluated."""
        return {name: make(environment) for name, make in self.replaced.items()}


@dataclass(frozen=True, slots=True)
class Reads:
    """What an expression reads, as its text says."""

    uses: frozenset[str]
    """The names whose values it reads, those of outputs included."""
    calls: frozenset[str]
    """The operators that it calls."""
    asks: bool
    """Whether it reads an output of the subject."""
    draws: tuple[DrawSite, ...]
