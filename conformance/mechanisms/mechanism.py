"""A specification as frozen values, with every expression compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import numpy as np

from ..errors import Place, SpecError
from ..language.expressions import Expression
from ..numerics.codes import CODES
from ..numerics.formats import KINDS, dtype_under

if TYPE_CHECKING:
    from .specfiles import SpecFile

Level = Literal["must", "should"]
LawLevel = Literal["must", "should", "unless_refused"]
Assignments = Mapping[str, Expression]

ANSWERED = 0.9
"""The share of scenarios that an implementation answers at least, where a mechanism does not say."""

DRAW = "noise("
"""How a line of a definition draws random numbers."""
DRAWN_LAYOUTS = ("contiguous", "strided", "transposed", "offset", "expanded", "mixed")
"""The memory layouts of inputs that any case may have."""

LAYOUTS = (*DRAWN_LAYOUTS, "lone", "sliced")
"""Those that a scenario may choose by `layout = ...`; fewer than three inputs do not feel `lone`."""


@dataclass(frozen=True, slots=True)
class Law:
    """One invariant: a sentence and a claim, under a condition, for all `given` draws."""

    name: str
    says: str
    given: Assignments
    when: Expression
    holds: Expression
    level: LawLevel
    contract: str
    """Why the law need not refute a known mistake; empty where it must."""
    sources: tuple[str, ...]
    place: Place | None
    asking: frozenset[str] = frozenset()
    """The givens that depend on what the subject returns."""

    def weight(self, *, refused: bool = False) -> Level:
        """How much its verdict weighs, by whether it rests on a call that was refused."""
        if self.level == "unless_refused":
            return "should" if refused else "must"
        return self.level


@dataclass(frozen=True, slots=True)
class Mistake:
    """A known way to be wrong: assignments that replace inputs, options or lines of the definition."""

    name: str
    says: str
    change: Assignments
    seen: str
    place: Place | None


@dataclass(frozen=True, slots=True)
class Reject:
    """A call that an implementation is to refuse."""

    name: str
    says: str
    when: Expression
    call: Assignments
    level: Level
    place: Place | None


@dataclass(frozen=True, slots=True)
class Setting:
    """A scenario, a regime or crossed sizes: assignments that take the place of draws."""

    name: str
    assigned: Assignments
    place: Place | None


@dataclass(frozen=True, slots=True)
class Printed:
    """Numbers as a reader would print them: right to half a unit of their last digit."""

    value: Any
    tolerance: Any


@dataclass(frozen=True, slots=True)
class Example:
    """A worked case: what is given, and the digits that come out."""

    name: str
    given: Assignments
    gives: Mapping[str, Printed]
    place: Place | None


Owned = TypeVar("Owned")


class Known(Protocol):
    """The mechanisms that one is read beside, itself among them."""

    references: dict[str, Callable[..., Any]]
    """The float64 references of operators that are none of the shipped ones."""

    def __getitem__(self, name: str, /) -> Mechanism: ...

    def __iter__(self) -> Iterator[str]: ...

    def kept(self, kind: Callable[[], Owned], /) -> Owned: ...

    folders: tuple[str, ...]
    """The folders of those that are neither shipped nor registered."""

    def is_outside(self, name: str) -> bool:
        """Whether a mechanism is of such a folder."""
        ...

    def of(self, operator: str) -> list[Mechanism]:
        """The mechanisms of an operator."""
        ...

    def naming(self, *texts: str) -> Iterator[Mechanism]:
        """The mechanisms whose files have one of some texts anywhere."""
        ...

    def file_of(self, name: str) -> SpecFile | None:
        """The file that states a mechanism."""
        ...


@dataclass(frozen=True)
class Mechanism:
    """One specification file, together with what it takes over from its operator's file."""

    name: str
    operator: str
    title: str
    summary: str
    formula: str
    sources: tuple[str, ...]
    version: int
    digest: str
    """Of this file and its operator's: it tells whether two results speak of the same text."""
    path: str

    sizes: Assignments
    inputs: Assignments
    options: Assignments
    conventions: Mapping[str, Mapping[str, str]]
    vocabulary: Mapping[str, Mapping[str, str]]
    """Options with named values: what an implementation is passed for each word."""
    follows: Mapping[str, str]
    """Conventions that, left undeclared, follow the declared word of another."""
    requires: Assignments
    dtypes: Mapping[str, str]
    definition: Assignments
    by_reference: bool
    """Whether the definition is the float64 reference, for an operator whose meaning is a loop."""
    outputs: tuple[str, ...]
    random: tuple[str, ...]
    normal_form: Assignments

    examples: Mapping[str, Example]
    regimes: Mapping[str, Setting]
    scenarios: Mapping[str, Setting]
    crossed: Mapping[str, Setting]
    """Sizes in which options are tried in pairs."""
    laws: Mapping[str, Law]
    mistakes: Mapping[str, Mistake]
    rejects: Mapping[str, Reject]

    required: tuple[str, ...]
    """The inputs that bind by position."""
    defaults: Mapping[str, Any]
    """What an option or an optional input is when it is not passed; an option without one is always passed."""
    shapes: Mapping[str, tuple[str | None, ...]]
    """The sizes that the shape of a required input fixes, axis by axis."""
    layouts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The layouts of its arrays, the definition's own first; `layouts` says what their texts mean."""
    gradient_of: str = ""
    """The operator whose gradients it states, if it does: an output `d_x` is that of the input `x`."""
    answered: float = ANSWERED
    """The share of the scenarios within its declared limits that an implementation answers at least."""
    own: frozenset[str] = field(default_factory=frozenset)
    """The sizes, inputs and options that a further mechanism draws in its own way."""
    reference_place: Place | None = None
    """Where it says that the reference is the definition."""
    library: Known | None = field(default=None, repr=False, compare=False)
    """What it was read beside."""

    @property
    def stating(self) -> Mechanism:
        """The mechanism that states the operator."""
        return self if self.library is None or self.name == self.operator else self.beside(self.operator)

    @property
    def domain(self) -> Mapping[str, Expression]:
        """What holds of every call: the conditions of the operator, as this mechanism has them."""
        return {name: self.requires[name] for name in self.stating.requires}

    def beside(self, name: str) -> Mechanism:
        """Another mechanism that it was read beside."""
        if self.library is None:
            raise SpecError(f"no mechanism {name!r} is known here")
        return self.library[name]

    def kept(self, kind: Callable[[], Owned]) -> Owned:
        """What is kept of one kind about the mechanisms of its library, for as long as that is in use."""
        return kind() if self.library is None else self.library.kept(kind)

    @property
    def kin(self) -> list[Mechanism]:
        """The mechanisms of its operator."""
        return [self] if self.library is None else self.library.of(self.operator)

    @functools.cached_property
    def optional(self) -> tuple[str, ...]:
        """The inputs that bind by name."""
        return tuple(name for name in self.inputs if name not in self.required)

    @functools.cached_property
    def undetermined(self) -> bool:
        """Whether every output is random, so that laws alone judge them."""
        return set(self.outputs) <= set(self.random)

    @functools.cached_property
    def stochastic(self) -> bool:
        """Whether a line draws random numbers; where none does, random outputs are choices among equals."""
        return any(DRAW in line.text for line in self.definition.values())

    @functools.cached_property
    def discrete(self) -> bool:
        """Whether every output is determined, and holds integers or booleans, which have no precision."""
        return not self.random and all(self.dtypes.get(name) in KINDS for name in self.outputs)

    @property
    def signature(self) -> frozenset[str]:
        """Everything that can be passed in a call."""
        return frozenset({*self.inputs, *self.options})

    @property
    def takes(self) -> frozenset[str]:
        """The optional inputs and the options of its operator, those that a further mechanism adds among them."""
        return frozenset(name for m in self.kin for name in (*m.optional, *m.options))

    @functools.cached_property
    def absent(self) -> frozenset[str]:
        """The inputs and options that further mechanisms of its operator alone have."""
        return self.takes - self.signature

    def without_input(self, given: Collection[str]) -> frozenset[str]:
        """The outputs that are gradients of inputs which a call lacks that is given these."""
        if not self.gradient_of:
            return frozenset()
        return frozenset(f"d_{name}" for name in self.optional if name not in given) & {*self.outputs}

    @functools.cached_property
    def spoken(self) -> frozenset[str]:
        """Everything that a line of its definition may speak of."""
        return frozenset({*self.sizes, *self.signature, *self.conventions, *self.definition})

    @functools.cached_property
    def typing(self) -> frozenset[str]:
        """The options that say the dtype of an input, which whoever is handed that sees without being told."""
        return frozenset(own for own in self.dtypes.values() if own in self.options)

    @functools.cached_property
    def unstored(self) -> frozenset[str]:
        """The lines between inputs and outputs that have a dtype of their own, whatever the dtype under test is."""
        return frozenset(self.dtypes) - {*self.inputs, *self.outputs}

    @functools.cached_property
    def calls(self) -> frozenset[str]:
        """The operators that its inputs and outputs are computed with."""
        drawn = (self.sizes, self.inputs, self.options, *(regime.assigned for regime in self.regimes.values()))
        read = (self.requires, self.definition, self.normal_form)
        return frozenset(name for part in (*drawn, *read) for expression in part.values() for name in expression.calls)

    @property
    def words(self) -> dict[str, str]:
        """Every convention at its first word."""
        return {convention: next(iter(words)) for convention, words in self.conventions.items()}

    def declared(self, words: Mapping[str, str]) -> dict[str, str]:
        """What a declaration of words says, with what follows from it."""
        result = dict(words)
        for convention, other in self.follows.items():
            if convention not in words and other in words:
                position = list(self.conventions[other]).index(words[other])
                result[convention] = list(self.conventions[convention])[position]
        return result

    def dtype_of(self, name: str, dtype: str, values: Mapping[str, Any] | None = None) -> str:
        """The dtype of an input or output when `dtype` is under test; `values` has options that say the dtype."""
        own = self.dtypes.get(name)
        if own in self.typing and values is not None:
            own = self.passed(own, values[own])
        return dtype_under(dtype, own)

    def as_drawn(self, name: str, x: Any) -> Any:
        """A value as an input has it: an array where it is required, of fractions where it is drawn as such.

        What is passed in a format of integers alone is computed with as integers.
        """
        if name in self.required:
            x = np.asarray(x)
        own = CODES.get(self.dtypes.get(name, ""))
        if own is not None and own.whole and isinstance(x, np.ndarray) and np.array_equal(x, np.rint(x)):
            return x.astype(np.int64)
        whole = name in self.inputs and isinstance(x, np.ndarray) and x.dtype.kind in "iu"
        return x.astype(float) if whole and any(d.name == "normal" for d in self.inputs[name].draws) else x

    def passed(self, option: str, x: Any) -> Any:
        """An option as an implementation is given it: a word by what it represents, a list of numbers as a tuple."""
        if isinstance(x, np.ndarray):
            return tuple(x.tolist())
        return self.vocabulary.get(option, {}).get(x, x) if isinstance(x, str) else x

    def meant(self, option: str, x: Any) -> Any:
        """What an implementation is given for an option as the definition has it: the other way around."""
        if isinstance(x, tuple):
            return np.asarray(x, np.int64)
        named = {text: word for word, text in self.vocabulary.get(option, {}).items()}
        return named.get(x, x) if isinstance(x, str) else x

    def address(self, item: str) -> str:
        """The name of a law, mistake or reject as people write it."""
        return f"{self.name}.{item}"


def reached_from(first: Iterable[Mechanism], further: Callable[[Mechanism], Iterable[Mechanism]]) -> list[Mechanism]:
    """Mechanisms, those that each of them needs `further`, and so on, by name."""
    found, waiting = dict[str, Mechanism](), [*first]
    while waiting:
        m = waiting.pop()
        if m.name not in found:
            found[m.name] = m
            waiting += further(m)
    return [found[name] for name in sorted(found)]
