"""Text from outside (a name, an exception, the output of a call), made safe to show and to store."""

from __future__ import annotations

from typing import Any

LINE = 300
"""Characters of one line that are shown."""
LINES = 40
"""Lines of one text that are shown."""
NAME = 80
"""Characters of a name that are shown."""


def safe(text: str, most: int = LINE) -> str:
    r"""One printable line of at most `most` characters.

    Control characters, escape sequences, line ends, marks of direction and lone surrogates are written as escapes
    (`\n`, `\x1b`, `\ud800`), and what is cut off is counted.
    """
    text = str.__str__(text)  # for a kind of str may be anything
    cut = text[:most]
    if not cut.isprintable():
        cut = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)[: 2 * most]
    return str(cut) if len(text) <= most else f"{cut} ... ({len(text) - most} more characters)"


def safe_lines(text: str, most: int = LINES, width: int = LINE) -> str:
    """The last `most` lines of a text, each of them safe."""
    lines = str.__str__(text).splitlines()
    left_out = [f"... ({len(lines) - most} more lines)"] if len(lines) > most else []
    return "\n".join([*left_out, *(safe(line, width) for line in lines[-most:])])


def told(x: object, most: int = LINE) -> str:
    """The text of any object in one safe line, even of one that cannot be turned into text."""
    try:
        return safe(str(x), most)
    except Exception as error:
        return f"({type(x).__name__} without a text: {type(error).__name__})"


def safe_data(x: Any, most: int = 2 * LINE) -> Any:
    """Plain data with every text in it safe, keys included."""
    if isinstance(x, str):
        return safe(x, most)
    if isinstance(x, dict):
        return {safe_data(key, most): safe_data(value, most) for key, value in x.items()}
    return [safe_data(part, most) for part in x] if isinstance(x, list | tuple) else x


def described(x: object) -> str:
    """What kind of thing something is, as in `a list`."""
    kind = safe(type(x).__name__) or "?"
    return "None" if x is None else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
