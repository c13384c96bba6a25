"""The axes along which an expression computes, found from its text: each array is the list of sizes of its axes.

A definition is evaluated for chosen positions of some axes alone where nothing in it is computed along them.
What it takes to do so is a plan for each line: `restricting` compiles a line by its plan.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Collection, Mapping, Sequence

from ..errors import SpecError
from .expressions import Expression
from .labels import (
    ONE,
    SINGLE,
    AlongError,
    Change,
    Labelled,
    Labels,
    Plan,
    Shapes,
    is_ellipsis,
    is_none,
    key_of,
)
from .scopes import CONSTANTS
from .shaping import returned
from .shortcuts import is_shortcut
from .syntax import parse


class Axes(Labelled):
    """The shapes of the lines of a definition, for axes that are to be restricted.

    `drawn` says how inputs and options are drawn, and `divisible` which sizes are multiples of which others.
    """

    def __init__(
        self,
        definition: Mapping[str, Expression],
        drawn: Mapping[str, Expression],
        optional: Collection[str],
        sizes: Collection[str],
        restricted: Collection[str],
        divisible: Collection[tuple[str, str]] = (),
        words: Collection[str] = (),
        trimmed: Collection[str] = (),
    ) -> None:
        self.definition, self.drawn, self.optional = definition, drawn, optional
        super().__init__(sizes, restricted, divisible, trimmed)
        self.words = words
        self.plans: dict[str, Plan] = {}
        self._known: dict[str, Shapes | AlongError] = {}
        self._faults = 0
        self._single: dict[str, bool] = {}
        """What is a single number where it stands, or is none: a branch that asks for that first."""

    def shapes(self, name: str) -> Shapes:
        """The shapes of an input, option or line; `AlongError` for a line that is computed along a restricted axis."""
        if name not in self._known:
            try:
                self._known[name] = self._of_name(name)
            except AlongError as error:
                self._known[name] = error
            except (IndexError, AttributeError):
                raise SpecError(f"the axes of {name} cannot be read from its text") from None
        found = self._known[name]
        if isinstance(found, AlongError):
            raise found
        return found

    def _of_name(self, name: str) -> Shapes:
        """The shapes of a name by itself, whatever branch asks for it."""
        outer, self._single = self._single, {}
        try:
            return self._by_itself(name)
        finally:
            self._single = outer

    def _by_itself(self, name: str) -> Shapes:
        if name in self.definition:
            outer, self.plan = self.plan, self.plans.setdefault(name, Plan())
            try:
                return self.of(parse(self.definition[name].text))
            finally:
                self.plan = outer
        if name not in self.drawn:
            return SINGLE
        outer, self.plan = self.plan, Plan()
        try:
            found = self.of(parse(self.drawn[name].text))
        finally:
            self.plan = outer
        if name in self.optional:  # it broadcasts, and may come with fewer axes
            return frozenset(shape[at:] for shape in found for at in range(len(shape) + 1))
        return found

    # Nodes

    def of(self, node: ast.expr) -> Shapes:
        """The shapes of an expression."""
        return getattr(self, f"of_{type(node).__name__}")(node)

    def of_Constant(self, node: ast.Constant) -> Shapes:
        return SINGLE

    def of_Name(self, node: ast.Name) -> Shapes:
        if node.id in CONSTANTS or node.id in self.words or node.id in self.sizes or node.id == "unspecified":
            return SINGLE
        found, single = self.shapes(node.id), self._single.get(node.id)
        return found if single is None else SINGLE if single else (found - SINGLE or found)

    def of_List(self, node: ast.List) -> Shapes:
        labels, rows = [], node
        while isinstance(rows, ast.List):
            labels.append(ONE if len(rows.elts) == 1 else "")
            rows = rows.elts[0] if rows.elts else None  # type: ignore[assignment] - the end
        return frozenset({tuple(labels)})

    def of_UnaryOp(self, node: ast.UnaryOp) -> Shapes:
        return self.of(node.operand)

    def of_BinOp(self, node: ast.BinOp) -> Shapes:
        left, right = self.of(node.left), self.of(node.right)
        return self.product(left, right) if isinstance(node.op, ast.MatMult) else self.joined(left, right)

    def of_Compare(self, node: ast.Compare) -> Shapes:
        return self.joined(*map(self.of, (node.left, *node.comparators)))

    def of_BoolOp(self, node: ast.BoolOp) -> Shapes:
        """A part that cannot be restricted is not asked for where those before it decide everywhere."""
        found, left_out = self.of(node.values[0]), set[Labels]()
        for before, part in itertools.pairwise(node.values):
            left_out |= {()} & found
            faults = self._faults
            try:
                found = self.joined(found, self.of(part))
            except AlongError as error:
                if not isinstance(node.op, ast.And) and not self._chosen(before):
                    raise
                self._fault(part, error)
            if self._faults > faults:
                self.plan.changes[key_of(node)] = Change("lazy")
        return found | left_out

    def _chosen(self, node: ast.expr) -> bool:
        """Whether a part is decided by what was chosen, such as a word or an option, and not by what was computed."""
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        return self.of(node) == SINGLE and not names & {*self.definition, "any", "all"}

    def _fault(self, node: ast.expr, error: AlongError) -> None:
        self.plan.changes[key_of(node)] = Change("fault", error.message)
        self._faults += 1

    def of_IfExp(self, node: ast.IfExp) -> Shapes:
        """A branch that cannot be restricted is a fault once it is taken.

        A test for any entry anywhere may ask those that are there alone, if the branches agree where there is none.
        """
        try:
            self.of(node.test)
        except AlongError:
            texts = {name: line.text for name, line in self.definition.items()}
            if not is_shortcut(node, texts):
                raise
            self.of(node.test.args[0])  # type: ignore[attr-defined] - a call, as a shortcut has it
        found, faults, outer = set[Labels](), [], self._single
        for branch, holds in ((node.body, True), (node.orelse, False)):
            try:
                self._single = {**outer, **dict.fromkeys(_asked_to_be_single(node.test), holds)}
                found |= self.of(branch)
            except AlongError as error:
                faults.append(error)
                self._fault(branch, error)
            finally:
                self._single = outer
        if faults and len(faults) == sum(not _says_nothing(branch) for branch in (node.body, node.orelse)):
            raise faults[0]
        return frozenset(found)

    def of_Subscript(self, node: ast.Subscript) -> Shapes:
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return frozenset(self._picked(shape, parts) if shape else () for shape in self.of(node.value))

    def _picked(self, shape: Labels, parts: Sequence[ast.expr]) -> Labels:
        left, found = list(shape), list[str]()
        taken = sum(not (is_none(part) or is_ellipsis(part)) for part in parts)
        for part in parts:
            if is_none(part):
                found.append(ONE)
            elif is_ellipsis(part):
                keep = len(left) - taken
                found += left[:keep]
                del left[:keep]
            else:
                taken -= 1
                if not left:
                    raise SpecError("more indices than axes")
                label = left.pop(0)
                if isinstance(part, ast.Slice):
                    whole = part.lower is part.upper is part.step is None
                    found.append(label if whole else self._cut(label, part))
                    continue
                self.free(label, "entries of it are picked")
                (index,) = self.of(part) if len(self.of(part)) == 1 else (("",),)
                found += index
        return (*found, *left)

    def _cut(self, label: str, part: ast.Slice) -> str:
        """The label of a part of an axis: what its first entries are counted by, where that is an option."""
        self.free(label, "it is cut")
        counted = part.lower is None and part.step is None and isinstance(part.upper, ast.Name)
        name = part.upper.id if counted and isinstance(part.upper, ast.Name) else ""
        return name if name in self.drawn and name not in self.sizes else ""

    def of_Call(self, node: ast.Call) -> Shapes:
        return returned(self, node)


def _asked_to_be_single(test: ast.expr) -> list[str]:
    """The name that a condition asks to be a single number, if that is all that it asks."""
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "single":
        return [part.id for part in test.args if isinstance(part, ast.Name)]
    return []


def _says_nothing(branch: ast.expr) -> bool:
    """Whether a branch is an array of unspecified entries, which are right for any restriction."""
    if not (isinstance(branch, ast.Call) and isinstance(branch.func, ast.Name) and branch.func.id == "full"):
        return False
    return isinstance(first := branch.args[0], ast.Name) and first.id == "unspecified"
