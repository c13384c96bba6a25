"""From YAML files to `Mechanism` values: the schema first, then names, then every expression.

All faults of a file are reported together, each with its place.
What is merely bad style, and not an error, is for the linter.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from .documents import Text, read
from .draws import DRAWS
from .errors import Place, SpecError, SpecErrors, UsageError, did_you_mean
from .language import CONSTANTS, RESERVED, Expression, Scope, Takes, assignments, parse
from .library import FUNCTIONS
from .mechanism import Example, Law, Mechanism, Mistake, Printed, Reject, Setting

LAYOUTS = ("contiguous", "strided", "transposed", "offset", "expanded", "mixed")
"""The memory layouts of inputs; scenarios may choose one by `layout = ...`."""
PSEUDO_OPTIONS = frozenset({"layout"})

Document = Mapping[Text, Any]


def spec_folder() -> Path:
    """The folder of the shipped specifications."""
    return Path(str(files("attnspec.spec")))


@functools.cache
def library() -> Mapping[str, Mechanism]:
    """The shipped mechanisms by name, in alphabetical order."""
    return load(sorted(spec_folder().glob("*.yaml")))


def mechanism_named(name: str) -> Mechanism:
    """A shipped mechanism; an unknown name is a `UsageError`."""
    if name not in library():
        raise UsageError(f"unknown mechanism {name!r}{did_you_mean(name, library())}")
    return library()[name]


def load(paths: Iterable[Path], beside: Mapping[str, Mechanism] | None = None) -> dict[str, Mechanism]:
    """The mechanisms in files that may build on one another, and on those `beside` them.

    Raises `SpecErrors` with everything that is wrong.
    """
    errors: list[SpecError] = []
    documents: dict[str, tuple[Path, Document]] = {}
    for path in paths:
        try:
            document = read(path, _shown(path))
        except SpecError as error:
            errors.append(error)
            continue
        faults = list(schema_errors(document)) or list(_misnamed(document, path))
        errors += faults
        if not faults:
            documents[str(document["mechanism"])] = (path, document)  # type: ignore[index]
    loading = _Loading(documents, dict(beside or {}))
    for name in documents:
        try:
            loading.mechanism(name, ())
        except SpecError as error:
            errors.append(error)
        except SpecErrors as several:
            errors += several.errors
    if errors:
        raise SpecErrors(dict.fromkeys(errors))
    return loading.done


def _shown(path: Path) -> str:
    """A path as people would write it from where they are."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


# The schema


@functools.cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads((spec_folder() / "schema.json").read_text("utf-8")))


def schema_errors(document: Document) -> Iterable[SpecError]:
    """What the schema has against a document, in the words of its author."""
    for error in sorted(_validator().iter_errors(document), key=lambda e: list(map(str, e.absolute_path))):
        where = ".".join(map(str, error.absolute_path))
        inside = f"{where}: " if where else ""
        if error.validator == "additionalProperties":
            for key in sorted(set(error.instance) - set(error.schema["properties"])):
                hint = did_you_mean(key, error.schema["properties"])
                yield SpecError(f"{inside}unknown key {str(key)!r}{hint}", _place(key))
        elif error.validator == "required":
            missing = next(k for k in error.validator_value if k not in error.instance)
            yield SpecError(f"{inside}the key {missing!r} is missing", _place_in(document, error.absolute_path))
        else:
            yield SpecError(f"{inside}{_explained(error)}", _place_in(document, error.absolute_path))


def _explained(error: Any) -> str:
    if error.validator == "pattern" and error.validator_value == "[.]$":
        return "a sentence ends with a full stop"
    if error.validator == "pattern":
        return f"{str(error.instance)!r} is not a name (small letters, digits and underscores)"
    if error.validator == "minLength":
        return "nothing is said"
    return error.message.replace("[Text", "[")


def _place(text: Any) -> Place | None:
    return getattr(text, "place", None)


def _place_in(document: Any, path: Iterable[Any]) -> Place | None:
    """The place of a value, or of the nearest key above it."""
    place = next((_place(key) for key in document), None) if isinstance(document, dict) else None
    for step in path:
        if isinstance(document, dict):
            place = next((_place(key) for key in document if key == step), place)
        document = document[step]
        place = _place(document) or place
    return place


def _misnamed(document: Document, path: Path) -> Iterable[SpecError]:
    name = document["mechanism"]  # type: ignore[index]
    if name != path.stem:
        yield SpecError(f"the file of mechanism {str(name)!r} is called {path.name!r}", _place(name))


# From documents to mechanisms


class _Loading:
    """The files of one load, compiled in the order in which they need one another."""

    def __init__(self, documents: dict[str, tuple[Path, Document]], done: dict[str, Mechanism]) -> None:
        self.documents, self.done = documents, done

    @functools.cached_property
    def operators(self) -> dict[str, Takes]:
        """Every operator with what can be passed to it."""
        known = {
            m.name: Takes(m.required, frozenset({*m.signature, *m.conventions}))
            for m in self.done.values()
            if m.operator == m.name
        }
        for name, (_, document) in self.documents.items():
            if document.get("operator", name) == name:  # type: ignore[call-overload]
                parts = [document.get(key, {}) for key in ("inputs", "options", "conventions")]  # type: ignore[call-overload]
                required = tuple(str(n) for n, text in parts[0].items() if not str(text).startswith("maybe("))
                known[name] = Takes(required, frozenset(str(n) for part in parts for n in part))
        return known

    def mechanism(self, name: str, trail: tuple[str, ...]) -> Mechanism:
        if name not in self.done:
            path, document = self.documents[name]
            operator = document.get("operator", name)  # type: ignore[call-overload]
            base = None
            if operator != name:
                if operator in trail or operator not in self.documents and operator not in self.done:
                    known = {*self.documents, *self.done} - {name}
                    raise SpecError(
                        f"unknown operator {str(operator)!r}{did_you_mean(operator, known)}", _place(operator)
                    )
                base = self.mechanism(str(operator), (*trail, name))
                if base.operator != base.name:
                    raise SpecError(f"{str(operator)!r} is not an operator: it is a mechanism of {base.operator!r}",
                                    _place(operator))  # fmt: skip
            self.done[name] = _Reader(document, path, base, self.operators).mechanism()
        return self.done[name]


