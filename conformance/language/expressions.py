"""Expressions: texts that are compiled against a `Scope`, and called with an `Environment`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import Place
from ..numerics.budget import CHARACTER, spend
from .compiler import Compiler
from .scopes import Environment, Reads, Scope


class Expression:
    """Compiled text; call it with an environment."""

    __slots__ = ("_run", "_work", "asks", "calls", "claim", "draws", "place", "scope", "text", "uses")

    def __init__(
        self, text: str, scope: Scope, place: Place | None = None, *, claim: bool = False, reads: Reads | None = None
    ) -> None:
        """`claim` says that the whole is asked for its truth. What is wrong with the text is a `SpecError`.

        A text that was compiled before, in such a scope, comes with what it `reads` and is compiled when it is called.
        """
        self.text, self.scope, self.place, self.claim = text, scope, place, claim
        self._work = CHARACTER * len(text)
        self._run: Callable[[Any], Any] = self._first
        if reads is None:
            compiler = self._compiled()
            reads = Reads(frozenset(compiler.uses), frozenset(compiler.calls), compiler.asks, tuple(compiler.draws))
        self.uses, self.calls, self.asks, self.draws = reads.uses, reads.calls, reads.asks, reads.draws

    @classmethod
    def unread(cls, text: str, scope: Scope) -> Expression:
        """A text that is compiled when it is first called, and fails then if it is none; what it reads is not told."""
        return cls(text, scope, reads=Reads(frozenset(), frozenset(), False, ()))

    def _compiled(self) -> Compiler:
        compiler = Compiler(self.text, self.scope, self.place, self.claim)
        self._run = compiler.run
        return compiler

    def _first(self, environment: Environment) -> Any:
        self._compiled()
        return self._run(environment)

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return Reads(self.uses, self.calls, self.asks, self.draws)

    def __call__(self, environment: Environment) -> Any:
        spend(self._work)
        return self._run(environment)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"
