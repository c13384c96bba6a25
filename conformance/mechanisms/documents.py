"""YAML read strictly: every scalar is text that knows its place, and nothing is guessed.

YAML 1.1 reads `no` as a falsehood, `1e-6` as text and `010` as eight.
Here scalars are not interpreted at all; expressions are, by their own language.
Aliases, anchors, tags, repeated keys and further documents are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from yaml.reader import ReaderError

from ..data.files import read_text
from ..errors import Place, SpecError
from ..numerics.budget import ENTRIES, FILE_BYTES, NESTING, SCALAR, VALUES


class Text(str):
    """A scalar of a document, with its place."""

    __slots__ = ("place",)
    place: Place

    @classmethod
    def at(cls, text: str, place: Place) -> Text:
        made = cls(text)
        made.place = place
        return made


def read(path: Path, name: str | None = None) -> dict[Text, Any]:
    """The document in a file, as dicts, lists and `Text`; `name` is what messages call the file.

    A file that is no such document is a `SpecError` with its place.
    """
    name = name or str(path)
    return parse(read_text(path, FILE_BYTES, name), name)


def parse(text: str, name: str) -> dict[Text, Any]:
    """The document in a text: by libyaml where it is available, and with care where anything is out of the ordinary."""
    try:
        document = _built(yaml.parse(text, yaml.CSafeLoader), text, name)
    except (AttributeError, StopIteration, ValueError, RecursionError, yaml.YAMLError):
        document = None
    return _composed(text, name) if document is None else document


class _UnusualError(ValueError):
    """Something that is refused, or that libyaml and PyYAML tell in different words."""


class _Extent:
    """How much of a document was read so far; a `SpecError` where it is more than a document may have."""

    def __init__(self) -> None:
        self.values = 0

    def value(self, place: Place) -> None:
        """Count one key, value, list or mapping."""
        self.values += 1
        if self.values > VALUES:
            raise SpecError(f"more than {VALUES:,} keys and values, the limit for such a file", place)

    @staticmethod
    def text(value: str, place: Place) -> str:
        if len(value) > SCALAR:
            raise SpecError(f"a text of {len(value):,} characters is over the limit of {SCALAR:,}", place)
        return value

    @staticmethod
    def entries(count: int, place: Place) -> None:
        if count > ENTRIES:
            raise SpecError(f"more than {ENTRIES:,} entries in one list or mapping", place)


def _scalar(item: Any, lines: list[str], place: Place) -> Text:
    """The text of a scalar, an event or a node, with the place of its first character."""
    text = _Extent.text(item.value, place)
    if item.style in ("'", '"'):
        return Text.at(text, place.right(1))
    first, last = item.start_mark, item.end_mark
    if item.style in ("|", ">") or first.line == last.line:
        return Text.at(text, place)
    folds, at = [], len(lines[first.line][first.column :].rstrip())
    for number in range(first.line + 1, last.line + 1):
        line = lines[number] if number < len(lines) else ""
        if line.strip():
            folds.append((at + 1, number + 1, len(line) - len(line.lstrip()) + 1))
            at += 1 + len(line.strip())
    return Text.at(text, replace(place, folds=tuple(folds)))


def _built(events: Iterator[Any], text: str, name: str) -> dict[Text, Any]:
    """The document of a stream of events; `_UnusualError` for all that may be at fault."""
    extent, lines = _Extent(), text.splitlines()

    def built(event: Any, depth: int = 0) -> Any:
        if isinstance(event, yaml.AliasEvent) or event.anchor or event.tag or depth > NESTING:
            raise _UnusualError
        place = Place(name, event.start_mark.line + 1, event.start_mark.column + 1)
        extent.value(place)
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event, lines, place)
        if isinstance(event, yaml.SequenceStartEvent):
            items = []
            while not isinstance(event := next(events), yaml.SequenceEndEvent):
                extent.entries(len(items) + 1, place)
                items.append(built(event, depth + 1))
            return items
        mapping: dict[Text, Any] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            extent.entries(len(mapping) + 1, place)
            key = built(event, depth + 1)
            if not isinstance(key, Text) or key in mapping:
                raise _UnusualError
            mapping[key] = built(next(events), depth + 1)
        return mapping

    for _ in ("stream", "document"):
        next(events)
    document = built(next(events))
    closing = [type(event) for event in events]
    if closing != [yaml.DocumentEndEvent, yaml.StreamEndEvent] or not isinstance(document, dict):
        raise _UnusualError
    return document


def _composed(text: str, name: str) -> dict[Text, Any]:
    """The document in a text, or what is wrong with it and where."""
    try:
        loader = _Composer(text)
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        place = Place(name, line, error.position - text.rfind("\n", 0, error.position))
        raise SpecError(f"not YAML: {chr(error.character)!r} is not a character of a text", place) from None
    try:
        loader.file = name
        root = loader.get_single_node()
        if not isinstance(root, yaml.MappingNode):
            raise SpecError("a specification is a mapping: `mechanism: name`, and so on", Place(name, 1, 1))
        return _plain(root, text.splitlines(), name)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(name, mark.line + 1, mark.column + 1) if mark else None
        raise SpecError(f"not YAML: {_problem(error)}", place) from None
    except ValueError:
        place = Place(name, loader.line + 1, loader.column + 1)
        raise SpecError("not YAML: an escape that represents no character", place) from None
    finally:
        loader.dispose()


class _Composer(yaml.SafeLoader):
    """PyYAML up to its tree of nodes, without aliases."""

    file = ""
    depth = -1

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.extent = _Extent()

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        place = Place(self.file, event.start_mark.line + 1, event.start_mark.column + 1)
        if self.check_event(yaml.AliasEvent):
            raise SpecError("YAML reads a value that starts with '*' as an alias; quote it", place)
        if getattr(event, "anchor", None):
            raise SpecError("YAML reads a value that starts with '&' as an anchor; quote it", place)
        if getattr(event, "tag", None):
            raise SpecError("YAML reads a value that starts with '!' as a tag; quote it", place)
        if self.depth >= NESTING:
            raise SpecError("nested too deeply", place)
        self.extent.value(place)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _problem(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or error.context or ""
    if problem.startswith("but "):
        return f"{error.context}, {problem}"
    if "mapping values are not allowed" in problem:
        return f"{problem} (quote a text that holds a colon followed by a space)"
    if "cannot start any token" in problem:
        return f"{problem} ({'indent with spaces' if repr(chr(9)) in problem else 'quote it'})"
    return problem


def _plain(node: yaml.Node, lines: list[str], name: str) -> Any:
    place = Place(name, node.start_mark.line + 1, node.start_mark.column + 1)
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, lines, place)
    _Extent.entries(len(node.value), place)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, lines, name) for item in node.value]
    result: dict[Text, Any] = {}
    for key_node, value_node in node.value:
        key = _plain(key_node, lines, name)
        if not isinstance(key, Text):
            raise SpecError("a key is a word", place)
        if key in result:
            raise SpecError(f"{str(key)!r} is given twice", key.place)
        result[key] = _plain(value_node, lines, name)
    return result
