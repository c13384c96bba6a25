"""Small edits of expressions, as typical slips make them, each with a cost.

An edit changes one part of a text: an operator, a constant, an axis, a comparison, an operand that is left out or taken
twice, two operands that are exchanged, a name for another one, a function for one of its kin.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass

from ..errors import SpecError
from .syntax import parse, source_of

PLAIN, RARE, FAR = 1, 2, 3
"""What edits cost: a slip of one sign, a change of one operand, and what is seldom meant."""
OPERATORS: Mapping[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "%",
    ast.Mod: "//",
}
"""By what another operator is taken."""
SIGNS: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
COMPARISONS: Mapping[type[ast.cmpop], tuple[str, str, str]] = {
    ast.Lt: ("<", "<=", ">"),
    ast.LtE: ("<=", "<", ">="),
    ast.Gt: (">", ">=", "<"),
    ast.GtE: (">=", ">", "<="),
    ast.Eq: ("==", "!=", "!="),
    ast.NotEq: ("!=", "==", "=="),
}
"""A comparison, the same with its other limit, and the other way round."""
KIN = (
    ("repeat", "tile"),
    ("sin", "cos"),
    ("max", "min", "sum", "mean"),
    ("maximum", "minimum"),
    ("any", "all"),
    ("floor", "ceil", "round"),
    ("exp", "sigmoid"),
    ("tanh", "sigmoid", "erf"),
    ("sqrt", "log"),
)
"""Functions that are taken for one another."""

NEGLIGIBLE = (0.1, 0.01, 0.001, 0.0001)
"""Shares of an average below which it may be cut off."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A text with one part changed."""

    text: str
    at: int
    """Where the part begins."""
    before: str
    """The part as it was."""
    after: str
    cost: int

    def within(self, whole: str, room: int) -> tuple[str, str]:
        """The change with as much of the `whole` text around it as there is room for, before and after.

        Where there is room for no expression that has the change in it, that is the smallest.
        """
        end = self.at + len(self.before)
        spans = [
            (node.col_offset, node.end_col_offset or 0)
            for node in ast.walk(parse(whole))
            if isinstance(node, ast.expr) and not isinstance(node, (ast.Slice, ast.Tuple))  # parts of an index alone
        ]
        around = sorted(((a, b) for a, b in spans if a <= self.at and end <= b), key=lambda span: span[1] - span[0])
        first, last = next((span for span in reversed(around) if span[1] - span[0] <= room), around[0])
        return whole[first:last], lean(whole[first : self.at] + self.after + whole[end:last])


def edits(text: str, others: Mapping[str, Collection[str]], counting: Collection[str] = ()) -> list[Edit]:
    """Every edit of an expression, the cheapest first and each effect on the text once.

    `others` has the names that each name may be taken for; those that are `counting` may be one off.
    """
    found: dict[Hashable, Edit] = {}
    with warnings.catch_warnings():  # of a number that is called or indexed, which is found when it is computed
        warnings.simplefilter("ignore")
        tree = parse(text)
        alternatives = [*_alternatives(tree)]
        own = {_effect(text), *(_spliced(text, call, source_of(text, x), PLAIN)[1] for call, x in alternatives)}
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]
        for node in nodes:
            around = _around(node, alternatives)
            for cost, part in _parts(text, node, others, counting):
                edit, effect = _spliced(text, *_alone(text, node, part, around), cost)
                if edit is not None and effect not in own and (effect not in found or cost < found[effect].cost):
                    found[effect] = edit
    return sorted(found.values(), key=lambda edit: edit.cost)


def _alternatives(tree: ast.AST) -> Iterator[tuple[ast.Call, ast.expr]]:
    """The outermost calls of `either`, each with one of its two arguments."""
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "either":
        yield from ((tree, argument) for argument in tree.args)
        return
    for node in ast.iter_child_nodes(tree):
        yield from _alternatives(node)


def _around(node: ast.expr, alternatives: Collection[tuple[ast.Call, ast.expr]]) -> tuple[ast.Call, ast.expr] | None:
    """The call of `either` that has a node in one of its arguments, and that argument."""
    for call, argument in alternatives:
        if argument.col_offset <= node.col_offset and (node.end_col_offset or 0) <= (argument.end_col_offset or 0):
            return call, argument
    return None