class _Reader:
    """One document on its way to a mechanism. Faults are gathered, so that one reading names all of them."""

    def __init__(
        self, document: Document, path: Path, base: Mechanism | None, operators: Mapping[str, Takes]
    ) -> None:
        self.document, self.path, self.base = document, path, base
        self.name = str(self.get("mechanism"))
        self.operators = operators
        self.errors: list[SpecError] = []
        self.texts = {key: self.section(key) for key in ("sizes", "inputs", "options", "conventions")}
        self.lines = {} if self.get("definition") == "reference" else self.section("definition")

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
        """The convention of every word."""
        return {word: convention for convention, words in self.conventions.items() for word in words}

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
        """The names of the lines of the definition."""
        return frozenset({*(self.base.definition if self.base else ()), *self.lines})

    @functools.cached_property
    def drawing(self) -> Scope:
        words = {**self.words, **dict.fromkeys(LAYOUTS, "layout")}
        return Scope(self.values, words, operators=self.operators, draws=True)

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
            return Expression(str(text), scope, _place(text), claim=claim)
        except SpecError as error:
            self.errors.append(SpecError(f"{label}: {error.message}", error.place or _place(text)))
            return None

    def each(self, texts: Mapping[str, Any], scope: Scope, label: str) -> dict[str, Expression]:
        made = {name: self.compile(text, scope, f"{label}.{name}") for name, text in texts.items()}
        return {name: expression for name, expression in made.items() if expression is not None}

    def assigned(
        self, text: Any, scope: Scope, label: str, known: Iterable[str] | None = None, further: bool = False
    ) -> dict[str, Expression]:
        """Compiled assignments; `known` names are the only ones allowed, or with `further` names, new ones."""
        try:
            parts = assignments(str(text), _place(text)) if text is not None else {}
        except SpecError as error:
            self.errors.append(SpecError(f"{label}: {error.message}", error.place))
            return {}
        if further:
            scope = scope.having(*parts)
        for name, (_, place) in parts.items():
            if known is not None and name not in known:
                self.errors.append(
                    SpecError(f"{label}: nothing is called {name!r}{did_you_mean(name, known)}", place)
                )
        return self.each({n: Text.at(t, p) if p else t for n, (t, p) in parts.items()}, scope, label)

    # Parts

    def law(self, name: str, entry: Mapping[str, Any], label: str) -> Law | None:
        own = assignments(str(entry["given"]), _place(entry["given"])) if "given" in entry else {}
        scope = self.claiming.having(*own)
        drawing = Scope(scope.names, scope.words, scope.outputs, scope.replaceable, scope.operators, draws=True)
        given = self.assigned(entry.get("given"), drawing, f"{label}.given", further=True)
        when = self.compile(entry.get("when", "true"), scope, f"{label}.when", claim=True)
        holds = self.compile(entry["holds"], scope, f"{label}.holds", claim=True)
        for clash in sorted(set(own) & (self.values | set(self.outputs) | set(self.defining.names))):
            self.errors.append(SpecError(f"{label}.given: {clash!r} already means something", own[clash][1]))
        if when is None or holds is None:
            return None
        return Law(
            name, str(entry["says"]), given, when, holds, str(entry.get("level", "must")),  # type: ignore[arg-type]
            str(entry.get("contract", "")), tuple(map(str, entry.get("sources", ()))), _place(entry["holds"]),
            _asking(given),
        )  # fmt: skip

    def mistake(self, name: str, entry: Mapping[str, Any], label: str) -> Mistake:
        change = self.assigned(entry["change"], self.defining, f"{label}.change", self.values | self.all_lines)
        return Mistake(name, str(entry["says"]), change, str(entry.get("seen", "")), _place(entry["change"]))

    def reject(self, name: str, entry: Mapping[str, Any], label: str) -> Reject | None:
        when = self.compile(entry.get("when", "true"), self.defining, f"{label}.when", claim=True)
        call = self.assigned(entry["call"], self.defining, f"{label}.call", self.claiming.replaceable)
        if when is None:
            return None
        level = str(entry.get("level", "should"))
        return Reject(name, str(entry["says"]), when, call, level, _place(entry["call"]))  # type: ignore[arg-type]

    def setting(self, name: str, text: Any, label: str) -> Setting:
        known = self.values | PSEUDO_OPTIONS if label.startswith("scenarios") else self.values
        return Setting(name, self.assigned(text, self.drawing, label, known), _place(text))

    def example(self, name: str, entry: Mapping[str, Any], label: str) -> Example:
        given = self.assigned(entry["given"], self.drawing, f"{label}.given", self.values)
        gives: dict[str, Printed] = {}
        try:
            for output, (text, place) in assignments(str(entry["gives"]), _place(entry["gives"])).items():
                if output not in self.outputs:
                    raise SpecError(f"{output!r} is no output{did_you_mean(output, self.outputs)}", place)
                gives[output] = printed(text, place)
        except SpecError as error:
            self.errors.append(SpecError(f"{label}.gives: {error.message}", error.place))
        return Example(name, given, gives, _place(entry["given"]))

    # The whole

    def mechanism(self) -> Mechanism:
        base = self.base
        self.check_names()
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
                    self.errors.append(SpecError(f"{key}.{name}: {error.message}", error.place))
                    continue
                if item is not None:
                    made[str(name)] = item
        settings = {
            key: {str(n): self.setting(str(n), t, f"{key}.{n}") for n, t in self.get(key, {}).items()}
            for key in ("regimes", "scenarios")
        }
        required = base.required if base else tuple(n for n, e in inputs.items() if _fallback(e) is None)
        result = Mechanism(
            name=self.name,
            operator=base.name if base else self.name,
            title=str(self.get("title")),
            summary=" ".join(str(self.get("summary")).split()),
            formula=str(self.get("formula", base.formula if base else "")),
            sources=tuple(map(str, self.get("sources"))),
            version=int(self.get("version")),
            digest=self.digest(),
            path=_shown(self.path),
            sizes=sizes,
            inputs=inputs,
            options=options,
            conventions=self.conventions,
            follows={**(base.follows if base else {}), **{str(k): str(v) for k, v in self.get("follows", {}).items()}},
            requires={
                **(base.requires if base else {}),
                **self.each(self.section("requires"), self.defining, "requires"),
            },
            dtypes={**(base.dtypes if base else {}), **{str(k): str(v) for k, v in self.get("dtypes", {}).items()}},
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
            defaults=base.defaults if base else self.defaults(inputs, options, required),
            shapes=base.shapes if base else {n: _shape_names(inputs[n], sizes) for n in required if n in inputs},
            own=frozenset({*self.texts["sizes"], *self.texts["inputs"], *self.texts["options"]})
            if base
            else frozenset(),
        )
        self.check_whole(result)
        if self.errors:
            raise SpecErrors(self.errors)
        return result

    def digest(self) -> str:
        text = self.path.read_bytes() + (self.base.digest.encode() if self.base else b"")
        return hashlib.sha256(text).hexdigest()[:12]

    def defaults(
        self, inputs: Mapping[str, Expression], options: Mapping[str, Expression], required: tuple[str, ...]
    ) -> dict[str, Any]:
        words = self.drawing.words
        found = {n: default_of(e, words) for n, e in options.items()}
        found |= {n: default_of(e, words) for n, e in inputs.items() if n not in required}
        return {n: default for n, default in found.items() if default is not NO_DEFAULT}

    # Meaning

    def check_names(self) -> None:
        """No name means two things."""
        taken = {**dict.fromkeys({*FUNCTIONS, *DRAWS}, "a function"), **dict.fromkeys(RESERVED, "a constant")}
        kinds = {"sizes": "a size", "inputs": "an input", "options": "an option"}
        if self.base:
            for key, kind in kinds.items():
                taken |= dict.fromkeys(getattr(self.base, key), kind)
        for key, kind in kinds.items():
            for name in self.get(key, {}):
                if taken.get(name, kind) != kind:
                    self.clash(name, taken[name])
                taken[str(name)] = kind
        inherited = {*(self.base.definition if self.base else ())}
        for name in self.get("definition", {}) if self.lines else ():
            if name in taken and name not in inherited:
                self.clash(name, taken[name])
            taken[str(name)] = "a line of the definition"
        for words in self.get("conventions", {}).values():
            for word in words:
                if word in taken:
                    self.clash(word, taken[word])
        owners: dict[str, str] = {}
        for key in ("laws", "rejects"):
            for name in self.get(key, {}):
                if name in owners or name == "definition":
                    self.errors.append(SpecError(f"two laws are called {str(name)!r}", _place(name)))
                owners[str(name)] = key

    def clash(self, name: Any, meaning: str) -> None:
        self.errors.append(SpecError(f"{str(name)!r} is already the name of {meaning}", _place(name)))

    def check_whole(self, mechanism: Mechanism) -> None:
        where = _place(self.get("mechanism"))
        if not mechanism.outputs:
            self.errors.append(SpecError("the key 'outputs' is missing", where))
        for output in () if mechanism.by_reference else mechanism.outputs:
            if output not in mechanism.definition:
                self.errors.append(SpecError(f"outputs: no line of the definition is called {output!r}", where))
        for part in ("random", "dtypes", "normal_form"):
            for name in self.get(part, ()):
                if name not in mechanism.outputs and name not in mechanism.inputs:
                    self.errors.append(SpecError(f"{part}: {str(name)!r} is neither input nor output", _place(name)))
        for name, other in self.get("follows", {}).items():
            for convention in (name, other):
                if convention not in mechanism.conventions:
                    hint = did_you_mean(convention, mechanism.conventions)
                    self.errors.append(SpecError(f"follows: no convention {str(convention)!r}{hint}", _place(convention)))
            if len(mechanism.conventions.get(name, ())) != len(mechanism.conventions.get(other, ())):
                self.errors.append(SpecError(f"follows: {str(name)!r} has not the words of {str(other)!r}", _place(name)))
        for label, texts in (("definition", mechanism.definition), ("options", {**mechanism.sizes, **mechanism.inputs,
                                                                               **mechanism.options})):  # fmt: skip
            circle = find_circle({n: e.uses for n, e in texts.items()})
            if circle:
                self.errors.append(
                    SpecError(f"{label}: a circle: {' -> '.join(circle)}", texts[circle[0]].place or where)
                )
        for law in mechanism.laws.values():
            circle = find_circle({n: e.uses for n, e in law.given.items()})
            if circle:
                self.errors.append(SpecError(f"laws.{law.name}.given: a circle: {' -> '.join(circle)}", law.place))
        fixed = {size for shape in mechanism.shapes.values() for size in shape}
        for name, line in mechanism.definition.items():
            loose = sorted(line.uses & set(mechanism.sizes) - fixed)
            if loose:
                text = f"definition.{name}: the size {loose[0]!r} is not fixed by the shape of a required input"
                self.errors.append(SpecError(text, line.place))


