"""A document is accepted where jsonschema accepts it, and only there."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from attnspec.mechanisms.accepting import UnsupportedError, accepts, check_of
from attnspec.mechanisms.documents import read
from attnspec.mechanisms.loader import files_of
from attnspec.mechanisms.schema import spec_folder

SCHEMA = spec_folder() / "schema.json"
SIGNATURES = spec_folder() / "signatures"


@pytest.mark.parametrize("path", files_of(spec_folder()), ids=lambda path: path.stem)
def test_the_shipped_specifications_are_accepted(path: Path) -> None:
    assert accepts(SCHEMA, read(path))


@pytest.mark.parametrize("path", files_of(SIGNATURES), ids=lambda path: path.stem)
def test_the_shipped_interfaces_are_accepted(path: Path) -> None:
    assert accepts(SIGNATURES / "schema.json", read(path))


def test_documents_with_one_change_are_judged_as_by_jsonschema() -> None:
    document = read(spec_folder() / "alibi_slopes.yaml")
    schema = json.loads(SCHEMA.read_text())
    validator, check = Draft202012Validator(schema), check_of(schema)
    verdicts = {True: 0, False: 0}
    for other in changes(document):
        expected = validator.is_valid(other)
        assert expected == check(other)
        verdicts[expected] += 1
    assert min(verdicts.values()) > 5


NEW = ("", "text", "A sentence.", "1", "x" * 700, [], ["a", "a"], {}, {"a": "b"}, {"A b": "c"}, None)
"""What takes the place of a value; None where it is left out."""


def changes(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A document with one value exchanged or left out: every 37th of what there is to change."""
    for path, new in itertools.islice(itertools.product(paths(document), NEW), 0, None, 37):
        yield changed(document, path, new)


def paths(x: Any) -> Iterator[tuple[Any, ...]]:
    """The places of a document: of long mappings the first entries, as the others are alike."""
    entries = list(x.items())[: 3 if len(x) < 8 else 99] if isinstance(x, dict) else list(enumerate(x))[:2]
    for key, value in entries if isinstance(x, dict | list) else ():
        yield (key,)
        if isinstance(value, dict | list):
            yield from ((key, *further) for further in paths(value))


def changed(document: dict[str, Any], path: tuple[Any, ...], new: Any) -> dict[str, Any]:
    found = copy.deepcopy(document)
    inner: Any = found
    for key in path[:-1]:
        inner = inner[key]
    if new is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = new
    return found


@pytest.mark.parametrize(
    ("schema", "fits", "misfits"),
    [
        ({"type": ["object", "string"]}, ["a", {}], [["a"]]),
        ({"type": "number"}, [], ["1", {}]),
        ({"pattern": "^a"}, ["ab", {}, ["b"]], ["b"]),
        ({"minLength": 1, "maxLength": 2}, ["a", "ab", []], ["", "abc"]),
        ({"enum": ["a", "b"]}, ["a"], ["c", []]),
        ({"const": "a"}, ["a"], ["b", {}]),
        ({"minItems": 1, "maxItems": 2, "uniqueItems": True}, [["a"], ["a", "b"], "a"], [[], ["a", "a"]]),
        ({"items": {"type": "string"}}, [["a"], [], {}], [[[]]]),
        ({"required": ["a"]}, [{"a": "b"}, "c"], [{"b": "a"}]),
        ({"minProperties": 1, "maxProperties": 1}, [{"a": "b"}], [{}, {"a": "b", "c": "d"}]),
        ({"propertyNames": {"maxLength": 1}}, [{"a": "b"}], [{"ab": "c"}]),
        ({"properties": {"a": {"const": "b"}}}, [{"a": "b"}, {"c": "d"}], [{"a": "c"}]),
        ({"properties": {"a": {}}, "additionalProperties": False}, [{"a": "b"}, {}], [{"c": "d"}]),
        ({"additionalProperties": {"const": "a"}}, [{"x": "a"}], [{"x": "b"}]),
        ({"oneOf": [{"type": "string"}, {"maxLength": 2}]}, ["abc", []], ["ab"]),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}, "type": "array"}}}, [[[]]], [["a"]]),
    ],
    ids=lambda x: next(iter(x)) if isinstance(x, dict) else "",
)
def test_a_keyword_means_what_it_means_to_jsonschema(
    schema: dict[str, Any], fits: list[Any], misfits: list[Any]
) -> None:
    check, validator = check_of(schema), Draft202012Validator(schema)
    documents = [*fits, *misfits]
    assert [*[True] * len(fits), *[False] * len(misfits)] == [check(x) for x in documents]
    assert [validator.is_valid(x) for x in documents] == [check(x) for x in documents]


@pytest.mark.parametrize(
    "schema", [{"if": {}}, {"type": "shape"}, {"$ref": "other.json"}, {"patternProperties": {}}], ids=repr
)
def test_a_schema_with_anything_else_is_left_to_jsonschema(schema: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError):
        check_of(schema)
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    assert not accepts(tmp_path / "schema.json", {})


@pytest.mark.parametrize("document", [{"a": 1}, {"a": None}, 1.5, [True]], ids=repr)
def test_a_document_with_anything_else_is_left_to_jsonschema(document: Any, tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text(json.dumps({"items": {}, "additionalProperties": {"type": "number"}}))
    assert not accepts(tmp_path / "schema.json", document)
