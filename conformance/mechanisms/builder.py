"""One document on its way to a mechanism: names first, then every expression, then what they mean together."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..errors import SpecError, SpecErrors, did_you_mean, last_place
from ..language.expressions import Expression
from ..language.scopes import Scope, Takes
from ..language.syntax import assignments
from ..numerics.budget import FAULTS
from .documents import Text
from .inspection import NO_DEFAULT, asking, default_of, fallback, printed, shape_names
from .mechanism import ANSWERED, LAYOUTS, Example, Law, Mechanism, Mistake, Printed, Reject, Setting
from .schema import Document, place_of
from .validation import clashes, contradictions

PSEUDO_OPTIONS = frozenset({"layout"})
"""What a scenario may set beside sizes, inputs and options."""


class Reader:
    """One document on its way to a mechanism. Faults are gathered, so that one reading names all of them."""

    def __init__(
        self, document: Document, text: str, shown: str, base: Mechanism | None, operators: Mapping[str, Takes]
    ) -> None:
        """`text` is that of the document, and `shown` what messages call its file.

        `base` is the operator's mechanism, for a further one of it.
        """
        self.document, self.text, self.shown, self.base = document, text, shown, base
        self.name = str(self.get("mechanism"))
        self.operators = operators
        self.errors: list[SpecError] = []
        self.texts = {key: self.section(key) for key in ("sizes", "inputs", "options", "conventions")}
        self.lines = {} if self.get("definition") == "reference" else self.section("definition")

    def found(self, error: SpecError) -> None:
        """Keep a fault; where there are too many, nothing further is read."""
        self.errors.append(error)
        if len(self.errors) == FAULTS:
            told = f"after {FAULTS} faults nothing further is read; fix these first"
            raise SpecErrors([*self.errors, SpecError(told, last_place(self.errors))])

    def get(self, key: str, default: Any = None) -> Any:
        return self.document.get(key, default)  # type: ignore[call-overload]

    def section(self, key: str) -> dict[str, Any]:
        """An own section of the document: expressions by name."""
        return {str(name): text for name, text in self.get(key, {}).items()}

    # Scopes

    @functools.cached_property
    def conventions(self) -> dict[str, dict[str, str]]:
        inherited = {} if self.base is None else {c: dict(words) for c, words in self.base.conventions.items()}
        own = {c: {str(w): str(s) for w, s in words.items()} for c, words in self.texts["conventions"].items()}
        return {**inherited, **own}

    @functools.cached_property
    def words(self) -> dict[str, str]:
        """The convention or option of every word."""
        return {word: name for name, words in {**self.conventions, **self.vocabulary}.items() for word in words}

    @functools.cached_property
    def vocabulary(self) -> dict[str, dict[str, str]]:
        """What an implementation is passed for the words of options."""
        inherited = {} if self.base is None else {o: dict(words) for o, words in self.base.vocabulary.items()}
        own = {o: {str(w): str(s) for w, s in words.items()} for o, words in self.section("words").items()}
        return {**inherited, **own}

    @functools.cached_property
    def outputs(self) -> tuple[str, ...]:
        return tuple(map(str, self.get("outputs", self.base.outputs if self.base else ())))

    @functools.cached_property
    def values(self) -> frozenset[str]:
        """The names of sizes, inputs and options."""
        base = self.base
        inherited = {*base.sizes, *base.inputs, *base.options} if base else set()
        return frozenset({*inherited, *self.texts["sizes"], *self.texts["inputs"], *self.texts["options"]})

    @functools.cached_property
    def all_lines(self) -> frozenset[str]:
        """The names of the lines of the definition; where that is the reference, its outputs."""
        lines = self.lines or (self.outputs if self.get("definition") == "reference" else ())
        return frozenset({*(self.base.definition if self.base else ()), *lines})

    @functools.cached_property
    def drawing(self) -> Scope:
        return Scope(self.values, self.words, operators=self.operators, draws=True)

    @functools.cached_property
    def defining(self) -> Scope:
        return Scope(self.values | self.all_lines | frozenset(self.conventions), self.words, operators=self.operators)

    @functools.cached_property
    def claiming(self) -> Scope:
        scope = self.defining
        signature = {*self.texts["inputs"], *self.texts["options"]}
        if self.base:
            signature |= self.base.signature
        return Scope(
            scope.names - set(self.outputs), scope.words, frozenset(self.outputs), frozenset(signature), self.operators
        )

    # Expressions

    def compile(self, text: Any, scope: Scope, label: str, *, claim: bool = False) -> Expression | None:
        try:
            return Expression(str(text), scope, place_of(text), claim=claim)
        except SpecError as error:
            self.found(SpecError(f"{label}: {error.message}", error.place or place_of(text)))
            return None

    def each(self, texts: Mapping[str, Any], scope: Scope, label: str) -> dict[str, Expression]:
        layouts = Scope(words=dict.fromkeys(LAYOUTS, "layout"), draws=True)
        made = {
            name: self.compile(
                text, layouts if name in PSEUDO_OPTIONS and scope is self.drawing else scope, f"{label}.{name}"
            )
            for name, text in texts.items()
        }
        return {name: expression for name, expression in made.items() if expression is not None}

    def assigned(
        self, text: Any, scope: Scope, label: str, known: Iterable[str] | None = None, further: bool = False
    ) -> dict[str, Expression]:
        """Compiled assignments; `known` names are the only ones allowed, or with `further` names, new ones."""
        try:
            parts = assignments(str(text), place_of(text)) if text is not None else {}
        except SpecError as error:
            self.found(SpecError(f"{label}: {error.message}", error.place))
            return {}
        if further:
            scope = scope.having(*parts)
        for name, (_, place) in parts.items():
            if known is not None and name not in known:
                self.found(SpecError(f"{label}: nothing is called {name!r}{did_you_mean(name, known)}", place))
        return self.each({n: Text.at(t, p) if p else t for n, (t, p) in parts.items()}, scope, label)

    # Parts

    def law(self, name: str, entry: Mapping[str, Any], label: str) -> Law | None:
        own = assignments(str(entry["given"]), place_of(entry["given"])) if "given" in entry else {}
        scope = self.claiming.having(*own)
        drawing = Scope(scope.names, scope.words, scope.outputs, scope.replaceable, scope.operators, draws=True)
        given = self.assigned(entry.get("given"), drawing, f"{label}.given", further=True)
        when = self.compile(entry.get("when", "true"), scope, f"{label}.when", claim=True)
        holds = self.compile(entry["holds"], scope, f"{label}.holds", claim=True)
        for clash in sorted(set(own) & (self.values | set(self.outputs) | set(self.defining.names))):
            self.found(SpecError(f"{label}.given: {clash!r} already means something", own[clash][1]))
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
        change = self.assigned(entry["change"], self.defining, f"{label}.change", self.values | self.all_lines)
        return Mistake(name, entry["says"], change, str(entry.get("seen", "")), place_of(entry["change"]))

    def reject(self, name: str, entry: Mapping[str, Any], label: str) -> Reject | None:
        when = self.compile(entry.get("when", "true"), self.defining, f"{label}.when", claim=True)
        call = self.assigned(entry["call"], self.defining, f"{label}.call", self.claiming.replaceable)
        if when is None:
            return None
        level = str(entry.get("level", "should"))
        return Reject(name, entry["says"], when, call, level, place_of(entry["call"]))  # type: ignore[arg-type]

    @functools.cached_property
    def scenario_defaults(self) -> dict[str, Expression]:
        """What every scenario assigns that does not do so itself."""
        known = self.values | PSEUDO_OPTIONS
        return self.assigned(self.get("scenario_defaults"), self.drawing, "scenario_defaults", known)

    def scenario(self, name: str, text: Any, label: str) -> Setting:
        own = self.assigned(text, self.drawing, label, self.values | PSEUDO_OPTIONS)
        defaults = {assigned: x for assigned, x in self.scenario_defaults.items() if assigned not in own}
        return Setting(name, {**defaults, **own}, place_of(text))

    def regime(self, name: str, text: Any, label: str) -> Setting:
        return Setting(name, self.assigned(text, self.drawing, label, self.values), place_of(text))

    def example(self, name: str, entry: Mapping[str, Any], label: str) -> Example:
        given = self.assigned(entry["given"], self.drawing, f"{label}.given", self.values)
        gives: dict[str, Printed] = {}
        try:
            for output, (text, place) in assignments(str(entry["gives"]), place_of(entry["gives"])).items():
                if output not in self.outputs:
                    raise SpecError(f"{output!r} is not an output{did_you_mean(output, self.outputs)}", place)
                gives[output] = printed(text, place)
        except SpecError as error:
            self.found(SpecError(f"{label}.gives: {error.message}", error.place))
        return Example(name, given, gives, place_of(entry["given"]))

    # The whole

    def mechanism(self) -> Mechanism:
        base = self.base
        for error in clashes(self.document, base):
            self.found(error)
        sizes, inputs, options = (
            {**(getattr(base, key) if base else {}), **self.each(self.texts[key], self.drawing, key)}
            for key in ("sizes", "inputs", "options")
        )
        definition = {**(base.definition if base else {}), **self.each(self.lines, self.defining, "definition")}
        laws, mistakes, rejects, examples = {}, {}, {}, {}
        for key, made, make in (
            ("laws", laws, self.law),
            ("mistakes", mistakes, self.mistake),
            ("rejects", rejects, self.reject),
            ("examples", examples, self.example),
        ):
            for name, entry in self.get(key, {}).items():
                try:
                    item = make(str(name), entry, f"{key}.{name}")
                except SpecError as error:
                    self.found(SpecError(f"{key}.{name}: {error.message}", error.place))
                    continue
                if item is not None:
                    made[str(name)] = item
        settings = {
            key: {str(n): make(str(n), t, f"{key}.{n}") for n, t in self.get(key, {}).items()}
            for key, make in (("regimes", self.regime), ("scenarios", self.scenario))
        }
        required = base.required if base else tuple(n for n, e in inputs.items() if fallback(e) is None)
        dtypes = {**(base.dtypes if base else {}), **{str(k): str(v) for k, v in self.get("dtypes", {}).items()}}
        result = Mechanism(
            name=self.name,
            operator=base.name if base else self.name,
            title=str(self.get("title")),
            summary=" ".join(str(self.get("summary")).split()),
            formula=str(self.get("formula", base.formula if base else "")),
            sources=tuple(self.get("sources")),
            version=int(self.get("version")),
            digest=self.digest(),
            path=self.shown,
            sizes=sizes,
            inputs=inputs,
            options=options,
            conventions=self.conventions,
            vocabulary=self.vocabulary,
            follows={**(base.follows if base else {}), **{str(k): str(v) for k, v in self.get("follows", {}).items()}},
            requires={
                **(base.requires if base else {}),
                **self.each(self.section("requires"), self.defining, "requires"),
            },
            dtypes=dtypes,
            definition=definition,
            by_reference=self.get("definition") == "reference" or bool(base and base.by_reference),
            outputs=self.outputs,
            random=tuple(map(str, self.get("random", base.random if base else ()))),
            normal_form={
                **(base.normal_form if base else {}),
                **self.each(self.section("normal_form"), self.defining, "normal_form"),
            },
            examples=examples,
            regimes={**(base.regimes if base else {}), **settings["regimes"]},
            scenarios=settings["scenarios"],
            laws=laws,
            mistakes=mistakes,
            rejects=rejects,
            required=required,
            defaults={
                **self.defaults(inputs, options, {*required, *dtypes.values()}),
                **(base.defaults if base else {}),
            },
            shapes=base.shapes if base else {n: shape_names(inputs[n], sizes) for n in required if n in inputs},
            layouts=self.layouts(),
            gradient_of=str(self.get("gradient_of", base.gradient_of if base else "")),
            answered=float(self.get("answered", base.answered if base else ANSWERED)),
            own=frozenset({*self.texts["sizes"], *self.texts["inputs"], *self.texts["options"]})
            if base
            else frozenset(),
            reference_place=place_of(self.get("definition"))
            if self.get("definition") == "reference"
            else base and base.reference_place,
        )
        for error in contradictions(result, self.document):
            self.found(error)
        if self.errors:
            raise SpecErrors(self.errors)
        return result

    def layouts(self) -> dict[str, dict[str, str]]:
        """The layouts of its arrays, or of its operator's."""
        own = {
            str(name): {str(array): str(text) for array, text in given.items()}
            for name, given in self.get("layouts", {}).items()
        }
        inherited = {name: dict(given) for name, given in self.base.layouts.items()} if self.base else {}
        return own or inherited

    def digest(self) -> str:
        text = self.text.encode() + (self.base.digest.encode() if self.base else b"")
        return hashlib.sha256(text).hexdigest()[:12]

    def defaults(
        self, inputs: Mapping[str, Expression], options: Mapping[str, Expression], always: Collection[str]
    ) -> dict[str, Any]:
        """What may be left out, each with what it is then; what is `always` there has no default."""
        words, base = self.drawing.words, {*self.base.inputs, *self.base.options} if self.base else set[str]()
        drawn = {n: e for n, e in {**options, **inputs}.items() if n not in always and n not in base}
        found = {n: default_of(e, words) for n, e in drawn.items()}
        return {n: default for n, default in found.items() if default is not NO_DEFAULT}
