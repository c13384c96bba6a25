"""The index is the same as JSON, which its schema describes, and as lines of text."""

import functools
import json

import jsonschema
import pytest

from attnspec.errors import UsageError
from attnspec.mechanisms.loader import library
from attnspec.vectors.index import _plain, as_json, as_text, schema
from attnspec.vectors.sets import Asked, files

ASKED = Asked(("softmax", "einsum"), ("bfloat16",))


@functools.cache
def written():
    return {name: data for name, data, _ in files(ASKED, library())}


def index():
    return json.loads(written()["index.json"])


def lines(kind):
    return [line.partition(" ")[2] for line in written()["index.txt"].decode().splitlines() if line.startswith(kind)]


def test_the_schema_describes_the_index_and_lies_beside_it():
    assert schema().encode() == written()["index.schema.json"]
    jsonschema.validate(index(), json.loads(schema()))


def test_the_schema_refuses_a_key_that_is_not_stated():
    with pytest.raises(jsonschema.ValidationError, match="'more' was unexpected"):
        jsonschema.validate({**index(), "more": 1}, json.loads(schema()))


def test_both_forms_are_of_the_same_index():
    assert written()["index.json"].decode() == as_json(index())
    assert written()["index.txt"].decode() == as_text(index())


def test_the_lines_have_the_vectors_of_the_index():
    found = index()["vectors"]
    assert [f"{x['name']} definition {x['case']}" for x in found] == lines("vector ")
    assert [name for x in found for name in x["outputs"]] == lines("output ")
    calls = [*found, *(call for relation in index()["relations"] for call in relation["calls"])]
    options = [f"{name} {json.dumps(value)}" for x in calls for name, value in x["options"].items()]
    assert sorted(options) == sorted(lines("option "))
    assert any(option.startswith('equation "') for option in options)


def test_the_lines_have_the_calls_and_the_sides_of_the_relations():
    found = index()["relations"]
    assert found
    assert [f"{x['name']} {x['law']} {x['case']}" for x in found] == lines("relation ")
    assert sum(len(x["calls"]) for x in found) == len(lines("call"))
    passed = [f"{name} {x['tensor']}" for r in found for call in r["calls"] for name, x in call["inputs"].items()]
    assert passed == lines("pass ")
    assert sum(len(x[side]["terms"]) for x in found for side in ("left", "right")) == len(lines("term "))
    assert [x["bound"] for x in found if x["bound"]] == lines("bound ")
    assert f"{found[0]['kind']} {','.join(map(str, found[0]['shape']))}" == lines("compare ")[0]


def test_a_law_in_the_index_says_what_it_is_and_what_refutes_it():
    found = {x["law"]: x for x in index()["relations"] if x["mechanism"] == "softmax"}
    assert {x["says"] for x in found.values()} <= {law.says for law in library()["softmax"].laws.values()}
    refuted = {name for x in found.values() for name in x["refutes"]}
    assert "softmax.unnormalised" in refuted
    assert {("relation",)} == {tuple(shown) for x in found.values() for shown in x["refutes"].values()}


def test_a_mistake_is_one_word_and_a_sentence():
    assert "softmax.base_two Powers of two take the place of exponentials." in lines("mistake ")
    assert "empty_row=nans A row of minus infinities gives NaN." in lines("convention ")


def test_an_error_that_is_no_number_is_null_and_inf():
    shown = [x for vector in index()["vectors"] for x in vector["refutes"].values()]
    assert None in [excess for outputs in shown for excess in outputs.values()]
    assert any(line.endswith(" inf") for line in lines("refutes "))


def test_the_text_begins_with_its_format():
    assert "attnspec-vectors 2" == written()["index.txt"].decode().splitlines()[0]


@pytest.mark.parametrize("x", [True, 3, 0.5, "ij->ji", None])
def test_plain_options_stay_what_they_are(x):
    assert x is _plain(x)


def test_a_list_is_one_and_anything_else_is_told():
    assert [1, 2] == _plain((1, 2))
    with pytest.raises(UsageError, match="a vector has no option that is object"):
        _plain(object())
