"""Texts of a document as expressions; all errors are collected, so that one reading reports them together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import SpecError, SpecErrors, did_you_mean, last_place
from ..language.expressions import Expression
from ..language.scopes import Scope
from ..language.syntax import assignments
from ..numerics.budget import FAULTS
from .documents import Text
from .mechanism import LAYOUTS
from .schema import place_of

PSEUDO_OPTIONS = frozenset({"layout"})
"""What a scenario may set beside sizes, inputs and options."""


class Texts:
    """Compiles texts, and keeps their faults."""

    def __init__(self) -> None:
        self.errors: list[SpecError] = []

    def found(self, error: SpecError) -> None:
        """Keep a fault; where there are too many, nothing further is read."""
        self.errors.append(error)
        if len(self.errors) == FAULTS:
            told = f"after {FAULTS} faults nothing further is read; fix these first"
            raise SpecErrors([*self.errors, SpecError(told, last_place(self.errors))])

    def compile(self, text: Any, scope: Scope, label: str, *, claim: bool = False) -> Expression | None:
        """A text as an expression, or None where it has a fault; `label` says where in the document it stands."""
        try:
            return Expression(str(text), scope, place_of(text), claim=claim)
        except SpecError as error:
            self.found(SpecError(f"{label}: {error.message}", error.place or place_of(text)))
            return None

    def each(self, texts: Mapping[str, Any], scope: Scope, label: str) -> dict[str, Expression]:
        """Texts compiled by name; what has faults is left out. Where cases are drawn, `layout` is a word."""

        def pseudo(name: str) -> bool:
            return name in PSEUDO_OPTIONS and scope.draws and name not in scope.names

        layouts = Scope(words=dict.fromkeys(LAYOUTS, "layout"), draws=True)
        made = {
            name: self.compile(text, layouts if pseudo(name) else scope, f"{label}.{name}")
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