# Small readings of expressions


NO_DEFAULT = object()


def default_of(expression: Expression, words: Iterable[str]) -> Any:
    """What is drawn at the first choice of every draw, or `NO_DEFAULT` where that is not a plain value."""
    tree = parse(expression.text)
    while isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in ("choice", "maybe"):
        tree = tree.args[tree.func.id == "maybe"]
    if isinstance(tree, ast.Name):
        return tree.id if tree.id in words else CONSTANTS.get(tree.id, NO_DEFAULT)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub) and isinstance(tree.operand, ast.Name):
        constant = CONSTANTS.get(tree.operand.id)
        return -constant if isinstance(constant, float) else NO_DEFAULT
    try:
        return ast.literal_eval(tree)
    except (ValueError, TypeError):
        return NO_DEFAULT


def _fallback(expression: Expression) -> ast.expr | None:
    """The second argument of an outermost `maybe`."""
    tree = parse(expression.text)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "maybe":
        return tree.args[1]
    return None


def _shape_names(expression: Expression, sizes: Iterable[str]) -> tuple[str | None, ...]:
    """The sizes in the shape of the array that an expression draws; None where an axis is something else."""
    names = set(sizes)
    for node in ast.walk(parse(expression.text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            skipped = {"normal": 0, "flags": 0, "indices": 1}.get(node.func.id)
            if skipped is not None:
                axes = node.args[skipped:]
                return tuple(a.id if isinstance(a, ast.Name) and a.id in names else None for a in axes)
    return ()


def _asking(given: Mapping[str, Expression]) -> frozenset[str]:
    """The givens that read an output, themselves or through others."""
    found = {name for name, expression in given.items() if expression.asks}
    while more := {name for name, expression in given.items() if expression.uses & found} - found:
        found |= more
    return frozenset(found)


def printed(text: str, place: Place | None) -> Printed:
    """Printed digits: numbers, in lists of equal length, each right to half a unit of its last digit."""

    def walk(node: ast.expr) -> Any:
        if isinstance(node, ast.List):
            return [walk(item) for item in node.elts]
        digits = (ast.get_source_segment(text, node) or "").replace(" ", "")
        try:
            number = float(digits.replace("infinity", "inf"))
        except ValueError:
            raise SpecError(f"{digits!r} is not a printed number", place) from None
        mantissa, _, exponent = digits.lower().partition("e")
        decimals = len(mantissa.partition(".")[2])
        exact = not math.isfinite(number) or "." not in mantissa
        return number, 0.0 if exact else 0.5 * 10.0 ** (int(exponent or 0) - decimals)

    pairs = np.asarray(walk(parse(text, place)))
    return Printed(pairs[..., 0], pairs[..., 1])


def find_circle(uses: Mapping[str, Iterable[str]]) -> list[str] | None:
    """A chain of names that comes back to its first, or None."""
    state: dict[str, int] = {}

    def visit(name: str, trail: list[str]) -> list[str] | None:
        if name not in uses or state.get(name) == 1:
            return None
        if name in trail:
            return [*trail[trail.index(name) :], name]
        for used in sorted(uses[name]):
            found = visit(used, [*trail, name])
            if found:
                return found
        state[name] = 1
        return None

    return next((found for name in uses if (found := visit(name, []))), None)
