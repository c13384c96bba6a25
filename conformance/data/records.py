"""JSON from outside, read strictly, within limits, and only in the expected form.

A shape says what a value has against it, as sentences that begin with where in the record it stands.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import UsageError, did_you_mean
from .texts import safe

DEEPEST = 40
"""Lists and objects within one another."""
DIGITS = 40
"""Characters of one number."""
NAME = 10_000
"""Characters of a name."""

Shape = Callable[[Any, str], Iterator[str]]
"""What is wrong with a value that stands at a place of a record."""


def record(text: str, shape: Shape, path: Path | str, line: int = 1) -> Any:
    """The value of a JSON text that begins on a line of a file; a `UsageError` with file and line for all else."""
    place = safe(str(path))
    try:
        found = json.loads(
            text, object_pairs_hook=_once, parse_int=_whole, parse_float=_fraction, parse_constant=_constant
        )
    except json.JSONDecodeError as error:
        says = error.msg[:1].lower() + error.msg[1:]
        raise UsageError(f"{place}:{line + error.lineno - 1}:{error.colno}: not JSON: {says}") from None
    except ValueError as error:
        raise UsageError(f"{place}:{line}: {error}") from None
    except RecursionError:
        raise UsageError(f"{place}:{line}: nested more than {DEEPEST} levels deep") from None
    for fault in (*_unfit(found), *shape(found, "")):
        raise UsageError(f"{place}:{line}: {fault}")
    return found


def check_format(number: int, newest: int, what: str, path: Path | str) -> None:
    """Raise a `UsageError` for a file of `what` that is in a later format than the newest that is known."""
    if number > newest:
        known = f"this attnspec reads up to {newest}; install a later version"
        raise UsageError(f"{safe(str(path))} has format {number} of {what}, and {known}")


# JSON, strictly


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        double = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise ValueError(f"the key {_told(double)} is given twice")
    return found


def _whole(text: str) -> int:
    if len(text) > DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _fraction(text: str) -> float:
    if not math.isfinite(found := float(text)):
        raise ValueError(f"the number {safe(text, DIGITS)} does not fit in 64 bits")
    return found


def _constant(text: str) -> float:
    raise ValueError(f"not JSON: {text} is not a number of JSON")


def _unfit(found: Any) -> Iterator[str]:
    """What no record has: too deep a nest, or text that cannot be written down."""
    level, depth = [found], 0
    while level:
        if depth > DEEPEST:
            yield f"nested more than {DEEPEST} levels deep"
            return
        inner: list[Any] = []
        for x in level:
            if isinstance(x, dict):
                inner += [*x, *x.values()]
            elif isinstance(x, list):
                inner += x
            elif isinstance(x, str) and not x.isascii() and _unwritable(x):
                yield f"the text {_told(x)} has half of a surrogate pair"
                return
        level, depth = inner, depth + 1


def _unwritable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


# Shapes


def anything(x: Any, at: str) -> Iterator[str]:
    yield from ()


def text(x: Any, at: str) -> Iterator[str]:
    if not isinstance(x, str):
        yield _wrong(x, at, "a text")


def name(x: Any, at: str) -> Iterator[str]:
    if not isinstance(x, str) or not 0 < len(x) <= NAME:
        yield _wrong(x, at, f"a text of 1 to {NAME:,} characters")


def truth(x: Any, at: str) -> Iterator[str]:
    if not isinstance(x, bool):
        yield _wrong(x, at, "true or false")


def number(x: Any, at: str) -> Iterator[str]:
    if isinstance(x, bool) or not isinstance(x, int | float):
        yield _wrong(x, at, "a number")


def whole(x: Any, at: str) -> Iterator[str]:
    if isinstance(x, bool) or not isinstance(x, int) or not 0 <= x < 2**64:
        yield _wrong(x, at, "an integer from 0 on")


def scalar(x: Any, at: str) -> Iterator[str]:
    if not (x is None or isinstance(x, bool | int | float | str)):
        yield _wrong(x, at, "a single value")


def one_of(words: Collection[str]) -> Shape:
    def shape(x: Any, at: str) -> Iterator[str]:
        if not isinstance(x, str) or x not in words:
            hint = did_you_mean(x, words) if isinstance(x, str) and len(x) < 100 else ""
            yield _wrong(x, at, f"one of {', '.join(words)}") + hint

    return shape


def or_none(shape: Shape) -> Shape:
    return lambda x, at: iter(()) if x is None else shape(x, at)


def several(shape: Shape) -> Shape:
    """A list."""

    def found(x: Any, at: str) -> Iterator[str]:
        if not isinstance(x, list):
            yield _wrong(x, at, "a list")
            return
        for index, item in enumerate(x):
            yield from shape(item, f"{at}[{index}]")

    return found


def by_name(shape: Shape) -> Shape:
    """An object whose keys are names."""

    def found(x: Any, at: str) -> Iterator[str]:
        if not isinstance(x, dict):
            yield _wrong(x, at, "an object")
            return
        for key, item in x.items():
            yield from shape(item, _within(at, key))

    return found


def keys(required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    """An object that has some keys and may have others; of further ones nothing is asked."""

    def found(x: Any, at: str) -> Iterator[str]:
        if not isinstance(x, dict):
            yield _wrong(x, at, "an object")
            return
        for key in required:
            if key not in x:
                yield f"{at + ': ' if at else ''}the key {key!r} is missing"
                return
        for key, shape in {**required, **(optional or {})}.items():
            if key in x:
                yield from shape(x[key], _within(at, key))

    return found


def _within(at: str, key: str) -> str:
    return f"{at}.{safe(key, 60)}" if at else safe(key, 60)


def _wrong(x: Any, at: str, expected: str) -> str:
    return f"{at or 'it'} is {_told(x)}; expected {expected}"


def _told(x: Any) -> str:
    kind = {dict: "an object", list: "a list"}.get(type(x))
    return kind or safe(json.dumps(x, ensure_ascii=True)[:400], 60)
