"""The meaning of a text in `weights=`: which entries of a parameter hold a weight, and in which order.

    q_proj.weight.T                                       the parameter, transposed
    c_attn.weight[:, 0/3]                                 the first of three sections of its second axis
    qkv.weight[dim:dim + kv_dim].T                        a slice, in sizes of the case
    query.kernel | dim heads d -> dim (heads d)           its axes in another order, as einops has it
    query_key_value.weight | (heads 3 d) dim -> 3 dim (heads d) [0]
    layers.*.o_proj.weight.T                              layer by layer, along the first axis of the weight
    1 + norm.weight                                       a parameter from which one was taken

A text is read from left to right, from the parameter to the weight. It is evaluated on the numbers of the parameter's
entries, so that one way serves every framework, and what is filled twice or not at all can be counted.
This file imports nothing of its package, so that it works where that is hidden.
"""

from __future__ import annotations

import ast
import difflib
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Sizes = Mapping[str, Any]
Step = Callable[[Any, Sizes], Any]

HEAD = re.compile(r"(?:(-?\d+(?:\.\d+)?)\s*\+\s*)?([^\s\[\]|+]+)")
PATTERN = re.compile(r"\|\s*([^\[|]+)")
KNOWN = "a path, then .T, [slices] or | a pattern"
OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


class MappingError(Exception):
    """A mapping that cannot be meant, or that does not fit the module."""


@dataclass(frozen=True)
class Held:
    """Where a weight is held: a path, the steps from there to the weight, and what is added to its entries."""

    text: str
    path: str
    steps: tuple[Step, ...]
    plus: float = 0.0

    def entries(self, shape: tuple[int, ...], sizes: Sizes) -> Any:
        """The number of the entry of a parameter of that shape, for each entry of the weight."""
        found = np.arange(math.prod(shape)).reshape(shape)
        for step in self.steps:
            try:
                found = step(found, sizes)
            except MappingError as error:
                raise MappingError(f"{self.text!r}: {error}") from None
        return found


def read(text: str) -> Held:
    """What a text means; a `MappingError` says where it means nothing."""
    head = HEAD.match(text.strip())
    if head is None:
        raise MappingError(f"{text!r} does not start with the path of a parameter; expected {KNOWN}")
    rest, path, steps = text.strip()[head.end() :], head[2], []
    while path.endswith(".T"):
        path = path.removesuffix(".T")
        steps.append(_transposed)
    while rest := rest.strip():
        step, rest = _step(text, rest)
        steps.append(step)
    return Held(text, path, tuple(steps), float(head[1] or 0))


def _step(text: str, rest: str) -> tuple[Step, str]:
    """The first step of what is left of a text, and what is left then."""
    if rest.startswith(".T"):
        return _transposed, rest[2:]
    if rest.startswith("[") and "]" in rest:
        inside, _, rest = rest[1:].partition("]")
        return _indexing(text, inside), rest
    if found := PATTERN.match(rest):
        return _pattern(text, found[1].strip()), rest[found.end() :]
    raise MappingError(f"{text!r} cannot be parsed from {rest!r} on; expected {KNOWN}")


def _transposed(x: Any, sizes: Sizes) -> Any:
    if x.ndim < 2:
        raise MappingError(f".T exchanges the last two axes, and there is {'one' if x.ndim else 'none'}")
    return x.swapaxes(-1, -2)


# Slices and sections


def _indexing(text: str, inside: str) -> Step:
    try:
        tree: Any = ast.parse(f"x[{inside}]", mode="eval").body
        parts = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
    except (SyntaxError, AttributeError):
        raise MappingError(f"{text!r}: [{inside}] is not an index; expected 0/3, dim:2 * dim or 0") from None
    for part in parts:
        _check(text, part)

    def indexed(x: Any, sizes: Sizes) -> Any:
        if len(parts) > x.ndim:
            raise MappingError(f"[{inside}] has {len(parts)} axes, and there are {x.ndim}")
        index = tuple(_item(part, n, sizes) for part, n in zip(parts, x.shape, strict=False))
        try:
            return x[index]
        except IndexError:
            raise MappingError(f"[{inside}] lies beyond {list(x.shape)}") from None

    return indexed


def _check(text: str, node: Any) -> None:
    """Raise a `MappingError` for what no index is made of."""
    if isinstance(node, ast.Slice):
        if node.step is not None:
            raise MappingError(f"{text!r}: a slice has no step")
        for part in (node.lower, node.upper):
            _check(text, part)
    elif isinstance(node, ast.BinOp) and type(node.op) in (*OPERATIONS, ast.Div):
        _check(text, node.left)
        _check(text, node.right)
    elif node is not None and not (isinstance(node, ast.Name) or _whole(node)):
        raise MappingError(f"{text!r}: {ast.unparse(node)} is not a number, a size, or a sum or product of these")


def _whole(node: Any) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _item(node: Any, length: int, sizes: Sizes) -> Any:
    """An index along an axis of that length."""
    if isinstance(node, ast.Slice):
        lower, upper = (None if part is None else _number(part, sizes) for part in (node.lower, node.upper))
        for end in (lower, upper):
            if end is not None and not 0 <= end <= length:
                raise MappingError(f"{ast.unparse(node)} goes to {end} of an axis of {length}")
        return slice(lower, upper)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        which, count = _number(node.left, sizes), _number(node.right, sizes)
        if count <= 0 or length % count or not 0 <= which < count:
            raise MappingError(f"section {which}/{count} of an axis of {length}")
        return slice(which * length // count, (which + 1) * length // count)
    return _number(node, sizes)


def _number(node: Any, sizes: Sizes) -> int:
    if _whole(node):
        return node.value
    if isinstance(node, ast.Name):
        return _size(node.id, sizes)
    if isinstance(node.op, ast.Div):
        raise MappingError("a section cannot be part of an expression; use // to divide")
    return int(OPERATIONS[type(node.op)](_number(node.left, sizes), _number(node.right, sizes)))


def _size(name: str, sizes: Sizes) -> int:
    x = sizes.get(name)
    if type(x) is not int:
        known = [other for other, one in sizes.items() if type(one) is int]
        says = f"{name!r} is {x!r} in this case" if name in sizes else f"{name!r} is not a size of this case"
        raise MappingError(f"{says}{near(name, known)} (known: {', '.join(known)})")
    return x


# Patterns


def _pattern(text: str, pattern: str) -> Step:
    if pattern.count("->") != 1:
        raise MappingError(f"{text!r}: a pattern is written as 'dim heads d -> dim (heads d)'")
    named = re.sub(r"(?<![\w])([2-9]|[1-9]\d+)(?![\w])", r"len\1", pattern)
    numbers = {f"len{n}": int(n) for n in re.findall(r"(?<![\w])([2-9]|[1-9]\d+)(?![\w])", pattern)}
    axes = set(re.findall(r"[a-zA-Z]\w*", named))

    def rearranged(x: Any, sizes: Sizes) -> Any:
        try:
            from einops import EinopsError, rearrange
        except ImportError:
            raise MappingError("a pattern needs einops: pip install einops") from None
        known = {name: sizes[name] for name in axes if type(sizes.get(name)) is int} | numbers
        try:
            return rearrange(x, named, **known)
        except EinopsError as error:
            says = str(error).strip().splitlines()[-1].strip()
            raise MappingError(f"the pattern does not fit {list(x.shape)}: {says}") from None

    return rearranged


def near(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest name, and nothing where none is near."""
    found = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {found[0]!r}?" if found else ""
