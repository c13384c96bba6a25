"""Text for a terminal: prose, expressions, and names with descriptions."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

WIDTH = 100
"""Columns of a page, on a terminal as far as it has them."""
NARROWEST = 40
"""Columns for which a page is laid out at least."""
NAMES = 20
"""The least width of a column of names, so that the sections of a page line up."""

OPERATOR = re.compile(r"(?:^| )(?:[-+*/@%]|//|\*\*|[<>=!]=|[<>=]|if|else|and|or|not)$")
"""The end of a text after which an expression goes on in the same line."""
JOINED = re.compile(r". = |[^,] \[")
"""Around a space: a name and what it is given, or its shape."""
LOOSENESS = (re.compile(r",$|^ (?:if|else) "), re.compile(r"^ (?:and|or) "))
"""Around a space: what parts an expression most, and next to most."""


def terminal() -> int | None:
    """The columns of the terminal that standard output goes to; None if it goes elsewhere."""
    if not sys.stdout.isatty():
        return None
    return max(NARROWEST, shutil.get_terminal_size((WIDTH, 24)).columns)


def page_width(columns: int | None = None) -> int:
    """The columns of a page on a terminal of so many, or on none."""
    return min(WIDTH, columns or WIDTH)


def fitted(line: str, columns: int | None) -> list[str]:
    """A line as it is where it fits; else several, those after the first set in."""
    if columns is None or len(line) <= columns:
        return [line]
    indent = " " * min(len(line) - len(line.lstrip()) + 4, columns // 2)
    return textwrap.wrap(line, columns, subsequent_indent=indent, break_on_hyphens=False)


def command(text: str, room: int) -> list[str]:
    """A command of the shell in lines of so many columns, which may be pasted as they are."""
    lines = textwrap.wrap(text, room - 2, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)
    return [text] if len(text) <= room else [*(f"{line} \\" for line in lines[:-1]), lines[-1]]


def prose(text: str, indent: str = "") -> list[str]:
    """Lines of sentences."""
    lines = textwrap.wrap(
        text, page_width(terminal()), initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
    return lines or [""]


def expression(text: str, first: str = "", rest: str = "") -> list[str]:
    """Lines of an expression or a call, broken before operators, where it holds together least."""
    lines, indent, width = [], first, page_width(terminal())
    while len(indent) + len(text) > width:
        room = width - len(indent)
        breaks = [(tightness, -at) for at, tightness in _breaks(text) if at <= room]
        cuts = [found for found in breaks if -found[1] >= room // 3] or breaks
        if not cuts:
            break
        at = -min(cuts)[1]
        lines.append(indent + text[:at])
        text, indent = text[at + 1 :], rest
    return [*lines, indent + text]


def _breaks(text: str) -> Iterator[tuple[int, tuple[int, int]]]:
    """Where a line may end, and how tightly the expression holds together there: by brackets, and by operators."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == " " and not OPERATOR.search(text[:at]) and not JOINED.match(text, max(at - 1, 0)):
            around = (text[at - 1], text[at : at + 6])
            loose = [any(map(pattern.search, around)) for pattern in LOOSENESS]
            yield at, (depth, (*loose, True).index(True))


def entries(said: Mapping[str, str]) -> Iterator[str]:
    """A column of names, and beside each what it says."""
    width = column(said)
    for name, says in said.items():
        first, *further = prose(says, " " * (width + 4))
        yield f"    {name:<{width}}" + first[width + 4 :]
        yield from further


def expressions(lines: Mapping[str, str], sign: str = "") -> Iterator[str]:
    """A column of names, and beside each its expression."""
    width = max((len(name) + len(sign) for name in lines), default=0) + 1
    for name, text in lines.items():
        yield from expression(text, f"    {name + sign:<{width}}", " " * (width + 8))


def aligned(rows: Sequence[Sequence[str]], left: int | None = None) -> Iterator[str]:
    """Rows of a table, each column as wide as it has to be: the `left` ones to the left, or all, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = len(widths) if left is None else left
    for row in rows:
        cells = [text.ljust(width) for text, width in zip(row[:left], widths[:left], strict=True)]
        cells += [text.rjust(width) for text, width in zip(row[left:], widths[left:], strict=True)]
        yield "  ".join(cells).rstrip()


def column(texts: Iterable[str]) -> int:
    """The width of a column of names, with what parts it from the next."""
    return max(NAMES, *map(len, texts), 0) + 1
