"""What the file of a plain function tells of its operator where its name does not, read as text.

A class may be called `Model` as in KernelBench: its documentation, what its forward pass calls, and the name of its
file say more. `get_inputs` in the same file says how many axes its arrays have, and `get_init_inputs` with what a class
is made.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from attnspec.adapters import Adapter

LARGEST = 1_000_000
"""Bytes of a file beyond which it is not read."""
APPLYING = ("apply", "forward", "fn", "run")
"""What is called of something that has the name of an operator."""
SPARE = ("shape", "size", "view", "reshape", "einsum")
"""Names that say a shape or a step of any operator, and no operator."""
SHAPED = r"(\w+(?:\s*(?:,|/|and)\s*\w+)*)`?\s*(?::|=|of shape|has shape|are|is)?\s*[\[(]([\w*]+(?:\s*,\s*[\w*]+)+)[\])]"
"""Names of arrays and the axes that they are said to have."""
MAKING = ("rand", "randn", "empty", "zeros", "ones", "normal", "uniform")
"""What makes an array of the axes that it is told."""


@dataclass(frozen=True, slots=True)
class Hint:
    """An operator that a file speaks of."""

    operator: str
    where: str
    """What says it, in words."""


@dataclass(frozen=True, slots=True)
class Source:
    """A function, or a class with its forward pass, as its file has it."""

    path: Path
    module: ast.Module
    node: ast.ClassDef | ast.FunctionDef
    function: ast.FunctionDef

    @property
    def parameters(self) -> list[str]:
        own = self.function.args
        names = [a.arg for a in (*own.posonlyargs, *own.args)]
        return names[1:] if names[:1] == ["self"] else names

    @property
    def documentation(self) -> list[str]:
        """The first lines of what is written of it, and of its file."""
        texts = (ast.get_docstring(node) for node in (self.node, self.function, self.module))
        return [line for text in texts if text and (line := text.strip().partition("\n\n")[0])]

    @property
    def whole_documentation(self) -> str:
        """All that is written of it itself."""
        return ast.get_docstring(self.function) or ast.get_docstring(self.node) or ""

    @property
    def shapes(self) -> dict[str, list[str]]:
        """The axes that its documentation gives its parameters, as in `q, k, v: [B, H, T, D]`."""
        return {
            name: [part.strip() for part in axes.split(",")]
            for names, axes in re.findall(SHAPED, self.whole_documentation)
            for name in re.findall(r"\w+", names)
        }

    def alike(self, one: str, other: str) -> bool:
        """Whether its documentation gives two of its parameters one shape."""
        shapes = self.shapes
        found = shapes.get(one)
        return found is not None and len(found) > 1 and found == shapes.get(other)

    @property
    def called(self) -> list[str]:
        """The names of what it calls, in their order."""
        calls = (node for node in ast.walk(self.function) if isinstance(node, ast.Call))
        return [name for call in calls if (name := _name(call.func))]

    @property
    def words(self) -> set[str]:
        """The words of all names that it has for its own, or uses."""
        names = (getattr(node, "id", "") or getattr(node, "arg", "") or "" for node in ast.walk(self.function))
        return {word for name in names for word in name.lower().split("_")}

    @property
    def said(self) -> set[str]:
        """The texts that it has, and the words of these, its documentation among them."""
        texts = [x.value for x in ast.walk(self.function) if isinstance(x, ast.Constant) and isinstance(x.value, str)]
        return {*texts, *(word for text in texts for word in re.findall(r"\w+", text))}

    @property
    def returned(self) -> ast.Call | None:
        """The only thing that it does: a call of something else with its own parameters, in their order."""
        body = [node for node in self.function.body if not (isinstance(node, ast.Expr) and _is_text(node.value))]
        only = body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None
        if not isinstance(only, ast.Call):
            return None
        names = [x.id if isinstance(x, ast.Name) else "" for x in only.args]
        return only if names and names == self.parameters[: len(names)] else None

    @property
    def variables(self) -> list[str]:
        """The variables that the parts of a tuple which it returns in its last line are made from."""
        return [_root(part) for part in _returned(self.function)]

    @property
    def results(self) -> int:
        """How many results it returns, by each of its return statements; 0 where these do not say it alike."""
        found = {_count(value, self.module) for value in _returning(self.function)}
        return found.pop() if len(found) == 1 else 0

    @property
    def gives_one(self) -> bool:
        """Whether each of its return statements returns something, and none a tuple."""
        found = [*_returning(self.function)]
        return bool(found) and all(x is not None and not _is_none(x) and not _count(x, self.module) for x in found)

    @property
    def held(self) -> dict[str, ast.expr]:
        """What a module holds of what it is made with, by its attributes: `get_init_inputs` says that, or a default."""
        made = _named(self.node, "__init__")
        if not isinstance(made, ast.FunctionDef):
            return {}
        names = [arg.arg for arg in made.args.args[1:]]
        given = dict(zip(reversed(names), reversed(made.args.defaults), strict=False))
        given |= zip(names, _returned(_named(self.module, "get_init_inputs")), strict=False)
        return {
            target.attr: given[node.value.id]
            for node in made.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in given
            for target in node.targets
            if isinstance(target, ast.Attribute) and _name(target.value) == "self"
        }

    def number(self, x: ast.expr) -> object:
        """The number that an expression is, as it stands, by its name or as what a module holds; else None."""
        if isinstance(x, ast.Attribute) and _name(x.value) == "self":
            x = self.held.get(x.attr, x)
        assigned = _assigned(self.module.body)
        return _number(assigned.get(x.id, x) if isinstance(x, ast.Name) else x)

    @property
    def axes(self) -> list[int]:
        """How many axes each array of `get_inputs` has, until one is not told."""
        made = _named(self.module, "get_inputs")
        if not isinstance(made, ast.FunctionDef):
            return []
        assigned, found = _assigned(made.body), list[int]()
        for part in _returned(made):
            count = _axes_of(assigned.get(part.id, part) if isinstance(part, ast.Name) else part)
            if not count:
                break
            found.append(count)
        return found


def source_of(adapter: Adapter) -> Source | None:
    """What an adapter is in its file; None where that cannot be read."""
    path = Path(adapter.place.rpartition(":")[0])
    try:
        if not path.is_file() or path.stat().st_size > LARGEST:
            return None
        module = _parsed(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None
    node: ast.AST | None = module
    for part in adapter.name.split("."):
        node = _named(node, part) if node is not None else None
    function = _named(node, "forward") if isinstance(node, ast.ClassDef) else node
    if not isinstance(node, ast.ClassDef | ast.FunctionDef) or not isinstance(function, ast.FunctionDef):
        return None
    return Source(path, module, node, function)


@functools.lru_cache(maxsize=4)
def _parsed(text: str) -> ast.Module:
    """A file, which several questions are asked of in a row."""
    return ast.parse(text)


def hints(source: Source, says: Callable[[str], str]) -> Iterator[Hint]:
    """The operators that a file speaks of, the most telling first; `says` has the operator that a text says."""
    found = [(line, "its documentation") for line in source.documentation]
    found += [(name, f"its call of `{name}`") for name in source.called if name not in SPARE]
    found += [(source.path.stem, f"the name of {source.path.name}")]
    seen = set[str]()
    for text, where in found:
        operator = says(text)
        if operator and operator not in seen:
            seen.add(operator)
            yield Hint(operator, where)


def without_doubt(source: Source, says: Callable[[str], str]) -> tuple[str, int]:
    """The operator whose function is all that is called, and with how many arrays; nothing where something else may be.

    What is written of it says no other one, and no axis is named but the last.
    """
    call = source.returned
    operator = says(_name(call.func)) if call is not None else ""
    if call is None or not operator or {*filter(None, map(says, source.documentation))} - {operator}:
        return "", 0
    last = (-1, *(count - 1 for count in source.axes[:1]))
    named = {word.arg: word.value for word in call.keywords}
    axes = [x for name in ("dim", "axis") if (x := named.get(name)) is not None]
    plain = all(source.number(x) in last for x in axes)
    return (operator, len(call.args)) if plain else ("", 0)


def _named(node: ast.AST, name: str) -> ast.AST | None:
    """The last definition of that name in a module or a class."""
    body = getattr(node, "body", [])
    found = [x for x in body if isinstance(x, ast.ClassDef | ast.FunctionDef) and x.name == name]
    return found[-1] if found else None


def _assigned(body: Iterable[ast.stmt]) -> dict[str, ast.expr]:
    """What names are assigned."""
    return {
        target.id: node.value
        for node in body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _returned(made: ast.AST | None) -> list[ast.expr]:
    """The parts of the list that a function returns in its last line, on a condition or always."""
    last = made.body[-1] if isinstance(made, ast.FunctionDef) else None
    value = last.value if isinstance(last, ast.Return) else None
    value = value.body if isinstance(value, ast.IfExp) else value
    return value.elts if isinstance(value, ast.List | ast.Tuple) else []


def _root(x: ast.expr) -> str:
    """The variable that an expression begins with, as in `x.mT.reshape(2, 3)`; nothing where it is none."""
    while isinstance(x, ast.Attribute | ast.Call | ast.Subscript):
        x = x.func if isinstance(x, ast.Call) else x.value
    return x.id if isinstance(x, ast.Name) else ""


def _returning(function: ast.AST) -> Iterator[ast.expr | None]:
    """What the return statements of a function return, and not those of functions inside it."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.Return):
            yield node.value
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _returning(node)


