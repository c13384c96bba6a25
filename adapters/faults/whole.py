"""Wrong on purpose: how a fault is written, as the wrong part of an implementation that is right otherwise.

A module `faults_*.py` holds right implementations, each made of small parts, and functions that take the place of one
part. The fault is that function alone, and its docstring says what is wrong. The audit runs every one of them, and is
red for one that no law refutes.

What a changed line of a definition can express is a mistake of the specification, and not repeated here. Here is what
it cannot: tiles and running sums, memory and its layout, state that outlives a call, narrow arithmetic, chance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from .. import adapter

Part = Callable[..., Any]
DTYPES = ("float32", "bfloat16")


@dataclass(frozen=True)
class Whole:
    """A right implementation of an operator, made of parts."""

    operator: str
    made: Callable[[Any], Callable[..., Any]]
    """From a namespace of its parts to the function."""
    parts: Collection[Part]
    conventions: Mapping[str, str] = field(default_factory=dict)
    framework: str = "torch"
    limits: Mapping[str, Collection[Any]] = field(default_factory=dict)

    def right(self) -> Callable[..., Any]:
        """The function of the right parts."""
        return self.made(SimpleNamespace(**{part.__name__: part for part in self.parts}))

    def instead_of(
        self,
        part: Part,
        *,
        seen: str = "",
        dtypes: Collection[str] = DTYPES,
        deterministic: bool = False,
        batch_invariant: bool = False,
        chunk_invariant: bool = False,
        thread_safe: bool = False,
    ) -> Callable[[Part], Part]:
        """Declare the decorated function as a fault: the wrong one in place of a part.

        * `seen`: where this has happened, as in the mistakes of a specification.
        * `dtypes`: in each of which it is refuted.
        * `deterministic`, `batch_invariant`, `chunk_invariant`, `thread_safe`: whether it claims to be, and is refuted
          because it is not.
        """
        if part not in self.parts:
            raise ValueError(f"{part.__name__} is not a part of this implementation of {self.operator}")

        def declare(wrong: Part) -> Part:
            exchanged = {one.__name__: wrong if one is part else one for one in self.parts}
            function = self.made(SimpleNamespace(**exchanged))
            function.__module__, function.__doc__ = wrong.__module__, wrong.__doc__
            adapter(
                self.operator,
                name=f"fault:{wrong.__name__}",
                framework=self.framework,
                dtypes=dtypes,
                conventions=self.conventions,
                limits=self.limits,
                deterministic=deterministic,
                batch_invariant=batch_invariant,
                chunk_invariant=chunk_invariant,
                thread_safe=thread_safe,
                seen=seen,
            )(function)
            return wrong

        return declare
