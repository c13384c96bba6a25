"""From files to mechanisms: what builds on what, which files are read, and what messages call them."""

import os
from pathlib import Path

import pytest

from attnspec.errors import Exit, SpecErrors, UsageError
from attnspec.mechanisms.loader import library, load, mechanism_named
from attnspec.mechanisms.schema import spec_folder

PLAIN = """\
mechanism: {name}
title: A mechanism
version: 1
sources: [Someone 2020]
summary: What it is.
"""
DOUBLE = PLAIN.format(name="double") + "sizes: {n: 3}\ninputs: {x: normal(n)}\ndefinition: {y: 2 * x}\noutputs: [y]\n"
FURTHER = PLAIN.format(name="further") + "operator: double\nscenarios: {one: n = 1}\n"


def written(folder=".", **texts):
    Path(folder).mkdir(exist_ok=True)
    paths = [Path(folder, f"{name}.yaml") for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text, "utf-8")
    return paths


def faults(paths, beside=None):
    with pytest.raises(SpecErrors) as caught:
        load(paths, beside)
    return str(caught.value).splitlines()


def test_the_library_holds_every_shipped_file():
    assert sorted(path.stem for path in spec_folder().glob("*.yaml")) == sorted(library())
    assert all(name == mechanism.name for name, mechanism in library().items())


def test_the_library_is_loaded_once():
    assert library() is library()


def test_a_mechanism_is_found_by_name():
    assert "Softmax" == mechanism_named("softmax").title


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("softmaxx", "unknown mechanism 'softmaxx'; did you mean 'softmax'?"),
        ("qqq", "unknown mechanism 'qqq'"),
    ],
)
def test_an_unknown_mechanism_is_bad_usage(name, message):
    with pytest.raises(UsageError) as caught:
        mechanism_named(name)
    assert (message, Exit.USAGE) == (str(caught.value), caught.value.exit)


@pytest.mark.parametrize("order", [("double", "further"), ("further", "double")])
def test_files_build_on_one_another_in_any_order(order):
    texts = {"double": DOUBLE, "further": FURTHER}
    loaded = load(written(**{name: texts[name] for name in order}))
    assert ("double", ("x",), ("y",)) == (
        loaded["further"].operator,
        loaded["further"].required,
        loaded["further"].outputs,
    )
    assert loaded["double"].definition["y"] is loaded["further"].definition["y"]
    assert {} == loaded["double"].scenarios
    assert ["one"] == list(loaded["further"].scenarios)


def test_a_file_may_build_on_what_stands_beside_it():
    beside = load(written(double=DOUBLE))
    assert {"double", "further"} == set(load(written(further=FURTHER), beside))
    assert {"double"} == set(beside)


def test_a_definition_may_call_an_operator_of_another_file():
    text = PLAIN.format(name="four") + "inputs: {x: normal(2)}\ndefinition: {z: double(double(x))}\noutputs: [z]\n"
    four = load(written(four=text, double=DOUBLE))["four"]
    assert frozenset({"double"}) == four.definition["z"].calls


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("double(2, 3)", "definition.z: double takes 1 inputs by position"),
        ("double(y = 3)", "definition.z: double has no input or option 'y'"),
        ("duble(3)", "definition.z: unknown function 'duble'; did you mean 'double'?"),
        ("further(3)", "definition.z: unknown function 'further'; did you mean 'gather'?"),
    ],
)
def test_a_call_of_an_operator_is_checked(call, message):
    text = PLAIN.format(name="four") + f"definition:\n  z: {call}\noutputs: [z]\n"
    found = faults(written(four=text, double=DOUBLE, further=FURTHER))
    assert message == found[0].partition(": ")[2]


def test_a_file_is_called_like_its_mechanism():
    expected = "other.yaml:1:12: the file of mechanism 'double' is called 'other.yaml'"
    assert [expected] == faults(written(other=DOUBLE))


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        ("doubel", "unknown operator 'doubel'; did you mean 'double'?"),
        ("qqq", "unknown operator 'qqq'"),
        ("last", "'last' is not an operator: it is a mechanism of 'double'"),
    ],
)
def test_an_operator_that_is_none_is_refused(operator, message):
    last = FURTHER.replace("further", "last")
    paths = written(double=DOUBLE, last=last, further=FURTHER.replace("operator: double", f"operator: {operator}"))
    assert [f"further.yaml:6:11: {message}"] == faults(paths)


def test_operators_of_one_another_are_refused():
    texts = {name: PLAIN.format(name=name) + f"operator: {other}\n" for name, other in (("one", "two"), ("two", "one"))}
    expected = [
        "one.yaml:6:11: 'two' is not an operator: it is a mechanism of 'one'",
        "two.yaml:6:11: 'one' is not an operator: it is a mechanism of 'two'",
    ]
    assert expected == faults(written(**texts))


def test_two_files_of_one_name_are_refused():
    paths = [*written(double=DOUBLE), *written("deep", double=DOUBLE)]
    assert ["deep/double.yaml:1:12: double.yaml has the same name"] == faults(paths)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (DOUBLE.replace("title", "titel"), "double.yaml:1:1: the key 'title' is missing"),
        (
            f"\t\n{DOUBLE}",
            "double.yaml:1:1: not YAML: found character '\\t' that cannot start any token (indent with spaces)",
        ),
        (DOUBLE.replace("2 * x", "2 * z"), "double.yaml:8:21: definition.y: unknown name 'z'"),
        (DOUBLE.replace("double\n", "duble\n"), "the file of mechanism 'duble' is called 'double.yaml'"),
    ],
)
def test_a_faulty_operator_is_named_once_and_what_builds_on_it_is_not_blamed(text, message):
    found = faults(written(double=text, further=FURTHER, last=FURTHER.replace("further", "last")))
    assert found[0].endswith(message)
    assert ["double.yaml"] == sorted({line.partition(":")[0] for line in found if not line.startswith(" ")})
    assert len(found) == len(set(found))


def test_the_faults_of_all_files_are_named_together():
    last = FURTHER.replace("further", "last").replace("n = 1", "m = 1")
    paths = written(double=DOUBLE, last=last, further=FURTHER.replace("n = 1", "k = 1"))
    expected = [
        "further.yaml:7:22: scenarios.one: nothing is called 'k'",
        "last.yaml:7:22: scenarios.one: nothing is called 'm'",
    ]
    assert expected == faults(paths)


def test_a_missing_file_is_named():
    assert ["cannot read none.yaml: No such file or directory"] == faults([Path("none.yaml")])


def test_a_pipe_among_the_files_is_named():
    (path,) = written(double=DOUBLE)
    os.mkfifo("pipe.yaml")
    assert ["cannot read pipe.yaml: not a file, but a pipe, a socket or a device"] == faults([path, Path("pipe.yaml")])


def test_a_file_is_called_as_one_would_write_it_from_here():
    (inner,) = written("specs", double=DOUBLE)
    assert "specs/double.yaml" == load([inner.resolve()])["double"].path


def test_a_file_outside_the_folder_keeps_its_whole_path(tmp_path, monkeypatch):
    (path,) = written(double=DOUBLE)
    Path("inner").mkdir()
    monkeypatch.chdir("inner")
    assert str(tmp_path / "double.yaml") == load([tmp_path / path])["double"].path
