"""Why a document does not fit its schema, in the author's words and with the place of each fault."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import Place, SpecError, did_you_mean, first_of
from ..numerics.budget import COUNTED, FAULTS
from .accepting import accepts
from .documents import Text, read

Document = Mapping[Text, Any]


def spec_folder() -> Path:
    """The folder of the shipped specifications."""
    return Path(str(files("attnspec.spec")))


@functools.cache
def _validator(schema: Path) -> Any:
    from jsonschema import Draft202012Validator, validators

    linear = validators.extend(Draft202012Validator, {"uniqueItems": _repeated})
    return linear(json.loads(schema.read_text("utf-8")))


def _repeated(validator: Any, unique: bool, instance: Any, schema: Any) -> Iterator[Any]:
    """`uniqueItems` in linear time: two items that are written alike are the same, as all of them are text."""
    from jsonschema import ValidationError

    if unique and isinstance(instance, list) and len(set(map(repr, instance))) < len(instance):
        yield ValidationError("something is given twice")


def faults_beside(
    kind: str, folder: Path | None, contradictions: Callable[[Document, str], Iterable[SpecError]]
) -> Iterator[SpecError]:
    """What is wrong with the files of one kind beside the specifications, the shipped ones or those of a folder.

    What does not go together in a document, which has the stem of its file, is asked where it fits its schema.
    """
    schema = spec_folder() / kind / "schema.json"
    for path in sorted((folder or schema.parent).glob("*.yaml")):
        try:
            document = read(path)
            found = [*schema_errors(document, schema)]
            yield from found or contradictions(document, path.stem)
        except SpecError as error:
            yield error


def schema_errors(document: Document, schema: Path | None = None) -> Iterable[SpecError]:
    """What a schema has against a document; that of specifications, unless there is another.

    Where there are too many faults, the first are told and some more are counted.
    """
    schema = schema or spec_folder() / "schema.json"
    if accepts(schema, document):
        return ()
    validator = _validator(schema)
    found = sorted(islice(validator.iter_errors(document), COUNTED), key=lambda e: list(map(str, e.absolute_path)))
    return first_of((fault for error in found for fault in _worded(error, document)), FAULTS, COUNTED)


def _worded(error: Any, document: Document) -> Iterator[SpecError]:
    where = ".".join(map(str, error.absolute_path))
    inside = f"{where}: " if where else ""
    place = place_of(error.instance) or _place_in(document, error.absolute_path)
    if error.validator == "additionalProperties":
        for key in sorted(set(error.instance) - set(error.schema["properties"])):
            hint = did_you_mean(key, error.schema["properties"])
            yield SpecError(f"{inside}unknown key {str(key)!r}{hint}", place_of(key))
    elif error.validator == "required":
        yield SpecError(f"{inside}the key {error.message.split()[0]} is missing", place)
    elif error.validator == "oneOf" and isinstance(error.instance, dict):
        for inner in error.context:
            if inner.schema_path[0] == 0:
                yield from _worded(inner, document)
    elif error.instance or error.validator_value != "[.]$":
        yield SpecError(f"{inside}{_explained(error)}", place)


LONGEST = 80
"""Characters of what was found that a message repeats."""
_KINDS = {
    "object": "a mapping of names",
    "array": "a list",
    "string": "a text",
    "integer": "an integer",
    "number": "a number",
}
_PATTERNS = {
    "[.]$": "a sentence ends with a full stop",
    "^[1-9][0-9]*$": "{} is not an integer from one on",
    "^[0-9]{1,6}$": "{} is not an integer",
    "^(?=[0-9.]*[1-9])([0-9]+|[0-9]*[.][0-9]+)(e[+-]?[0-9]{1,2})?$": "{} is not a number above zero",
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}$": "{} is not a day such as 2027-02-28",
    "^(0?[.][0-9]{1,6}|0|1([.]0{1,6})?)$": "{} is not a share from 0 to 1",
    "^1$": "{} is not 1, the version of such files",
    "^[a-z][a-z0-9_]*$": "{} is not a name (small letters, digits and underscores)",
    "^[a-z][a-z0-9]*(-[a-z0-9]+)*$": "{} is not a name (small letters, digits and hyphens)",
}
_PLACES = "{} is not a list of threads (owner/repository#12) and releases (package 1.2.3)"


def _explained(error: Any) -> str:
    found = repr(error.instance)
    if len(found) > LONGEST:
        found = f"{found[:LONGEST]}..."
    match error.validator:
        case "pattern":
            return _PATTERNS.get(error.validator_value, _PLACES).format(found)
        case "minLength" | "minItems":
            return "nothing is said"
        case "minProperties":
            return f"there are at least {error.validator_value} of these"
        case "maxProperties" | "maxItems":
            return f"there are more than {error.validator_value} of these"
        case "uniqueItems":
            return f"something is given twice in {found}"
        case "maxLength":
            return f"{found} is longer than {error.validator_value} characters"
        case "type":
            kind = error.validator_value
            return f"{found} is not {_KINDS[kind if isinstance(kind, str) else kind[0]]}"
        case "oneOf":
            return f"{found} is neither a mapping of names nor 'reference'"
    return error.message


def place_of(text: Any) -> Place | None:
    return getattr(text, "place", None)


def _place_in(document: Any, path: Iterable[Any]) -> Place | None:
    """The place of a value, or of the nearest key above it or first within it."""
    place = _first(document)
    for step in path:
        if isinstance(document, dict):
            place = next((place_of(key) for key in document if key == step), place)
            document = document[step]
        else:
            document = document[step]
            place = _first(document) or place
        place = place_of(document) or place
    return place


def _first(document: Any) -> Place | None:
    return next(map(place_of, document), None) if isinstance(document, dict) else None
