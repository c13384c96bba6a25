"""How a part of an expression becomes a closure, whatever it is: its place in the text, its faults, its truth."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..errors import Place, SpecError
from ..numerics.budget import (
    NESTING,
)
from ..numerics.operations import claimed
from ..numerics.truths import Truth
from .scopes import DrawSite, Scope
from .syntax import at, parse, shown

FAULTS = (
    SpecError,
    TypeError,
    ValueError,
    IndexError,
    OverflowError,
    AttributeError,
    KeyError,
    MemoryError,
    ZeroDivisionError,
    RuntimeError,  # a recursion without end, or more axes than a function of NumPy takes
)
"""What is raised when an expression asks for the impossible: by the language, or by Python and NumPy."""

BOOLEANS = frozenset((Truth, bool, np.ndarray, np.bool_))
"""Types of what may be asked for its truth."""


class Builder:
    """One expression on its way to a closure; what it learns of the text on that way is kept beside it."""

    def __init__(self, text: str, scope: Scope, place: Place | None, claim: bool) -> None:
        self.text, self.scope, self.place = text, scope, place
        self.uses: set[str] = set()
        self.calls: set[str] = set()
        self.draws: list[DrawSite] = []
        self.asks = False
        self.run = self.truth(parse(text, place), 0) if claim else self.build(parse(text, place), 0)

    def error(self, node: ast.AST, message: str) -> SpecError:
        column = getattr(node, "col_offset", 0)
        return SpecError(message + shown(self.text, column), at(self.place, column))

    def build(self, node: ast.AST, depth: int) -> Callable[[Any], Any]:
        if depth > NESTING:
            raise self.error(node, "nested too deeply")
        make = getattr(self, "do_" + type(node).__name__, None)
        if make is None:
            raise self.error(node, f"{type(node).__name__} is not part of the language")
        return make(node, depth + 1)

    def fail(self, node: ast.AST, error: Exception) -> NoReturn:
        """Raise what went wrong in a node, put at its place in the text."""
        if not isinstance(error, SpecError):
            raise self.error(node, f"{type(error).__name__}: {error}"[:200]) from error
        if error.place is None and "\n" not in error.message:
            located = self.error(node, error.message)
            raise type(error)(located.message, located.place) from None
        raise error

    def guarded(self, node: ast.AST, run: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """`run`, with what goes wrong in it put at its place; the nodes met most see to it themselves, a call less."""

        def guarded(env: Any) -> Any:
            try:
                return run(env)
            except FAULTS as error:
                return self.fail(node, error)

        return guarded

    def truth(self, node: ast.expr, depth: int) -> Callable[[Any], Any]:
        """A part that is asked for its truth: there a word alone says that its convention is at that word."""
        if isinstance(node, ast.Name) and node.id in self.scope.words:
            word, convention = node.id, self.scope.words[node.id]
            return lambda env: env.word(convention) == word
        asked = self.build(node, depth)

        def run(env: Any) -> Any:
            try:
                x = asked(env)
                return x if type(x) in BOOLEANS else claimed(x)
            except FAULTS as error:
                return self.fail(node, error)

        return run
