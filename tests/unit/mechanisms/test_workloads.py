"""Files of workloads: read with care, written as they are read."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from attnspec.errors import UsageError
from attnspec.mechanisms.loader import NONE
from attnspec.mechanisms.schema import spec_folder
from attnspec.mechanisms.workloads import Left, Use, gathered, read, write

KNOWN = NONE.library()
HEAD = {"kind": "workload", "version": 1}
SOFTMAX = {"kind": "use", "operator": "softmax", "dtype": "float32", "sizes": {"rows": 34, "n": 64}, "count": 20}
FULL = Use(
    "attention",
    "bfloat16",
    {"batch": 1, "heads": 8, "kv_heads": 2, "q_len": 1, "k_len": 97, "head_dim": 64, "value_dim": 64},
    {"scale": 0.125},
    {"mask": (1, 1, 1, 97)},
    {"q": (512, 64, 512, 1)},
    {},
    7,
    "scaled_dot_product_attention",
    "cuda:0",
    True,
)


def file(tmp_path, *lines):
    path = tmp_path / "w.ndjson"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def test_what_was_written_is_read(tmp_path):
    found = gathered([FULL, Left("torch_softmax", "dim is 1", 4)], "python serve.py", "signal 9")
    write(tmp_path / "w.ndjson", found)
    assert found == read(tmp_path / "w.ndjson", KNOWN)


def test_every_line_that_is_written_fits_the_schema():
    schema = json.loads((spec_folder() / "workload.schema.json").read_text())
    check = Draft202012Validator(schema)
    found = gathered([FULL, Left("torch_softmax", "dim is 1", 4)], "python serve.py", "exit 0")
    assert [] == [error.message for line in found.lines for error in check.iter_errors(line)]
    known = {name for kind in schema["oneOf"] for name in kind["properties"]}
    assert known == {name for line in [*found.lines, {**FULL.line, "most": {}}] for name in line}


def test_the_same_calls_are_counted_together_the_most_frequent_first(tmp_path):
    other = {**SOFTMAX, "sizes": {"rows": 1, "n": 2}, "count": 30}
    found = read(file(tmp_path, HEAD, SOFTMAX, other, SOFTMAX), KNOWN)
    assert [(34, 40), (1, 30)] == [(use.sizes["rows"], use.count) for use in found.uses]
    assert 70 == found.calls


def test_a_call_has_a_name_that_does_not_depend_on_how_often_it_was_made(tmp_path):
    found = read(file(tmp_path, HEAD, SOFTMAX), KNOWN)
    again = read(file(tmp_path, HEAD, {**SOFTMAX, "count": 2, "device": "cuda"}), KNOWN)
    assert found.uses[0].key == again.uses[0].key


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "it is empty; a workload begins with its version"),
        ([{"kind": "workload", "version": 2}], "1: version is 2; this attnspec reads 1"),
        ([SOFTMAX], "1: the key 'version' is missing"),
        ([HEAD, "{"], "2:2: not JSON: expecting property name enclosed in double quotes"),
        ([HEAD, {**SOFTMAX, "operator": "sofmax"}], "2: unknown operator 'sofmax'; did you mean 'softmax'?"),
        ([HEAD, {**SOFTMAX, "options": {"scale": 1}}], "2: options has 'scale', which softmax has not"),
        ([HEAD, {**SOFTMAX, "sizes": {"rows": 3}}], "2: sizes has no 'n', which softmax needs"),
        ([HEAD, {**SOFTMAX, "sizes": {"rows": 3, "n": -1}}], "2: sizes.n is -1; expected an integer from 0 on"),
        (
            [HEAD, {**SOFTMAX, "sizes": {"rows": 3, "n": 10**8}}],
            "2: sizes.n is 100,000,000; expected at most 10,000,000",
        ),
        ([HEAD, {**SOFTMAX, "dtype": "float31"}], '2: dtype is "float31"; expected one of'),
    ],
)
def test_a_fault_is_told_with_file_and_line(tmp_path, lines, says):
    path = file(tmp_path, *lines)
    with pytest.raises(UsageError) as told:
        read(path, KNOWN)
    assert str(told.value).startswith(f"{path}:")
    assert says in str(told.value)
