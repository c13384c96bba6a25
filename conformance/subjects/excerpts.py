"""The source of a shipped adapter by itself: its function, and the parts of modules that it uses.

It is read and never run here.
"""

from __future__ import annotations

import ast
import importlib.util
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from attnspec import adapters

from ..errors import UsageError

HOME = adapters.__name__
INTERPRETER = f"{HOME}.triton.interpreter"
INTERPRETING = "interpreting"
"""What has kernels in Triton interpreted, as a context or as a decorator."""
KEPT = (
    "functools",
    "contextlib",
    "cache",
    "lru_cache",
    "cached_property",
    "contextmanager",
    "dataclass",
    "staticmethod",
)
"""What the names of decorators begin with that belong to a function; all others declare an adapter."""
UNSUPPORTED = 'class Unsupported(Exception):\n    """The subject does not take such a call."""'
Bound = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign | ast.Import | ast.ImportFrom


@dataclass(slots=True)
class Excerpt:
    """The statements of a program, in an order in which they can be run."""

    imports: list[str] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n\n\n".join(self.statements)


@dataclass(frozen=True, slots=True)
class Source:
    """A module as it is written: its text, and the statement that binds each of its names."""

    lines: tuple[str, ...]
    bound: dict[str, Bound]

    def text(self, node: ast.stmt) -> list[str]:
        assert node.end_lineno is not None
        return [*self.lines[node.lineno - 1 : node.end_lineno]]


def excerpt(module: str, function: Callable[..., Any]) -> Excerpt:
    """The source of a function of a module of adapters under its name, with all that it uses.

    One that another function has made is written down with what it was made for, as far as that is plain numbers and
    texts; any other that is not written as a function of its module is a `UsageError`.
    """
    return _made(module, function).excerpt


def interpreted_excerpt(module: str, function: Callable[..., Any]) -> Excerpt:
    """The same of a function of kernels in Triton, which are interpreted for as long as each of its calls lasts."""
    made, name = _made(module, function), function.__name__
    made.take(INTERPRETER, INTERPRETING)
    made.excerpt.statements.append(f"{name} = {INTERPRETING}()({name})")
    return made.excerpt


def _made(module: str, function: Callable[..., Any]) -> _Made:
    made, name = _Made(), function.__name__
    if isinstance(_source(module).bound.get(name), ast.FunctionDef):
        made.take(module, name)
        return made
    inner, free = _inner(module, function), _free(function)
    if inner is None or not all(_plain(x) for x in free.values()):
        raise UsageError(f"{module} has no function {name!r} that could be written down by itself")
    lines = "\n".join(made.body(module, inner))
    made.excerpt.statements += [f"{each} = {x!r}" for each, x in free.items()]
    made.excerpt.statements.append(textwrap.dedent(lines).replace(f"def {inner.name}(", f"def {name}(", 1))
    return made


def _inner(module: str, function: Callable[..., Any]) -> ast.FunctionDef | None:
    """The function within one of a module that is that one, by its place in the file."""
    code = getattr(function, "__code__", None)
    outer = [node for node in _source(module).bound.values() if isinstance(node, ast.FunctionDef)]
    for node in (each for one in outer for each in ast.walk(one)):
        if isinstance(node, ast.FunctionDef) and code is not None:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if (node.name, first) == (code.co_name, code.co_firstlineno):
                return node
    return None


def _free(function: Callable[..., Any]) -> dict[str, Any]:
    """What a function takes from the one that made it."""
    cells = getattr(function, "__closure__", None) or ()
    return {name: cell.cell_contents for name, cell in zip(function.__code__.co_freevars, cells, strict=True)}


def _plain(x: Any) -> bool:
    return x is None or isinstance(x, str | int | float)


@cache
def _source(module: str) -> Source:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise UsageError(f"the source of {module} is not there")
    text = Path(spec.origin).read_text("utf-8")
    bound: dict[str, Bound] = {}
    for node in ast.parse(text).body:
        if isinstance(node, Bound):
            bound |= dict.fromkeys(_names(node), node)
    return Source(tuple(text.splitlines()), bound)


def _names(node: Bound) -> Iterator[str]:
    """The names that a statement binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    else:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))


class _Made:
    """An excerpt, as it is made."""

    def __init__(self) -> None:
        self.excerpt = Excerpt()
        self.taken: dict[str, str] = {}
        """The module that each name was taken from."""

    def take(self, module: str, name: str) -> None:
        """Add what binds a name in a module, after all that it uses."""
        node = _source(module).bound.get(name)
        if node is None:
            return
        if isinstance(node, ast.Import | ast.ImportFrom):
            self.imported(module, node, name)
            return
        own = [*_names(node)]
        if any(self.taken.get(each, module) != module for each in own):
            raise UsageError(f"two modules of adapters have a {name!r}, which do not go into one file")
        if name in self.taken:
            return
        self.taken |= dict.fromkeys(own, module)
        lines = self.body(module, node)
        self.excerpt.statements.append("\n".join(lines))

    def body(self, module: str, node: ast.stmt) -> list[str]:
        """A statement without its declaration and without imports of other adapters, after all that it uses."""
        source = _source(module)
        lines, first = source.text(node), node.lineno
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            kept = [each for each in node.decorator_list if ast.unparse(each).startswith(KEPT)]
            lines = [*(f"@{ast.unparse(each)}" for each in kept), *lines]
            first -= len(kept)
            used = [*kept, *node.body, *([node.args] if isinstance(node, ast.FunctionDef) else node.bases)]
            used += [node.returns] if isinstance(node, ast.FunctionDef) and node.returns else []
        else:
            used = [node]
        gone: set[int] = set()
        for part in (part for each in used for part in ast.walk(each)):
            if isinstance(part, ast.Name):
                self.take(module, part.id)
            elif isinstance(part, ast.ImportFrom) and part.level:
                for alias in part.names:
                    self.imported(module, part, alias.asname or alias.name)
                gone |= {*range(part.lineno - first, (part.end_lineno or part.lineno) - first + 1)}
        return [line for at, line in enumerate(lines) if at not in gone]

    def imported(self, module: str, node: ast.Import | ast.ImportFrom, name: str) -> None:
        """Add an import, or what it imports where that is another adapter's."""
        alias = next(each for each in node.names if (each.asname or each.name).partition(".")[0] == name)
        if isinstance(node, ast.Import) or not node.level:
            line = ast.unparse(_alone(node, alias))
            if line not in self.excerpt.imports:
                self.excerpt.imports.append(line)
            return
        home = importlib.util.resolve_name(f"{'.' * node.level}{node.module or ''}", module.rpartition(".")[0])
        if home == HOME:
            if name == "Unsupported" and UNSUPPORTED not in self.excerpt.statements:
                self.excerpt.statements.append(UNSUPPORTED)
            return
        if alias.asname:
            raise UsageError(f"{module} calls {alias.name} by another name, which does not go into one file")
        self.take(home, name)


def _alone(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> ast.stmt:
    """An import of one name."""
    if isinstance(node, ast.Import):
        return ast.Import(names=[alias])
    return ast.ImportFrom(module=node.module, names=[alias], level=0)
