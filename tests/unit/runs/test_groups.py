"""What a run consists of, and what is read to find that out."""

import pytest

from attnspec.errors import UsageError
from attnspec.mechanisms import loader
from attnspec.mechanisms.library import Library
from attnspec.runs import groups as module
from attnspec.runs.groups import groups
from attnspec.runs.options import Options


@pytest.fixture
def read(monkeypatch):
    """The mechanisms that are read while there is none yet."""
    shipped = loader.library()
    fresh = Library(shipped.files, store=shipped.store)
    monkeypatch.setattr(module, "library_of", lambda options: fresh)
    return fresh._read


def laws_of(*laws, mechanisms=()):
    targets = ("mistake:softmax.unnormalised",)
    found = groups(Options(targets, dtypes=("float32",), laws=laws, mechanisms=mechanisms))
    return {group.mechanism.name: group.laws for group in found}


def test_only_mechanisms_of_the_operator_are_read(read):
    assert ["softmax"] == [*laws_of()]
    assert {"softmax"} == {*read}


def test_a_law_is_looked_for_where_it_may_be(read):
    assert {"softmax": ("definition",)} == laws_of("softmax.definition")
    assert {"softmax"} == {*read}
    assert {"softmax": ("shifted_rows",)} == laws_of("shifted_rows")
    assert {"softmax": ("contract.repeatable",)} == laws_of("contract.repeatable")
    assert {} == laws_of("rms_norm.definition")
    assert {} == laws_of("convex")
    assert 40 > len(read)


def test_a_law_that_is_not_found_is_looked_for_in_every_mechanism(read):
    with pytest.raises(UsageError, match=r"unknown law 'convxe'; did you mean 'convex'"):
        laws_of("convxe")
    assert {*loader.library()} == {*read}


def test_a_law_that_is_named_twice_is_run_once():
    assert {"softmax": ("definition",)} == laws_of("definition", "softmax.definition", mechanisms=("softmax",))


@pytest.mark.parametrize(("asked", "says"), [(("no_law",), "unknown law 'no_law'"), ((), "unknown mechanism 'sofmax'")])
def test_unknown_names_are_told(asked, says):
    with pytest.raises(UsageError, match=says):
        laws_of(*asked, mechanisms=() if asked else ("sofmax",))


def test_the_place_of_a_function_is_told_if_it_lies_in_the_folder_of_the_run(tmp_path, monkeypatch):
    path = tmp_path / "own.py"
    path.write_text("\nimport numpy as np\n\ndef softmax(x):\n    return x\n")
    monkeypatch.chdir(tmp_path)
    for target, place in (("own.py:softmax", "own.py:4"), ("mistake:softmax.unnormalised", None)):
        (found, *_) = groups(Options((target,), operator="softmax", dtypes=("float32",)))
        assert place == found.expected(["definition"], "cpu").get("place")


@pytest.mark.parametrize(("device", "named"), [("cpu", False), ("cuda:0", True)])
def test_the_header_names_the_device_and_what_compiles_its_kernels(device, named, monkeypatch):
    told = {}
    monkeypatch.setattr(
        module, "environment", lambda command, options, packages, files: told.update(options) or packages
    )
    monkeypatch.setattr(module, "model_of", lambda device: "" if device == "cpu" else "NVIDIA H200")
    packages = module.header_of(Options(("torch_softmax",), device=device), [], "attnspec check")
    assert (named, named) == ("triton" in packages, told.get("model") == "NVIDIA H200")