def _count(value: ast.expr | None, module: ast.Module) -> int:
    """How many results are returned, also by another function of the module; 0 where that is not told."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        other = _named(module, value.func.id)
        found = {len(x.elts) if isinstance(x, ast.Tuple) else 0 for x in _returning(other)} if other else set[int]()
        return found.pop() if len(found) == 1 else 0
    return len(value.elts) if isinstance(value, ast.Tuple) else 0


def _name(function: ast.expr) -> str:
    """What is called, by its own name or by that of what it is called of."""
    if isinstance(function, ast.Attribute):
        return _name(function.value) if function.attr in APPLYING else function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _axes_of(made: ast.expr) -> int:
    """How many axes an array has that is made of the lengths of these; zero for any other."""
    if not isinstance(made, ast.Call):
        return 0
    if isinstance(made.func, ast.Attribute) and made.func.attr not in MAKING:  # `torch.rand(2, 3).cuda()`
        return _axes_of(made.func.value)
    if _name(made.func) not in MAKING or any(isinstance(x, ast.Starred) for x in made.args):
        return 0
    shape = made.args[0] if made.args else None
    return len(shape.elts) if isinstance(shape, ast.Tuple | ast.List) and len(made.args) == 1 else len(made.args)


def _number(x: ast.expr) -> object:
    try:
        return ast.literal_eval(x)
    except ValueError:
        return None


def _is_none(x: ast.expr) -> bool:
    return isinstance(x, ast.Constant) and x.value is None


def _is_text(x: ast.expr) -> bool:
    return isinstance(x, ast.Constant) and isinstance(x.value, str)
