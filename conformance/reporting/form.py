"""The form of results, as a JSON Schema and as a page."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from . import difference
from .records import FORMAT, KINDS

SCHEMA = Path(__file__).with_name("results.schema.json")
PAGE, DIFF = Path("docs/results.md"), Path("docs/diff.md")
PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
TOLD = {str: "text", int: "integer", float: "number", bool: "true or false", type(None): "null"}
CHAIN = "It has the digests of the previous line and of this line, so that a changed file is refused."
HEAD = f"""# Results

`results.ndjson` has one JSON object per line; `kind` is the kind of the line.
This is format {FORMAT}.
This page and `results.schema.json` in the package are generated from types.
They are in `attnspec.reporting.records`, and those of a failure in `attnspec.reporting.witnesses`.
Later versions may add keys, so ignore unknown ones.
The number changes when a key is removed or changes its meaning.
Every line of a file also has `chain`.
{CHAIN}
A key with a question mark may be missing.
"""
DIFF_HEAD = f"""# Differences

`attnspec diff A B --json` writes one JSON object.
This is format {difference.FORMAT}.
This page is generated from the types in `attnspec.reporting.difference`.
Later versions may add keys, so ignore unknown ones.
The number changes when a key is removed or changes its meaning.
A key with a question mark may be missing.
"""


def schema(*, closed: bool = False) -> dict[str, Any]:
    """The JSON Schema of a line; a `closed` one allows no keys but those that are stated."""
    found: dict[str, Any] = {}
    for record in KINDS.values():
        _define(record, found, closed)
    for record in KINDS.values():
        found[record.__name__]["properties"]["chain"] = {"type": "string", "description": CHAIN}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A line of attnspec's results, format {FORMAT}",
        "oneOf": [{"$ref": f"#/$defs/{record.__name__}"} for record in KINDS.values()],
        "$defs": found,
    }


def diff_schema(*, closed: bool = False) -> dict[str, Any]:
    """The JSON Schema of what `attnspec diff --json` writes."""
    title = f"What attnspec diff writes, format {difference.FORMAT}"
    return schema_of(difference.Difference, title, closed=closed)


def schema_of(record: Any, title: str, *, closed: bool = False) -> dict[str, Any]:
    """The JSON Schema of one kind of object, a `TypedDict`."""
    found: dict[str, Any] = {}
    _define(record, found, closed)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    return {**schema, "$ref": f"#/$defs/{record.__name__}", "$defs": found}


def _define(record: Any, found: dict[str, Any], closed: bool) -> None:
    if record.__name__ in found:
        return
    found[record.__name__] = {}
    properties = {}
    for name, (stated, says) in keys_of(record).items():
        properties[name] = _schema(stated, found, closed) | ({"description": says} if says else {})
    found[record.__name__] |= {
        "description": record.__doc__,
        "type": "object",
        "properties": properties,
        "required": [name for name in keys_of(record) if name in record.__required_keys__],
        **({"additionalProperties": False} if closed else {}),
    }


def keys_of(record: Any) -> dict[str, tuple[Any, str]]:
    """The keys of a record, each with its type and its sentence."""
    hints = typing.get_type_hints(record, include_extras=True)
    found = {}
    for name, hint in hints.items():
        stated, *says = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
        found[name] = (get_args(stated)[0] if get_origin(stated) is typing.NotRequired else stated, *(says or [""]))
    return found


def _schema(stated: Any, found: dict[str, Any], closed: bool) -> dict[str, Any]:
    origin, parts = get_origin(stated), get_args(stated)
    if typing.is_typeddict(stated):
        _define(stated, found, closed)
        return {"$ref": f"#/$defs/{stated.__name__}"}
    if origin is Literal:
        return {"enum": list(parts)}
    if origin is list:
        return {"type": "array", "items": _schema(parts[0], found, closed)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(parts[1], found, closed)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(part, found, closed) for part in parts]}
    return {"type": PLAIN[stated]}


def page() -> str:
    """All of it for people, line by line, each with the objects that it holds."""
    return _page(HEAD, {f"`{kind}`": record for kind, record in KINDS.items()})


def diff_page() -> str:
    """The same of what `attnspec diff --json` writes."""
    return _page(DIFF_HEAD, {"Difference": difference.Difference})


def _page(head: str, records: Mapping[str, Any]) -> str:
    lines, seen = [head], set[str]()
    for title, record in records.items():
        lines.append(f"## {title}\n")
        lines += _table(record)
        for inner in _inside(record):
            if inner.__name__ not in seen:
                seen.add(inner.__name__)
                lines += [f"### {inner.__name__}\n", *_table(inner)]
    return "\n".join(lines).rstrip() + "\n"


def _table(record: Any) -> Iterator[str]:
    yield f"{record.__doc__}\n"
    yield "| key | type | says |"
    yield "|---|---|---|"
    for name, (stated, says) in keys_of(record).items():
        mark = "" if name in record.__required_keys__ else "?"
        yield f"| `{name}`{mark} | {_told(stated)} | {says} |"
    yield ""


def _told(stated: Any) -> str:
    origin, parts = get_origin(stated), get_args(stated)
    if typing.is_typeddict(stated):
        return f"[{stated.__name__}](#{stated.__name__.lower()})"
    if origin is Literal:
        return ", ".join(f"`{part}`" for part in parts)
    if origin is list:
        return f"list of: {_told(parts[0])}"
    if origin is dict:
        return f"object of: {_told(parts[1])}"
    if origin in (Union, types.UnionType):
        return "a value" if len(parts) > 2 else " or ".join(map(_told, parts))
    return TOLD[stated]


def _inside(record: Any) -> Iterator[Any]:
    """The records within a record, each after the one that holds it."""
    for stated, _ in keys_of(record).values():
        for part in _parts(stated):
            yield part
            yield from _inside(part)


def _parts(stated: Any) -> Iterator[Any]:
    if typing.is_typeddict(stated):
        yield stated
    for part in get_args(stated) if get_origin(stated) is not Literal else ():
        yield from _parts(part)


def written() -> Mapping[Path, str]:
    """The files that are made of the types, and what is in them."""
    return {SCHEMA: json.dumps(schema(), indent=1) + "\n", PAGE: page(), DIFF: diff_page()}


if __name__ == "__main__":
    for path, text in written().items():
        path.write_text(text, "utf-8")
