"""The ways to read parameters of a plain function that its operator has not, or has otherwise.

`ways` has those that a function may have, `begun` those by which it is called first, and `line_of` its interface by
some of them.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from attnspec.adapters import Adapter

from ..mechanisms.forward import results
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.parameters import Reading, readings
from ..mechanisms.stated import Line, expressions_in, kind_and_texts, stated
from .hints import source_of
from .passing import compiled
from .places import called_as_inputs
from .renaming import given_by, lacks, spells, stated_for

LACKING = "lacking"
"""The kind of what says which input a function has not."""


@dataclass(frozen=True, slots=True)
class Way:
    """A reading of some parameters of one function."""

    reading: Reading
    parameters: Mapping[str, str]
    """What they are passed; none where the function says by its name what it does."""
    shown: frozenset[str]
    """The inputs and options with which calls show it, if not all do."""
    asked: bool = False
    """Whether a parameter has no default."""
    fixed: Mapping[str, str] = field(default_factory=dict)
    """Options of one value, each with that value."""
    usual: bool = False
    """Whether a parameter is a pair by default, or the text that it is passed, which says what it is."""

    @property
    def kind(self) -> str:
        """What it tells: parameters, which input is lacking, conventions, one number such as an epsilon, or options."""
        one = self.reading
        if self.parameters:
            return "parameters"
        if one.lacking or one.conventions:
            return LACKING if one.lacking else "conventions"
        texts = [x for values in one.fixed.values() for x in values]
        return "number" if not one.returns and texts and all(map(_is_number, texts)) else "options"

    @property
    def is_choice(self) -> bool:
        """Whether it says nothing but which value options have, of several."""
        return self.kind in ("number", "options") and not self.reading.returns and bool(self.chosen)

    @property
    def in_place(self) -> bool:
        """Whether it says that the call changes what it is passed."""
        return any(kind_and_texts(text)[0] == "in_place" for text in self.parameters.values())

    @property
    def says(self) -> str:
        """What the parameters are."""
        names = " and ".join(f"`{name}`" for name in self.parameters)
        return ", ".join(filter(None, [f"{names} {self.reading.says}".strip(), *self.chosen]))

    @property
    def chosen(self) -> list[str]:
        """Which values options have of those that they may have."""
        return [f"{name} = {x}" for name, x in self.fixed.items() if len(self.reading.fixed[name]) > 1]


def ways(adapter: Adapter, mechanism: Mechanism) -> list[Way]:
    """The ways to read a plain function, in the order in which they are tried.

    Where its name says something of an option, no other value is tried for that.
    """
    found, parameters = list[Way](), inspect.signature(adapter.function).parameters
    matched = [(reading, _matched(reading, parameters)) for reading in readings(mechanism)]
    read = {name for _, own in matched for name in own or ()}
    for reading, own in matched:
        if own is None or reading.unless & {*parameters} or not _is_named(reading, adapter):
            continue
        if reading.mentions and not reading.mentions & _mentioned(adapter):
            continue
        if reading.lacking and not lacks(adapter.function, mechanism, reading.lacking, read):
            continue
        pairs = {name: x.default for name, x in parameters.items() if name in own and isinstance(x.default, tuple)}
        if any(_is_open(own[name]) != (None in default) for name, default in pairs.items()):
            continue
        spoken = any(
            parameters[name].default in kind_and_texts(text)[1] for name, text in own.items() if _is_text(text)
        )
        wanting = {name for name in own if parameters[name].default is inspect.Parameter.empty}
        if reading.asked and not wanting:
            continue
        texts = {name: _passed(text, "" if name in wanting else reading.absent) for name, text in own.items()}
        shown = _shown(texts.values(), mechanism) | reading.shown
        fixed = _fixed(reading, given_by(adapter.function, mechanism, texts))
        some = bool(own or reading.returns or not reading.fixed)
        found += [
            Way(reading, texts, shown, bool(wanting), each, bool(pairs) or spoken) for each in fixed if some or each
        ]
    said: dict[str, set[str]] = {}
    for way in found:
        for name, value in way.fixed.items() if way.reading.named else ():
            said.setdefault(name, set()).add(value)
    return [way for way in found if way.reading.named or way.parameters or _agrees(way, said)]


def _agrees(way: Way, said: Mapping[str, Collection[str]]) -> bool:
    """Whether a way has no value of an option but those that a name says."""
    return all(value in said.get(name, (value,)) for name, value in way.fixed.items())


def _is_text(text: str) -> bool:
    return kind_and_texts(text)[0] == "text"


def _is_open(text: str) -> bool | None:
    """Whether a text is a pair that may have none in it; None for a text that is no pair."""
    how, texts = kind_and_texts(text)
    return None if how != "tuple" else not any(" if " in each for each in texts)


def _fixed(reading: Reading, given: Collection[str]) -> Iterator[dict[str, str]]:
    """The values that options of one value may have together, of those that no parameter gives."""
    choices = {name: values for name, values in reading.fixed.items() if name not in given}
    for values in itertools.product(*choices.values()):
        yield dict(zip(choices, values, strict=True))


def begun(adapter: Adapter, mechanism: Mechanism) -> list[Way]:
    """The ways by which a plain function is called first: as its name says, and the first of what it asks for."""
    found, known = list[Way](), ways(adapter, mechanism)
    asked = unsaid(adapter, mechanism, stated_for(adapter.function, mechanism))
    handed = (way for way in known if way.asked and _hands_results(way, mechanism))
    asked |= {name for way in handed for name in way.parameters}  # whatever else its name may mean
    for way in known:
        if way.reading.refusing or any(other.reading is way.reading for other in found):
            continue
        one = way.reading
        if any(
            {*way.parameters} & {*other.parameters} or (way.reading.returns and other.reading.returns)
            for other in found
        ):
            continue  # which are read already, as are the results
        if one.named or one.lacking or one.usual or one.certain or way.usual or {*way.parameters} & asked:
            found.append(way)
            asked -= {*way.parameters}
    return found


def unsaid(adapter: Adapter, mechanism: Mechanism, like: str) -> set[str]:
    """The parameters without a default that are passed nothing by a line, or by no line."""
    parameters = inspect.signature(adapter.function).parameters.values()
    own = {*mechanism.required, *mechanism.takes}
    passed = {*stated(like).parameters} if like else own | called_as_inputs(adapter.function, mechanism)
    return {p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD} - passed


def line_of(adapter: Adapter, mechanism: Mechanism, some: Sequence[Way]) -> str:
    """The interface of a plain function by some ways; nothing where it is called as its operator is."""
    return stated_for(adapter.function, mechanism, _line(adapter, mechanism, some) if some else None)


def is_spelt(adapter: Adapter, mechanism: Mechanism) -> bool:
    """Whether the names of the parameters of a plain function are those of an operator, all that it asks for.

    No function of an operator is passed an input and a part of it.
    """
    line = _line(adapter, mechanism, begun(adapter, mechanism))
    names = inspect.signature(adapter.function).parameters
    texts = {line.parameters.get(name, name) for name in names}
    twice = any(name in texts and any(f"{name}[" in text for text in texts) for name in mechanism.required)
    return not twice and spells(adapter.function, mechanism, line)


def _line(adapter: Adapter, mechanism: Mechanism, some: Sequence[Way]) -> Line:
    """What some ways say of the interface of a plain function."""
    names = inspect.signature(adapter.function).parameters
    return Line(
        mechanism.operator,
        {name: text for way in some for name, text in way.parameters.items()},
        {name: text for way in sorted(some, key=_has_parameters) for name, text in way.fixed.items()},
        tuple(dict.fromkeys(text for way in some for text in way.reading.requires)),
        {
            n: x
            for way in some
            for own, x in way.reading.dtypes.items()
            for n in (*names, *way.reading.returns)
            if n in own
        },
        tuple(name for way in some for name in way.reading.returns),
        {name: text for way in some for name, text in way.reading.outputs.items()},
        {name: word for way in some for name, word in way.reading.conventions.items()},
    )


def _has_parameters(way: Way) -> bool:
    """Whether parameters show what a way says of options, which weighs more than what is said where none do."""
    return bool(way.parameters)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\d+\.\d+", text) is not None


def _matched(reading: Reading, parameters: Collection[str]) -> dict[str, str] | None:
    """The parameters of a function that a reading is of, each with what it is passed; None where one is lacking."""
    found = dict[str, str]()
    for names, text in reading.parameters.items():
        own = next((name for name in parameters if name in names), None)
        if own is None:
            return None
        found[own] = text
    return found


def _is_named(reading: Reading, adapter: Adapter) -> bool:
    """Whether a function is called so, or says so, where a reading asks for it."""
    text = f"{adapter.name} {adapter.summary}".lower()
    denied = (rf"(?:non|not|no|without)[\s_-]?{word}" for word in reading.named)
    said = any(re.search(rf"(?<![a-z]){word}(?![a-z])", text) for word in reading.named)
    return not reading.named or (said and not any(re.search(pattern, text) for pattern in denied))


def _mentioned(adapter: Adapter) -> set[str]:
    """The words of the name of a function, of its documentation, and of the names in its source."""
    source = source_of(adapter)
    own = re.findall(r"[a-z0-9]+", f"{adapter.name} {adapter.summary}".lower())
    return {*own} | (source.words if source is not None else set())


def _passed(text: str, absent: str) -> str:
    """What a parameter is passed, which is none in some calls."""
    how, texts = kind_and_texts(text)
    if not absent or how in ("complex", "text", "dtype"):
        return text
    parts = [f"none if {absent} else {part}" for part in texts]
    return parts[0] if how == "array" else f"[{', '.join(parts)}]"


def _hands_results(way: Way, mechanism: Mechanism) -> bool:
    """Whether a parameter is passed what a forward pass gave."""
    texts = (part for text in way.parameters.values() for part in expressions_in(text))
    return any(compiled(mechanism, text).uses & results(mechanism) for text in texts)


def _shown(texts: Collection[str], mechanism: Mechanism) -> frozenset[str]:
    """What some expressions use that calls may lack."""
    parts = (part for text in texts for part in expressions_in(text))
    used = {name for part in parts for name in compiled(mechanism, part).uses}
    lacked = {name for name in mechanism.takes if mechanism.defaults.get(name, 1) in (None, True, 0.0)}
    return frozenset(used & lacked)
