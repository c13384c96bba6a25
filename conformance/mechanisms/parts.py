"""The named entries of a document: laws, mistakes, rejects, settings and worked examples."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ..errors import SpecError, did_you_mean
from ..language.expressions import Expression
from ..language.scopes import Scope
from ..language.syntax import assignments
from .inspection import asking, printed
from .mechanism import Example, Law, Mistake, Printed, Reject, Setting
from .names import Names
from .schema import place_of
from .texts import PSEUDO_OPTIONS, Texts


class Parts:
    """Makes entries of their texts; `label` says where in the document one stands."""

    def __init__(self, names: Names, texts: Texts) -> None:
        self.names, self.texts = names, texts

    def law(self, name: str, entry: Mapping[str, Any], label: str) -> Law | None:
        own = assignments(str(entry["given"]), place_of(entry["given"])) if "given" in entry else {}
        scope = self.names.claiming.having(*own)
        drawing = Scope(scope.names, scope.words, scope.outputs, scope.replaceable, scope.operators, draws=True)
        given = self.texts.assigned(entry.get("given"), drawing, f"{label}.given", further=True)
        when = self.texts.compile(entry.get("when", "true"), scope, f"{label}.when", claim=True)
        holds = self.texts.compile(entry["holds"], scope, f"{label}.holds", claim=True)
        for clash in sorted(set(own) & (self.names.values | set(self.names.outputs) | set(self.names.defining.names))):
            self.texts.found(SpecError(f"{label}.given: {clash!r} already means something", own[clash][1]))
        if when is None or holds is None:
            return None
        return Law(
            name,
            entry["says"],
            given,
            when,
            holds,
            str(entry.get("level", "must")),  # type: ignore[arg-type]
            str(entry.get("contract", "")),
            tuple(map(str, entry.get("sources", ()))),
            place_of(entry["holds"]),
            asking(given),
        )

    def mistake(self, name: str, entry: Mapping[str, Any], label: str) -> Mistake:
        change = self.texts.assigned(
            entry["change"], self.names.defining, f"{label}.change", self.names.values | self.names.all_lines
        )
        return Mistake(name, entry["says"], change, str(entry.get("seen", "")), place_of(entry["change"]))

    def reject(self, name: str, entry: Mapping[str, Any], label: str) -> Reject | None:
        when = self.texts.compile(entry.get("when", "true"), self.names.defining, f"{label}.when", claim=True)
        call = self.texts.assigned(entry["call"], self.names.defining, f"{label}.call", self.names.claiming.replaceable)
        if when is None:
            return None
        level = str(entry.get("level", "should"))
        return Reject(name, entry["says"], when, call, level, place_of(entry["call"]))  # type: ignore[arg-type]

    @functools.cached_property
    def scenario_defaults(self) -> dict[str, Expression]:
        """What every scenario assigns that does not do so itself."""
        known = self.names.values | PSEUDO_OPTIONS
        return self.texts.assigned(self.names.get("scenario_defaults"), self.names.drawing, "scenario_defaults", known)

    def scenario(self, name: str, text: Any, label: str) -> Setting:
        own = self.texts.assigned(text, self.names.drawing, label, self.names.values | PSEUDO_OPTIONS)
        defaults = {assigned: x for assigned, x in self.scenario_defaults.items() if assigned not in own}
        return Setting(name, {**defaults, **own}, place_of(text))

    def regime(self, name: str, text: Any, label: str) -> Setting:
        return Setting(name, self.texts.assigned(text, self.names.drawing, label, self.names.values), place_of(text))

    def crossed(self, name: str, text: Any, label: str) -> Setting:
        if name in self.names.get("scenarios", {}):
            self.texts.found(SpecError(f"{label}: there is a scenario of this name", place_of(text)))
        return self.regime(name, text, label)

    def example(self, name: str, entry: Mapping[str, Any], label: str) -> Example:
        given = self.texts.assigned(entry["given"], self.names.drawing, f"{label}.given", self.names.values)
        gives: dict[str, Printed] = {}
        try:
            for output, (text, place) in assignments(str(entry["gives"]), place_of(entry["gives"])).items():
                if output not in self.names.outputs:
                    raise SpecError(f"{output!r} is not an output{did_you_mean(output, self.names.outputs)}", place)
                gives[output] = printed(text, place)
        except SpecError as error:
            self.texts.found(SpecError(f"{label}.gives: {error.message}", error.place))
        return Example(name, given, gives, place_of(entry["given"]))