def _alone(text: str, node: ast.expr, part: str, around: tuple[ast.Call, ast.expr] | None) -> tuple[ast.expr, str]:
    """What is replaced, and by what: of two ways to compute something, one with the edit stands in the place of both.

    Beside the other way, an edit of one of them would leave open which of two numbers comes out, and agree with both.
    """
    if around is None:
        return node, part
    call, argument = around
    start, end = text[argument.col_offset : node.col_offset], text[node.end_col_offset : argument.end_col_offset]
    return call, start + _closed_if_needed(start, part, end) + end


def _effect(text: str) -> Hashable:
    """What is the same for two texts that mean the same but for parentheses and blanks; None for what is none."""
    try:
        code = compile(text, "", "eval", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return code.co_code, code.co_names, repr(code.co_consts)


def renamed(text: str, name: str, other: str) -> str:
    """A text in which one name stands in the place of another, wherever that is read."""
    return all_renamed(text, {name: other})


def all_renamed(text: str, others: Mapping[str, str]) -> str:
    """A text in which other names, or other texts, stand in the places of several names."""
    places = [node for node in ast.walk(parse(text)) if isinstance(node, ast.Name) and node.id in others]
    for node in sorted(places, key=lambda node: -node.col_offset):
        text = text[: node.col_offset] + others[node.id] + text[node.end_col_offset :]
    return text


def lean(text: str) -> str:
    """A text without the parentheses that change nothing."""
    meant, at = ast.dump(parse(text)), 0
    while (at := text.find("(", at)) >= 0:
        depth, end = 1, at
        while depth:
            end += 1
            depth += (text[end] == "(") - (text[end] == ")")
        without = text[:at] + text[at + 1 : end] + text[end + 1 :]
        try:
            text, at = (without, at) if ast.dump(parse(without)) == meant else (text, at + 1)
        except SpecError:
            at += 1
    return text


def _spliced(text: str, node: ast.expr, part: str, cost: int) -> tuple[Edit | None, Hashable]:
    """A text with a node replaced, in parentheses where it needs them, and its effect; None for what is none."""
    start, end = text[: node.col_offset], text[node.end_col_offset :]
    effect = _effect(f"{start}({part}){end}")
    if effect is None:
        return None, None
    part = _closed_if_needed(start, part, end)
    return Edit(f"{start}{part}{end}", node.col_offset, source_of(text, node), part, cost), effect


def _closed_if_needed(start: str, part: str, end: str) -> str:
    """A part, in parentheses unless it means the same between two others without them."""
    return part if _effect(f"{start}{part}{end}") == _effect(f"{start}({part}){end}") else f"({part})"


def _parts(
    text: str, node: ast.expr, others: Mapping[str, Collection[str]], counting: Collection[str]
) -> Iterator[tuple[int, str]]:
    """What may stand in the place of a node, and what that costs."""
    if isinstance(node, ast.BinOp):
        yield from _of_operator(text, node)
    elif isinstance(node, ast.Compare):
        yield from _of_comparison(text, node)
    elif isinstance(node, ast.BoolOp):
        yield from _of_condition(text, node)
    elif isinstance(node, ast.UnaryOp):
        yield PLAIN, source_of(text, node.operand)
    elif isinstance(node, ast.IfExp):
        test, body, other = (source_of(text, part) for part in (node.test, node.body, node.orelse))
        yield PLAIN, body
        yield PLAIN, other
        yield RARE, f"{other} if {test} else {body}"
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node.value)
    elif isinstance(node, ast.Call):
        yield from _of_call(text, node)
    elif isinstance(node, ast.Subscript):
        yield RARE, source_of(text, node.value)
    elif isinstance(node, ast.Name) and node.id in others:
        for other in others[node.id]:
            yield RARE, other
        yield FAR, f"-{node.id}"
        if node.id in counting:
            yield RARE, f"{node.id} + 1"
            yield RARE, f"{node.id} - 1"


def _of_operator(text: str, node: ast.BinOp) -> Iterator[tuple[int, str]]:
    left, right = source_of(text, node.left), source_of(text, node.right)
    a, b = _closed(left, node.left), _closed(right, node.right)
    kind = type(node.op)
    if kind in OPERATORS:
        yield PLAIN, f"{a} {OPERATORS[kind]} {b}"
    yield PLAIN, left
    yield PLAIN, right
    if kind in SIGNS:
        yield RARE, f"{a} {SIGNS[kind]} {b} {SIGNS[kind]} {b}"
    if kind not in (ast.Add, ast.Mult):
        yield RARE, f"{b} {_sign_of(text, node)} {a}"


def _sign_of(text: str, node: ast.BinOp) -> str:
    """An operator as it is written."""
    between = text[node.left.end_col_offset : node.right.col_offset]
    return between.strip(" ()")


