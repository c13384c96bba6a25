"""Specification files: their texts, and the requested parts of their contents."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..data.files import read_text
from ..data.store import digest
from ..data.texts import safe
from ..errors import Place, SpecError, SpecErrors
from ..language.scopes import Takes
from ..numerics.budget import FILE_BYTES
from .documents import parse
from .schema import Document, place_of, schema_errors

ENDING = ".yaml"
"""Of the names of specification files."""
_NAMED = re.compile(r"""^[{ ]*["']?mechanism["']?[ ]*:""", re.MULTILINE)
_PLAIN = re.compile(r"(?:#.*\n|\n)*mechanism: ")
"""How a file begins whose keys stand at the beginning of lines."""
_OPERATOR = re.compile(r"^[^\w\n]*operator\b.*", re.MULTILINE)
_NAME = re.compile(r"operator: ([a-z][a-z0-9_]*) *(?:#.*)?")
_TITLE = re.compile(r"^title: ([A-Za-z][^:#\n]*[^:#\s])$(?!\n+ )", re.MULTILINE)
_PART = r"^{}:\n((?:(?:[ #].*)?\n)*)"
"""The lines of a part of a document, below its name."""
_ENTRY = re.compile(r"^  [a-z][a-z0-9_]*:", re.MULTILINE)


class SpecFile:
    """A file that is called like a mechanism. What is wrong with it is told when it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path, self.name, self.shown = path, path.stem, shown(path)

    @functools.cached_property
    def text(self) -> str:
        if {ENDING} != {self.path.suffix, Path(os.path.realpath(self.path)).suffix}:
            raise SpecError(f"cannot read {self.shown}: the name of a specification ends in {ENDING}")
        return read_text(self.path, FILE_BYTES, self.shown)

    @functools.cached_property
    def digest(self) -> str:
        return digest(self.text)

    @functools.cached_property
    def document(self) -> Document:
        """What the file holds. Of one that is not a specification nothing is quoted: it may be a link to any other."""
        try:
            document = parse(self.text, self.shown)
        except SpecError:
            if _NAMED.search(self.text):
                raise
            document = {}
        if "mechanism" not in document:
            told = "not a specification: no line starts with `mechanism: `; its contents are not shown"
            raise SpecError(told, Place(self.shown, 1, 1))
        return document

    def get(self, key: str, default: Any = None) -> Any:
        """What the document has under a key."""
        return self.document.get(key, default)  # type: ignore[call-overload]

    def check(self) -> None:
        """Raise `SpecErrors` for what the schema has against the document, or its name."""
        faults = list(schema_errors(self.document))
        name = self.get("mechanism")
        if not faults and name != self.name:
            told = f"the file of mechanism {str(name)!r} is called {self.path.name!r}"
            faults = [SpecError(told, place_of(name))]
        if faults:
            raise SpecErrors(faults)

    @functools.cached_property
    def operator(self) -> str:
        """The operator of the mechanism, which is read from a line alone where the lines are plain enough."""
        lines = [line for line in _OPERATOR.findall(self.text) if not line.startswith((" ", "#"))]
        named = [found[1] for line in lines if (found := _NAME.fullmatch(line))]
        if _PLAIN.match(self.text) and len(named) == len(lines) <= 1:
            return named[0] if named else self.name
        return str(self.get("operator", self.name))

    @functools.cached_property
    def title(self) -> str:
        """The title of the mechanism, of a line alone where the lines are plain enough."""
        found = _TITLE.findall(self.text)
        return found[0] if _PLAIN.match(self.text) and len(found) == 1 else str(self.get("title", self.name))

    def count(self, part: str) -> int:
        """The number of laws, mistakes or other entries by name, of lines alone where they are plain enough."""
        found = re.findall(_PART.format(part), self.text, re.MULTILINE)
        if _PLAIN.match(self.text) and len(found) == 1:
            return len(_ENTRY.findall(found[0]))
        return len(self.get(part, ()))

    @functools.cached_property
    def takes(self) -> Takes:
        """What can be passed to the operator that the file states."""
        parts = [
            found if isinstance(found := self.get(key), Mapping) else {} for key in ("inputs", "options", "conventions")
        ]
        required = tuple(str(n) for n, text in parts[0].items() if not str(text).startswith("maybe("))
        return Takes(required, frozenset(str(n) for part in parts for n in part))


def shown(path: Path) -> str:
    """A path as people would write it from where they are; a link by its own name."""
    try:
        return safe(str(Path(os.path.abspath(path)).relative_to(Path.cwd())))
    except ValueError:
        return safe(str(path))
