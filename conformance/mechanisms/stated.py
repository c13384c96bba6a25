"""Interfaces on one line: `OPERATOR(parameter=what to pass, ...)`, as in `attention(sm_scale=scale)`.

What a parameter is passed is written as in the files of known interfaces: an array, an expression, `{out: lse}`,
`{in_place: cache, as: keys}`, `{text: silu, where: silu}`, `{dtype: out}`, or several as `[a, b]`. What holds of every
call may follow, as in `attention(n=q_len) requires(k_len == q_len)`, and so may options of one value and dtypes:
`rotary(cos=..., sin=...) fixed(interleaved=true) dtypes(cos=float32)`.
What a function returns in place of the outputs is named, and what each output is assembled from:
`moe_routing(router_logits=logits) returns(weight, ids) outputs(weights=sum(...))`.
`conventions(causal_alignment=top_left)` says by which convention what is handed of a forward pass was computed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..errors import UsageError

_HEAD = re.compile(r"\s*([A-Za-z_]\w*)\s*\(")
_PART = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)\s*(\S.*?)\s*", re.DOTALL)
_KIND = re.compile(r"\{\s*(\w+)\s*:\s*(.*?)\s*\}", re.DOTALL)
_WHERE = re.compile(r"(.*?)\s*,\s*where\s*:\s*(.*)", re.DOTALL)
_AS = re.compile(r"(.*?)\s*,\s*as\s*:\s*(\w+)", re.DOTALL)
KINDS = ("out", "in_place", "room", "text", "complex", "left", "dtype", "device")
OPEN, CLOSED = "([{", ")]}"
FIXED, REQUIRES, DTYPES = "fixed", "requires", "dtypes"
RETURNS, OUTPUTS, CONVENTIONS = "returns", "outputs", "conventions"


@dataclass(frozen=True, slots=True)
class Line:
    """What a line states."""

    operator: str
    parameters: Mapping[str, str]
    """What each parameter is passed."""
    fixed: Mapping[str, str] = field(default_factory=dict)
    """Options that have one value."""
    requires: tuple[str, ...] = ()
    """What holds of every call."""
    dtypes: Mapping[str, str] = field(default_factory=dict)
    """Parameters, and what is returned, that have a dtype of their own."""
    returns: tuple[str, ...] = ()
    """What is returned, in its order; the outputs of the operator where nothing is said."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """Outputs that are assembled from what is returned."""
    conventions: Mapping[str, str] = field(default_factory=dict)
    """The words of conventions by which results of a forward pass are computed that it is handed."""

    def __str__(self) -> str:
        groups = {self.operator: _assigned(self.parameters)}
        groups |= {FIXED: _assigned(self.fixed)} if self.fixed else {}
        groups |= {REQUIRES: ", ".join(self.requires)} if self.requires else {}
        groups |= {DTYPES: _assigned(self.dtypes)} if self.dtypes else {}
        groups |= {RETURNS: ", ".join(self.returns)} if self.returns else {}
        groups |= {OUTPUTS: _assigned(self.outputs)} if self.outputs else {}
        groups |= {CONVENTIONS: _assigned(self.conventions)} if self.conventions else {}
        return " ".join(f"{name}({text})" for name, text in groups.items())


def _assigned(texts: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={text}" for name, text in texts.items())


def is_stated(like: str) -> bool:
    """Whether a name of an interface is none, and states one."""
    return "(" in like


def stated(like: str, label: str = "") -> Line:
    """What a line states; a `UsageError` for one that cannot be read."""
    groups = _groups(like)
    operator, *further = groups
    if not operator or {*further} - {FIXED, REQUIRES, DTYPES, RETURNS, OUTPUTS, CONVENTIONS}:
        raise UsageError(f"{label}an interface is stated as OPERATOR(parameter=input or option, ...), not {like!r}")
    parameters = _read(groups[operator], label)
    requires, returns = (tuple(p.strip() for p in _parts(groups.get(name, ""))) for name in (REQUIRES, RETURNS))
    kinds = (FIXED, DTYPES, OUTPUTS, CONVENTIONS)
    fixed, dtypes, outputs, conventions = (_read(groups.get(name, ""), label) for name in kinds)
    return Line(operator, parameters, fixed, requires, dtypes, returns, outputs, conventions)


def _read(text: str, label: str) -> dict[str, str]:
    """What is said of each name between a pair of parentheses."""
    found = dict[str, str]()
    for said in _parts(text):
        part = _PART.fullmatch(said)
        if part is None:
            raise UsageError(f"{label}{said.strip()!r} does not say what a parameter is passed; write parameter=option")
        found[part[1]] = part[2]
    return found


def _groups(like: str) -> dict[str, str]:
    """What is between the parentheses of each name; under an empty name, a text that has another form."""
    found, at = dict[str, str](), 0
    while like[at:].strip():
        head = _HEAD.match(like, at)
        end = _closing(like, head.end()) if head else -1
        if head is None or end < 0 or head[1] in found:
            return {"": like}
        found[head[1]], at = like[head.end() : end], end + 1
    return found or {"": like}


def _closing(text: str, start: int) -> int:
    """Where the parenthesis is closed that is open before the start; -1 if it is not."""
    depth = 1
    for at in range(start, len(text)):
        depth += (text[at] in OPEN) - (text[at] in CLOSED)
        if depth == 0:
            return at
    return -1


def kind_and_texts(text: str, label: str = "") -> tuple[str, tuple[str, ...]]:
    """How a parameter is passed what is said of it, and the texts that say it."""
    kind = _KIND.fullmatch(text)
    if kind is not None:
        if kind[1] not in KINDS:
            raise UsageError(f"{label}{{{kind[1]}: ...}} is none of {', '.join(KINDS)}")
        if kind[1] == "in_place" and (both := _AS.fullmatch(kind[2])):
            return kind[1], (both[1], both[2])
        if kind[1] == "text" and (both := _WHERE.fullmatch(kind[2])):
            return kind[1], (both[1], both[2])
        return kind[1], _between(kind[2]) if kind[1] == "complex" else (kind[2],)
    if text.startswith("[") and text.endswith("]"):
        return "tuple", _between(text)
    return "array", (text,)


def expressions_in(text: str) -> tuple[str, ...]:
    """The expressions in what is said of a parameter; text, a dtype or a device is none, nor what an array becomes."""
    how, texts = kind_and_texts(text)
    return {"dtype": (), "device": (), "text": texts[1:], "in_place": texts[:1]}.get(how, texts)


def _between(text: str) -> tuple[str, ...]:
    """What stands between commas in a pair of brackets."""
    return tuple(part.strip() for part in _parts(text[1:-1]))


def _parts(text: str) -> Iterator[str]:
    """What stands between commas that are in no brackets."""
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += (letter in OPEN) - (letter in CLOSED)
        if letter == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    if text[start:].strip():
        yield text[start:]
