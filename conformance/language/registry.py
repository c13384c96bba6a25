"""What a function of the language is, and how it handles its arguments.

Every function takes and returns plain arrays, error-carrying numbers or booleans.
A single number or boolean counts as constant along every axis, so rearranging it returns it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import SpecError
from ..numerics.budget import WHOLE_NUMBER, charge
from ..numerics.grades import Grade
from ..numerics.numbers import Number, value
from ..numerics.truths import Truth


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the language. `graded` prepares its arguments where a precision is claimed."""

    name: str
    call: Callable[..., Any]
    signature: inspect.Signature
    says: str
    graded: Callable[[Any, Grade | None], Any] | None = None
    contextual: bool = False
    """Whether the environment is passed first."""
    work: int = 1
    """Units of work for each entry of an argument."""

    @property
    def required(self) -> int:
        """How many arguments have no default."""
        return sum(p.default is inspect.Parameter.empty for p in self.signature.parameters.values())

    @property
    def usage(self) -> str:
        return f"{self.name}({', '.join(map(_parameter, self.signature.parameters.values()))})"


def _parameter(p: inspect.Parameter) -> str:
    if p.kind is inspect.Parameter.VAR_POSITIONAL:
        return f"{p.name}, ..."
    if p.default is inspect.Parameter.empty:
        return p.name
    shown = {True: "true", False: "false", None: "none"}.get(p.default, p.default)
    return f"{p.name} = {shown}"


class Functions(dict[str, Function]):
    """Functions by name; as a decorator it takes in one more."""

    def __call__(
        self,
        name: str = "",
        *,
        graded: Callable[[Any, Grade | None], Any] | None = None,
        contextual: bool = False,
        says: str = "",
        work: int = 1,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def register(f: Callable[..., Any]) -> Callable[..., Any]:
            full = inspect.signature(f)
            parameters = list(full.parameters.values())[1 if contextual else 0 :]
            label = name or f.__name__.strip("_")
            sentence = says or " ".join((f.__doc__ or "").split())
            self[label] = Function(label, f, full.replace(parameters=parameters), sentence, graded, contextual, work)
            return f

        return register


def whole(n: Any) -> int:
    """An integer out of an expression, within the limit."""
    if type(n) is int and -WHOLE_NUMBER <= n <= WHOLE_NUMBER:
        return n
    n = value(n)
    if isinstance(n, bool | np.bool_ | str | Truth) or n is None or np.ndim(n):
        raise SpecError(f"{n!r} is not an integer")
    if not math.isfinite(n) or int(n) != n or abs(n) > WHOLE_NUMBER:
        raise SpecError(f"{n!r} is not an integer of at most {WHOLE_NUMBER:,}")
    return int(n)


def dimensions(shape: tuple[Any, ...], work: int = 1) -> tuple[int, ...]:
    """A shape out of an expression, accounted for with so much work for each entry."""
    result = tuple(max(whole(n), 0) for n in shape)
    charge(math.prod(result), work)
    return result


def shape_of(x: Any) -> tuple[int, ...]:
    return getattr(x, "shape", ())


def rearranged(x: Any, move: Callable[[Any], Any]) -> Any:
    """`x` with its entries moved; single values are constant along every axis."""
    if shape_of(x) == ():
        return x
    return x.map(move) if isinstance(x, (Number, Truth)) else move(np.asarray(x))


def along(axis: Any) -> int:
    """An axis out of an expression; the last one unless another is named."""
    return -1 if axis is None else whole(axis)
