"""The axes of arrays by their sizes: how shapes broadcast, and which axes must not be computed along."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..errors import SpecError

Labels = tuple[str, ...]
"""The size of each axis by its name; `1` for an axis of one entry, and nothing for any other length."""
Shapes = frozenset[Labels]
"""The shapes that a value may have: several, where it is chosen."""
SINGLE: Shapes = frozenset({()})
"""That of a single number."""
Key = tuple[str, int, int]
"""A node of an expression: its kind, and where it begins and ends."""


ALONG = "cannot be restricted"
"""What is said of an axis along which something is computed."""


class AlongError(SpecError):
    """Something is computed along an axis of which chosen positions alone are there."""

    def __init__(self, axis: str, how: str) -> None:
        super().__init__(f"the axis {axis} {ALONG}: {how}")
        self.axis = axis


@dataclass(frozen=True, slots=True)
class Change:
    """What a node does in a restricted evaluation: `positions`, `count`, `size`, `copied`, `lazy` or `fault`."""

    how: str
    name: str = ""
    source: str = ""
    """The axis that copies are made of."""
    tiled: bool = False
    """Whether copies are of the whole, one behind the other."""


@dataclass(slots=True)
class Plan:
    """What changes in one line, by node."""

    changes: dict[Key, Change] = field(default_factory=dict)


def key_of(node: ast.expr) -> Key:
    return type(node).__name__, node.col_offset, node.end_col_offset or 0


ONE = "1"


class Labelled(ABC):
    """Shapes for some sizes, of which some are `restricted`; `divisible` are sizes with those that divide them.

    What is computed along a restricted axis that is `trimmed` is computed of the positions that are there.
    """

    def __init__(
        self,
        sizes: Collection[str],
        restricted: Collection[str],
        divisible: Collection[tuple[str, str]],
        trimmed: Collection[str] = (),
    ) -> None:
        self.sizes, self.restricted, self.divisible, self.trimmed = sizes, frozenset(restricted), divisible, trimmed
        self.plan = Plan()
        """What changes in the line that is read."""

    @abstractmethod
    def of(self, node: ast.expr) -> Shapes:
        """The shapes of an expression."""

    def label(self, node: ast.expr) -> str:
        """The size that an axis has whose length is given so."""
        if isinstance(node, ast.Name) and node.id in self.sizes:
            return node.id
        if isinstance(node, ast.Constant) and node.value == 1:
            return ONE
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "choice":
            found = {self.label(part) for part in node.args} - {ONE}
            return found.pop() if len(found) == 1 else ""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and isinstance(node.left, ast.Name):
            return self.times(node.left.id, node.right)
        return ""

    def times(self, size: str, node: ast.expr) -> str:
        """The size that is so many times another: `kv_heads` and `heads // kv_heads` are `heads`, if it divides."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
            whole, part = node.left, node.right
            if isinstance(whole, ast.Name) and isinstance(part, ast.Name) and part.id == size:
                return whole.id if (whole.id, size) in self.divisible else ""
        return ""

    def count(self, nodes: Iterable[ast.expr]) -> None:
        """Have lengths that are a restricted size be as many as there are positions."""
        for node in nodes:
            if self.label(node) in self.restricted:
                self.plan.changes[key_of(node)] = Change("count", self.label(node))

    def free(self, label: str, how: str) -> str:
        """The label of an axis that is not restricted; `AlongError` for one that is."""
        if label in self.restricted and label not in self.trimmed:
            raise AlongError(label, how)
        return label

    def joined(self, *several: Shapes) -> Shapes:
        """What values of these shapes broadcast to."""
        results = several[0]
        for shapes in several[1:]:
            results = frozenset(self._broadcast(a, b) for a in results for b in shapes)
        return results

    def _broadcast(self, a: Labels, b: Labels) -> Labels:
        if len(a) < len(b):
            a, b = b, a
        found = list(a)
        for at, other in enumerate(reversed(b), 1):
            own = found[-at]
            if own == ONE:
                found[-at] = other
            elif other not in (ONE, own):
                found[-at] = ""
                self.free(own, f"it meets {other or 'another axis'}")
                self.free(other, f"it meets {own or 'another axis'}")
        return tuple(found)

    def product(self, left: Shapes, right: Shapes) -> Shapes:
        """What matrices of these shapes multiply to."""
        results = set[Labels]()
        for a in left:
            for b in right:
                if len(a) < 2 or len(b) < 2:
                    raise SpecError("a matrix has two axes")
                self.free(a[-1], "a product sums along it")
                self.free(b[-2], "a product sums along it")
                results.add((*self._broadcast(a[:-2], b[:-2]), a[-2], b[-1]))
        return frozenset(results)


def arguments(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(keyword.value for keyword in node.keywords)]


def given(node: ast.Call, name: str, position: int) -> ast.expr | None:
    """An argument by name or position; None where it is not given."""
    named = next((keyword.value for keyword in node.keywords if keyword.arg == name), None)
    return named if named is not None else node.args[position] if len(node.args) > position else None


def whole(node: Any, otherwise: int) -> int:
    """A written integer."""
    if node is None or is_none(node):
        return otherwise
    try:
        return int(ast.literal_eval(node))
    except (ValueError, TypeError):
        raise SpecError("an axis is not written as an integer") from None


def is_none(node: Any) -> bool:
    return isinstance(node, ast.Name) and node.id == "none"


def is_ellipsis(node: Any) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis
