"""Whether a document fits a schema, without the reason: jsonschema, which gives it, takes fifty times as long.

The keywords are those of the shipped schemas, and documents are of texts, lists and mappings, as strict YAML gives
them. A schema with another keyword, or a document with anything else in it, is left to jsonschema.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Check = Callable[[Any], bool]
Schema = Mapping[str, Any]

ANNOTATIONS = frozenset(("$schema", "$id", "$defs", "title", "description"))
"""Keywords that ask for nothing."""
KINDS: Mapping[str, type] = {"object": dict, "array": list, "string": str}
OTHER_KINDS = frozenset(("number", "integer", "boolean", "null"))
"""Types that a text, a list or a mapping is never of."""
_CAPITAL = re.compile("[A-Z]")


def _lower(found: re.Match[str]) -> str:
    return f"_{found[0].lower()}"


class UnsupportedError(Exception):
    """A keyword or a value that is left to jsonschema."""


def accepts(schema: Path, document: Any) -> bool:
    """Whether a document certainly fits the schema in a file; False where it does not, or is left to jsonschema."""
    try:
        return _compiled(schema)(document)
    except UnsupportedError:
        return False


@functools.cache
def _compiled(schema: Path) -> Check:
    return check_of(json.loads(schema.read_text("utf-8")))


def check_of(schema: Schema) -> Check:
    """A schema as a function of documents; `UnsupportedError` where it, or a document, has what is not known here."""
    return _Compiler(schema).check(schema)


class _Compiler:
    """One schema on its way to functions; a definition is compiled once, when it is first referred to."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self._known: dict[str, Check] = {}

    def check(self, schema: Schema) -> Check:
        checks = [*self.checks(schema)]

        def fits(x: Any) -> bool:
            if not isinstance(x, (str, dict, list)):
                raise UnsupportedError
            return all(check(x) for check in checks)

        return fits

    def checks(self, schema: Schema) -> Iterator[Check]:
        for keyword, asked in schema.items():
            if keyword in ANNOTATIONS or keyword in ("properties", "additionalProperties"):
                continue
            make = getattr(self, f"do_{_CAPITAL.sub(_lower, keyword.lstrip('$'))}", None)
            if make is None:
                raise UnsupportedError
            yield make(asked)
        if "properties" in schema or "additionalProperties" in schema:
            yield self.entries(schema.get("properties", {}), schema.get("additionalProperties", {}))

    # Keywords; each speaks of values of its own kind, and accepts any other

    def do_ref(self, asked: str) -> Check:
        start, _, name = asked.rpartition("/")
        if start != "#/$defs":
            raise UnsupportedError

        def referred(x: Any) -> bool:
            if name not in self._known:
                self._known[name] = self.check(self.root["$defs"][name])
            return self._known[name](x)

        return referred

    def do_type(self, asked: str | list[str]) -> Check:
        names = [asked] if isinstance(asked, str) else asked
        if not set(names) <= KINDS.keys() | OTHER_KINDS:
            raise UnsupportedError
        kinds = tuple(KINDS[name] for name in names if name in KINDS)
        return lambda x: isinstance(x, kinds)

    def do_pattern(self, asked: str) -> Check:
        found = re.compile(asked).search
        return lambda x: not isinstance(x, str) or found(x) is not None

    def do_min_length(self, asked: int) -> Check:
        return lambda x: not isinstance(x, str) or len(x) >= asked

    def do_max_length(self, asked: int) -> Check:
        return lambda x: not isinstance(x, str) or len(x) <= asked

    def do_enum(self, asked: list[Any]) -> Check:
        return lambda x: x in asked

    def do_const(self, asked: Any) -> Check:
        return lambda x: x == asked

    def do_min_items(self, asked: int) -> Check:
        return lambda x: not isinstance(x, list) or len(x) >= asked

    def do_max_items(self, asked: int) -> Check:
        return lambda x: not isinstance(x, list) or len(x) <= asked

    def do_unique_items(self, asked: bool) -> Check:
        return lambda x: not asked or not isinstance(x, list) or len(set(map(repr, x))) == len(x)

    def do_items(self, asked: Schema) -> Check:
        check = self.check(asked)
        return lambda x: not isinstance(x, list) or all(map(check, x))

    def do_required(self, asked: list[str]) -> Check:
        return lambda x: not isinstance(x, dict) or all(name in x for name in asked)

    def do_min_properties(self, asked: int) -> Check:
        return lambda x: not isinstance(x, dict) or len(x) >= asked

    def do_max_properties(self, asked: int) -> Check:
        return lambda x: not isinstance(x, dict) or len(x) <= asked

    def do_property_names(self, asked: Schema) -> Check:
        check = self.check(asked)
        return lambda x: not isinstance(x, dict) or all(map(check, x))

    def do_one_of(self, asked: list[Schema]) -> Check:
        checks = [self.check(each) for each in asked]
        return lambda x: sum(check(x) for check in checks) == 1

    def entries(self, properties: Mapping[str, Schema], further: Schema | bool) -> Check:
        """What mappings hold: under the keys that are named, and under any other one."""
        known = {name: self.check(asked) for name, asked in properties.items()}
        other = (lambda x: further) if isinstance(further, bool) else self.check(further)
        return lambda x: not isinstance(x, dict) or all(known.get(name, other)(value) for name, value in x.items())
