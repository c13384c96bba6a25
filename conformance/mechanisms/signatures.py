"""Known interfaces of kernels: their parameters, and what to pass for each in terms of an operator.

They are data in `spec/signatures/`, a file for each, and are read where a function is not called like its operator.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..data.texts import safe
from ..errors import UsageError, did_you_mean
from ..language.scopes import Scope
from .documents import read
from .layouts import Layout, layout_of, stacks_of
from .mechanism import Mechanism
from .schema import spec_folder
from .specfiles import ENDING, SpecFile
from .stated import is_stated, kind_and_texts, stated
from .stems import stem

How = Literal["array", "tuple", "complex", "text", "object", "out", "in_place", "room", "left", "dtype", "device"]
_ASKED = re.compile(r"(\w+)|none if (?:(\w+) == none|single\((\w+)\)) else .*")
"""What is an input or option itself, or none wherever there is none of it."""
ENTRY_BYTES = "entry_bytes"
"""What expressions of parameters call the bytes of a number in the dtype of the call."""
ENOUGH = 0.5
"""The share of the parameters beside arrays that a function of another name has at least of the interface it fits."""


@dataclass(frozen=True, slots=True)
class Passed:
    """What a parameter is passed: texts of expressions by attribute, in their order, or alone."""

    how: How
    texts: tuple[str, ...]
    names: tuple[str, ...] = ()
    """The attributes of an object."""
    otherwise: str | None = None
    """What is passed in place of a text whose condition does not hold."""

    @property
    def expressions(self) -> tuple[str, ...]:
        """What of it is computed; of a text, the condition behind it."""
        none = dict.fromkeys(("left", "out", "room", "dtype", "device"), ())
        return {**none, "text": self.texts[1:], "in_place": self.texts[:1]}.get(self.how, self.texts)

    @property
    def array(self) -> str:
        """The array that it is wherever a call has that, if it may be one."""
        if self.how not in ("array", "in_place"):
            return ""
        perhaps = re.fullmatch(r"none if single\((\w+)\) else \1", self.texts[0])
        return perhaps[1] if perhaps else self.texts[0]

    @property
    def written(self) -> tuple[str, ...]:
        """The output that is in the array afterwards."""
        return {"out": self.texts, "in_place": self.texts[1:]}.get(self.how, ())

    @property
    def asks(self) -> str:
        """The input or option without which it is none, if there is one."""
        said = _ASKED.fullmatch(self.texts[0])
        return next(filter(None, said.groups()), "") if said else ""


@dataclass(frozen=True, slots=True)
class Signature:
    """A known interface."""

    name: str
    also: tuple[str, ...]
    operator: str
    layout: str
    arrays: Mapping[str, str]
    parameters: Mapping[str, Passed]
    requires: tuple[str, ...]
    dtypes: Mapping[str, str]
    returns: tuple[str, ...]
    """The outputs in their order; those of the operator where none is said."""
    fixed: Mapping[str, str] = field(default_factory=dict)
    """Options that it has one value of, and no parameter for."""
    of_codes: str = ""
    """The dtype of what is returned for queries that are codes, if it has one only."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """Outputs that are assembled from what is returned, each with its expression."""
    beside: str = ""
    """The interface of the same functions whose other calls these are."""
    variant_of: str = ""
    """The interface whose parameters other functions of that name read otherwise, as this one says."""
    conventions: Mapping[str, str] = field(default_factory=dict)
    """The words of conventions by which results of a forward pass are computed that it is handed."""
    follows: Mapping[str, str] = field(default_factory=dict)
    """The words of conventions by which its documentation has what it computes."""
    found: tuple[str, ...] = ()
    """Where a program finds functions that have it, as `module:name`."""

    @property
    def path(self) -> str:
        return f"spec/signatures/{self.name}.yaml"

    @property
    def names(self) -> tuple[str, ...]:
        """What functions are called that have it."""
        return self.name, *self.also

    @property
    def words(self) -> str:
        """What it is called; of one that is stated in a line, its operator."""
        return self.operator if is_stated(self.name) else self.name

    @property
    def writes(self) -> bool:
        """Whether a call changes an array that it is passed."""
        return any(passed.how == "in_place" for passed in self.parameters.values())

    @property
    def mapped(self) -> list[str]:
        """The parameters that are passed something."""
        return [name for name, passed in self.parameters.items() if passed.how != "left"]

    def layout_in(self, mechanism: Mechanism) -> Layout:
        """The layout of its arrays."""
        if not mechanism.layouts:
            return Layout("", {}, {})
        found = layout_of(mechanism.layouts, self.layout or self._first_layout(mechanism))
        return Layout(found.name, found.own, {**found.given, **self.arrays}) if self.arrays else found

    def _first_layout(self, mechanism: Mechanism) -> str:
        """The layout of the operator, or the first one with an array of several that a parameter is passed."""
        stacks = {passed.array for passed in self.parameters.values()} & stacks_of(mechanism.layouts).keys()
        own = next(iter(mechanism.layouts))
        return next((name for name, texts in mechanism.layouts.items() if stacks & texts.keys()), own)

    def arrays_in(self, mechanism: Mechanism) -> dict[str, str]:
        """The parameters that are an array, of the layout or of a further mechanism, each with that array.

        Arrays of the layout that are neither inputs nor outputs are results of a forward pass.
        """
        layout = self.layout_in(mechanism)
        whole = {name for m in mechanism.kin for name in m.inputs} | {*layout.stacks, *layout.own} - {
            *mechanism.outputs
        }
        return {n: p.array for n, p in self.parameters.items() if p.array in whole}

    def is_called(self, function: str) -> bool:
        """Whether a function has its name, or one that says the same, as `naive_selective_scan` does.

        What writes to what it is passed is known by its own name alone.
        """
        return (not self.writes and self.is_like(function)) or function.rpartition(".")[2] in self.names

    def is_like(self, function: str) -> bool:
        """Whether the name of a function says the same as its own."""
        own = stem(function)
        return "_" in own and own in map(stem, self.names)

    def serves(self, operator: str | None) -> bool:
        """Whether a function may be taken for it where this operator is asked for, or none."""
        return self.operator == operator or (operator is None and not self.beside)

    def beyond(self, mechanism: Mechanism) -> set[str]:
        """The parameters that are passed something in calls of further mechanisms alone."""
        return {name for name, passed in self.parameters.items() if passed.asks in mechanism.absent}


@functools.cache
def signatures() -> dict[str, Signature]:
    """All of them by name; those beside another one are also called what that is called."""
    found = {path.stem: read_signature(read(path)) for path in sorted((spec_folder() / "signatures").glob("*.yaml"))}
    first = {name: found[one.beside] for name, one in found.items() if one.beside}
    return found | {name: replace(found[name], also=one.names) for name, one in first.items()}


def beside(name: str) -> list[Signature]:
    """The interfaces of other calls of the functions that have this one."""
    return [one for one in signatures().values() if one.beside == name]


def variants(name: str) -> list[Signature]:
    """The interfaces of functions that have the name and the parameters of this one, and read them otherwise."""
    return [one for one in signatures().values() if one.variant_of == name]


def signature_named(name: str, label: str = "") -> Signature:
    """The interface of that name, or of a function of that name; an unknown one is a `UsageError`."""
    if is_stated(name):
        return _stated(name, label)
    known = signatures()
    if name in known:
        return known[name]
    also = {other: one for one in known.values() for other in one.also if not one.beside}
    if name in also:
        return also[name]
    file = spec_folder() / f"{name}{ENDING}"
    if file.is_file():
        operator = SpecFile(file).operator
        raise UsageError(
            f"{label}{name!r} is a mechanism, and no known interface; to check it, add --operator {operator}"
        )
    hint = did_you_mean(name, [*known, *also])
    raise UsageError(f"{label}no known interface is called {safe(name)!r}{hint} (there are {', '.join(known)})")


def _stated(like: str, label: str) -> Signature:
    """The interface that a line states."""
    line = stated(like, label)
    found = {parameter: kind_and_texts(text, label) for parameter, text in line.parameters.items()}
    parameters = {parameter: Passed(how, texts) for parameter, (how, texts) in found.items()}  # type: ignore[arg-type]
    said = {name: getattr(line, name) for name in ("requires", "dtypes", "returns", "fixed", "outputs", "conventions")}
    return Signature(like, (), line.operator, layout="", arrays={}, parameters=parameters, **said)


def fitting(
    function: str,
    taken: Collection[str],
    needed: Collection[str],
    operator: str | None,
    admitted: Callable[[Signature], bool] = lambda _: True,
    beyond: Callable[[Signature], Collection[str]] = lambda _: (),
) -> Signature | None:
    """The one interface that parameters fit, of those that are admitted; None where none does, or several do.

    `taken` are all parameters of a function, and `needed` those without a default. Of a function that is called like an
    interface, further parameters that have a default are those of a later release. One that is called like it and does
    not take its calls is taken for an interface beside it, of which it takes them.
    What is `beyond` the operator of an interface, few functions have: it does not count for how well they fit.
    """
    fits = [
        one
        for one in signatures().values()
        if operator in (None, one.operator)
        and not one.variant_of
        and (set(taken) <= set(one.parameters) or one.is_called(function))
        and set(needed) <= set(one.mapped)
        and _leading(one) <= set(taken)
        and admitted(one)  # which may have to read its operator
    ]
    found = [one for one in fits if one.serves(operator)] or [one for one in fits if one.is_called(function)]
    named = (
        [one for one in found if function in one.names]
        or [one for one in found if one.is_called(function)]
        or [one for one in found if one.is_like(function)]
    )
    shares = {one.name: _share(one, taken, beyond(one)) for one in named or found}
    known = {one.name: sum(name in one.parameters for name in taken) if named else 0 for one in named or found}
    ranks = {name: (share, known[name]) for name, share in shares.items()}
    best = [one for one in named or found if ranks[one.name] == max(ranks.values())]
    return best[0] if len(best) == 1 and (named or shares[best[0].name] >= ENOUGH) else None


def _leading(one: Signature) -> set[str]:
    """The first parameters, which are the arrays that every call has, and objects before them."""
    found: list[str] = []
    objects = {name for name, passed in one.parameters.items() if passed.how == "object"}
    for name, passed in one.parameters.items():
        if name in objects:
            continue
        if passed.how not in ("array", "in_place") or not passed.texts[0].isidentifier() or len(found) == LEADING:
            break
        found.append(name)
    return {*found, *objects}


SCRATCH = "_"
"""What an array that a call may change is afterwards where that is no output."""
LEADING = 3
"""As many parameters as queries, keys and values are."""


def _share(one: Signature, taken: Collection[str], beyond: Collection[str]) -> float:
    rest = [name for name in one.mapped if name not in {*_leading(one), *beyond}]
    return sum(name in taken for name in rest) / len(rest) if rest else 1.0


def read_signature(document: Mapping[Any, Any]) -> Signature:
    """A known interface, as its file has it."""
    plain = {str(key): x for key, x in document.items()}
    return Signature(
        name=str(plain["signature"]),
        also=tuple(map(str, plain.get("also", ()))),
        operator=str(plain["operator"]),
        layout=str(plain.get("layout", "")),
        arrays={str(n): str(t) for n, t in plain.get("arrays", {}).items()},
        parameters={str(n): _passed(x) for n, x in plain["parameters"].items()},
        requires=tuple(map(str, plain.get("requires", ()))),
        dtypes={str(n): str(t) for n, t in plain.get("dtypes", {}).items()},
        returns=tuple(map(str, plain["returns"])),
        fixed={str(n): str(text) for n, text in plain.get("fixed", {}).items()},
        of_codes=str(plain.get("of_codes", "")),
        outputs={str(n): str(text) for n, text in plain.get("outputs", {}).items()},
        beside=str(plain.get("beside", "")),
        variant_of=str(plain.get("variant_of", "")),
        follows={str(n): str(word) for n, word in plain.get("follows", {}).items()},
        found=tuple(map(str, plain.get("found", ()))),
    )


def _passed(x: Any) -> Passed:
    if isinstance(x, list):
        return Passed("tuple", tuple(map(str, x)))
    if not isinstance(x, dict):
        return Passed("array", (str(x),))
    if "as" in x:
        return Passed("in_place", (str(x["in_place"]), str(x["as"])))
    if "where" in x:
        otherwise = str(x["otherwise"]) if "otherwise" in x else None
        return Passed("text", (str(x["text"]), str(x["where"])), otherwise=otherwise)
    [(how, text)] = x.items()
    if str(how) == "complex":
        return Passed("complex", tuple(map(str, text)))
    if str(how) == "object":
        return Passed("object", tuple(map(str, text.values())), tuple(map(str, text)))
    return Passed(str(how), (str(text),))  # type: ignore[arg-type] - the schema has no others


def scope_of(mechanism: Mechanism, names: Collection[str] | None = None) -> Scope:
    """What expressions of a signature may speak of: sizes, inputs and options, unless others are given, and words.

    The inputs and options of further mechanisms are among them, and are none in the calls of all others.
    """
    words = {word: option for m in mechanism.kin for option, own in m.vocabulary.items() for word in own}
    known = {*mechanism.sizes, *mechanism.required, *mechanism.takes} if names is None else names
    return Scope(frozenset(known), words)


def scope_of_parameters(mechanism: Mechanism) -> Scope:
    """What expressions of parameters may speak of."""
    return scope_of(mechanism).having(ENTRY_BYTES)
