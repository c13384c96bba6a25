"""What `spec/schema.json` has against a document, in the words of its author and with the place of each fault."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from .documents import Text
from .errors import Place, SpecError, did_you_mean

Document = Mapping[Text, Any]


def spec_folder() -> Path:
    """The folder of the shipped specifications."""
    return Path(str(files("attnspec.spec")))


@functools.cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads((spec_folder() / "schema.json").read_text("utf-8")))


def schema_errors(document: Document) -> Iterable[SpecError]:
    """What the schema has against a document, in the words of its author."""
    for error in sorted(_validator().iter_errors(document), key=lambda e: list(map(str, e.absolute_path))):
        where = ".".join(map(str, error.absolute_path))
        inside = f"{where}: " if where else ""
        if error.validator == "additionalProperties":
            for key in sorted(set(error.instance) - set(error.schema["properties"])):
                hint = did_you_mean(key, error.schema["properties"])
                yield SpecError(f"{inside}unknown key {str(key)!r}{hint}", place_of(key))
        elif error.validator == "required":
            missing = next(k for k in error.validator_value if k not in error.instance)
            yield SpecError(f"{inside}the key {missing!r} is missing", _place_in(document, error.absolute_path))
        else:
            yield SpecError(f"{inside}{_explained(error)}", _place_in(document, error.absolute_path))


def _explained(error: Any) -> str:
    if error.validator == "pattern" and error.validator_value == "[.]$":
        return "a sentence ends with a full stop"
    if error.validator == "pattern":
        return f"{str(error.instance)!r} is not a name (small letters, digits and underscores)"
    if error.validator == "minLength":
        return "nothing is said"
    return error.message.replace("[Text", "[")


def place_of(text: Any) -> Place | None:
    return getattr(text, "place", None)


def _place_in(document: Any, path: Iterable[Any]) -> Place | None:
    """The place of a value, or of the nearest key above it."""
    place = next((place_of(key) for key in document), None) if isinstance(document, dict) else None
    for step in path:
        if isinstance(document, dict):
            place = next((place_of(key) for key in document if key == step), place)
        document = document[step]
        place = place_of(document) or place
    return place
