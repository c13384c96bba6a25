"""The meaning of names in a document: its own, those of its operator, and words."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ..language.scopes import Scope, Takes
from .mechanism import Mechanism
from .schema import Document


class Names:
    """The names of a document, and the scopes in which its expressions are read."""

    def __init__(self, document: Document, base: Mechanism | None, operators: Mapping[str, Takes]) -> None:
        """`base` is the operator's mechanism, for a further one of it; `operators` can be called by their names."""
        self.document, self.base, self.operators = document, base, operators
        self.texts = {key: self.section(key) for key in ("sizes", "inputs", "options", "conventions")}
        self.lines = {} if self.get("definition") == "reference" else self.section("definition")

    def get(self, key: str, default: Any = None) -> Any:
        """What the document says under a key, or the default."""
        return self.document.get(key, default)  # type: ignore[call-overload]

    def section(self, key: str) -> dict[str, Any]:
        """An own section of the document: expressions by name."""
        return {str(name): text for name, text in self.get(key, {}).items()}

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
    def conditions(self) -> Scope:
        """Of what holds of every call, which is known before a line of the definition is computed."""
        return Scope(self.values, self.words)

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
