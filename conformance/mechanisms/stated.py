"""Interfaces on one line: `OPERATOR(parameter=what to pass, ...)`, as in `attention(sm_scale=scale)`.

What a parameter is passed is written as in the files of known interfaces: an array, an expression, `{out: lse}`, or
several as `[a, b]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ..errors import UsageError

_WHOLE = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*", re.DOTALL)
_PART = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)\s*(\S.*?)\s*", re.DOTALL)
_KIND = re.compile(r"\{\s*(\w+)\s*:\s*(.*?)\s*\}", re.DOTALL)
KINDS = ("out", "in_place", "room", "text", "left")
OPEN, CLOSED = "([{", ")]}"


def is_stated(like: str) -> bool:
    """Whether a name of an interface is none, and states one."""
    return "(" in like


def stated(like: str, label: str = "") -> tuple[str, dict[str, str]]:
    """The operator that is stated, and what is said of each parameter; a `UsageError` where it cannot be read."""
    whole = _WHOLE.fullmatch(like)
    if whole is None:
        raise UsageError(f"{label}an interface is stated as OPERATOR(parameter=input or option, ...), not {like!r}")
    found = dict[str, str]()
    for text in _parts(whole[2]):
        part = _PART.fullmatch(text)
        if part is None:
            raise UsageError(f"{label}{text.strip()!r} does not say what a parameter is passed; write parameter=option")
        found[part[1]] = part[2]
    return whole[1], found


def written(operator: str, parameters: Mapping[str, str]) -> str:
    """The line that states an interface."""
    return f"{operator}({', '.join(f'{name}={text}' for name, text in parameters.items())})"


def kind_and_texts(text: str, label: str = "") -> tuple[str, tuple[str, ...]]:
    """How a parameter is passed what is said of it, and the texts that say it."""
    kind = _KIND.fullmatch(text)
    if kind is not None:
        if kind[1] not in KINDS:
            raise UsageError(f"{label}{{{kind[1]}: ...}} is none of {', '.join(KINDS)}")
        return kind[1], (kind[2],)
    if text.startswith("[") and text.endswith("]"):
        return "tuple", tuple(part.strip() for part in _parts(text[1:-1]))
    return "array", (text,)


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