def _closed(text: str, node: ast.expr) -> str:
    """A part in parentheses, unless it is one word, a number or a call."""
    simple = isinstance(node, ast.Name | ast.Constant | ast.Call | ast.Subscript)
    return text if simple else f"({text})"


def _of_comparison(text: str, node: ast.Compare) -> Iterator[tuple[int, str]]:
    terms = [source_of(text, term) for term in (node.left, *node.comparators)]
    signs = [COMPARISONS[type(op)] for op in node.ops if type(op) in COMPARISONS]
    if len(signs) != len(node.ops):
        return

    def joined(chosen: list[str], last: str) -> str:
        parts = [part for pair in zip(terms, chosen, strict=False) for part in pair]
        return " ".join([*parts, last])

    plain = [sign[0] for sign in signs]
    for at, sign in enumerate(signs):
        for other in dict.fromkeys(sign[1:]):
            yield PLAIN, joined([*plain[:at], other, *plain[at + 1 :]], terms[-1])
    if signs[-1][0] not in ("==", "!=") and not isinstance(node.comparators[-1], ast.Constant):
        last = terms[-1] if not isinstance(node.comparators[-1], ast.IfExp) else f"({terms[-1]})"
        yield PLAIN, joined(plain, f"{last} + 1")
        yield PLAIN, joined(plain, f"{last} - 1")


def _of_condition(text: str, node: ast.BoolOp) -> Iterator[tuple[int, str]]:
    parts = [_closed(source_of(text, part), part) for part in node.values]
    word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    yield PLAIN, f" {other} ".join(parts)
    for at in range(len(parts) if len(parts) > 2 else 0):
        rest = f" {word} ".join([*parts[:at], *parts[at + 1 :]])
        yield RARE, f"({rest}) {other} {parts[at]}"
    for at in range(len(parts)):
        yield PLAIN, f" {word} ".join([*parts[:at], *parts[at + 1 :]])
        yield RARE, f" {word} ".join([*parts[:at], f"not {parts[at]}", *parts[at + 1 :]])


def _of_constant(x: object) -> Iterator[tuple[int, str]]:
    if type(x) is int:
        yield PLAIN, str(x + 1)
        if x > 0:
            yield PLAIN, str(x - 1)
        if x > 1:
            yield RARE, str(2 * x)
    elif type(x) is float:
        for factor in (2.0, 0.5):
            yield RARE, repr(factor * x)
        yield RARE, repr(x + 1.0)


def _of_call(text: str, node: ast.Call) -> Iterator[tuple[int, str]]:
    if not isinstance(node.func, ast.Name):
        return
    name, args = node.func.id, [source_of(text, arg) for arg in node.args]
    if name == "either":
        return
    keywords = [f"{keyword.arg} = {source_of(text, keyword.value)}" for keyword in node.keywords]

    def call(name: str, args: list[str], keywords: list[str]) -> str:
        return f"{name}({', '.join([*args, *keywords])})"

    for family in KIN:
        for other in family if name in family else ():
            if other != name:
                yield PLAIN, call(other, args, keywords)
    for arg in args[:1] if name != "where" else args[1:]:
        yield PLAIN, arg
    for at in range(len(keywords)):
        yield PLAIN, call(name, args, [*keywords[:at], *keywords[at + 1 :]])
    if len(args) > 1:
        yield RARE, call(name, args[:-1], keywords)
    for at in range(1 if name == "where" else 0, len(args) - 1):
        yield RARE, call(name, [*args[:at], args[at + 1], args[at], *args[at + 2 :]], keywords)
    if name == "average" and len(args) == 2:
        yield PLAIN, f"{_closed(args[0], node.args[0])} @ {_closed(args[1], node.args[1])}"
        for axis in (-2, 1):
            yield RARE, f"{args[0]} / sum({args[0]}, {axis}, keep = true) @ {args[1]}"
        yield from _of_shares(args[0], f"{_closed(args[0], node.args[0])} / sum({args[0]}, keep = true)", args[1])
    if name == "range":
        yield PLAIN, f"{call(name, args, keywords)} + 1"
        yield PLAIN, f"{call(name, args, keywords)} - 1"


def _of_shares(weights: str, shares: str, values: str) -> Iterator[tuple[int, str]]:
    """An average whose shares are multiplied once too often, or left out where they are small."""
    yield RARE, f"({shares}) ** 2 @ {values}"
    for least in NEGLIGIBLE:
        yield FAR, f"where({shares} < {least}, 0, {shares}) @ {values}"
        yield FAR, f"average(where({shares} < {least}, 0, {weights}), {values})"
