"""Wrong on purpose: how a fault is written, as the wrong part of an implementation that is right otherwise.

A module of this folder holds right implementations, each made of small parts, and functions that take the place of one
part. The fault is that function alone, and its docstring says what is wrong. The audit runs every one of them, and is
red for one that no law refutes.

What a changed line of a definition can express is a mistake of the specification, and not repeated here. Here is what
it cannot: tiles and running sums, memory and its layout, state that outlives a call, narrow arithmetic, chance.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

from .. import adapter

Part = Callable[..., Any]
OTHERWISE = "otherwise"
"""The attribute of a fault that has, by words for other sizes, what makes it with them."""
DTYPES = ("float32", "bfloat16")


def in_memory(x: Any, shape: Any) -> Any:
    """Entries as they lie in memory, whatever the strides are, and from the first again where it ends."""
    import torch

    whole = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())[x.storage_offset() :]
    return whole[torch.arange(shape.numel()) % len(whole)].reshape(shape)


@dataclass(frozen=True)
class Whole:
    """A right implementation of an operator, made of parts."""

    operator: str
    made: Callable[..., Callable[..., Any]]
    """From a namespace of its parts, and a size where there are `sizes`, to the function."""
    parts: Collection[Part]
    conventions: Mapping[str, str] = field(default_factory=dict)
    framework: str = "torch"
    limits: Mapping[str, Collection[Any]] = field(default_factory=dict)
    sizes: Mapping[str, Any] = field(default_factory=dict)
    """Of what is made of tiles, how large they may be, by words for it; the first is what faults are declared with."""
    grade: str | None = None
    requires: Collection[str] = ()

    def right(self, size: str = "") -> Callable[..., Any]:
        """The function of the right parts, with a size in words or the first one."""
        return self.of(self.parts, size)

    def of(self, parts: Iterable[Part], size: str = "", names: Iterable[str] = ()) -> Callable[..., Any]:
        """The function of some parts, which go by `names` if these are given."""
        part = SimpleNamespace(**dict(zip(names or [part.__name__ for part in parts], parts, strict=True)))
        return self.made(part, self.sizes[size or next(iter(self.sizes))]) if self.sizes else self.made(part)

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
            parts, names = [wrong if one is part else one for one in self.parts], [one.__name__ for one in self.parts]
            function = self.of(parts, names=names)
            function.__module__, function.__doc__ = wrong.__module__, wrong.__doc__
            vars(function)[OTHERWISE] = {
                size: partial(self.of, parts, size, names) for size in itertools.islice(self.sizes, 1, None)
            }
            adapter(
                self.operator,
                name=f"fault:{wrong.__name__}",
                framework=self.framework,
                dtypes=dtypes,
                conventions=self.conventions,
                limits=self.limits,
                grade=self.grade,
                requires=tuple(self.requires),
                deterministic=deterministic,
                batch_invariant=batch_invariant,
                chunk_invariant=chunk_invariant,
                thread_safe=thread_safe,
                seen=seen,
            )(function)
            return wrong

        return declare
