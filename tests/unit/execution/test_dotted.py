"""Modules inside packages."""

import sys

import pytest
import torch

from attnspec.errors import TargetError
from attnspec.execution.beside import imported
from attnspec.execution.dotted import located, named
from attnspec.execution.sources import declared, load

ATTENTION = "def attention(q, k, v):\n    return scores(q, k).softmax(-1) @ v\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package `kernels_of_tests` in the current folder, with a module `fast.attention` below it."""
    home = tmp_path / "kernels_of_tests"
    (home / "fast").mkdir(parents=True)
    (home / "__init__.py").write_text("")
    (home / "fast" / "__init__.py").write_text("")
    (home / "shared.py").write_text("def scores(q, k):\n    return q @ k.transpose(-1, -2)\n")
    monkeypatch.chdir(tmp_path)
    yield home
    for name in [name for name in sys.modules if name.startswith("kernels_of_tests")]:
        del sys.modules[name]


@pytest.mark.parametrize("line", ["from ..shared import scores", "from kernels_of_tests.shared import scores"])
def test_a_file_may_import_from_its_package(package, line):
    file = package / "fast" / "attention.py"
    file.write_text(f"{line}\n{ATTENTION}")
    [found] = declared(file, "attention")
    assert "kernels_of_tests.fast.attention" == found.function.__module__
    assert package / "shared.py" in imported([file])


def test_a_file_beside_others_is_imported_by_itself(tmp_path):
    (tmp_path / "alone.py").write_text("x = 1\n")
    assert named(tmp_path / "alone.py") is None
    assert load(tmp_path / "alone.py").__name__.startswith("attnspec_target_alone_")


def test_a_package_that_cannot_be_imported_need_not_concern_a_file(package):
    (package / "__init__.py").write_text("raise ImportError('no device')\n")
    file = package / "fast" / "attention.py"
    file.write_text("def attention(q, k, v):\n    return q\n")
    assert load(file).__name__.startswith("attnspec_target_attention_")
    file.write_text("from ..shared import scores\n")
    with pytest.raises(TargetError, match=r"attention.py cannot be imported.*ImportError: no device"):
        load(file)


def test_another_module_of_that_name_is_not_taken_for_a_file(package, monkeypatch):
    file = package / "fast" / "attention.py"
    file.write_text("from ..shared import scores\n")
    monkeypatch.setitem(sys.modules, "kernels_of_tests", torch)
    monkeypatch.setitem(sys.modules, "kernels_of_tests.fast", torch)
    monkeypatch.setitem(sys.modules, "kernels_of_tests.fast.attention", torch)
    with pytest.raises(TargetError, match="and another one of that name is imported"):
        load(file)


def test_a_module_is_located_without_an_import(package):
    (package / "fast" / "__init__.py").write_text("raise ImportError")
    (package / "fast" / "attention.py").write_text("")
    assert package / "fast" / "attention.py" == located("kernels_of_tests.fast.attention")
    assert package / "fast" / "__init__.py" == located("kernels_of_tests.fast")
    assert located("kernels_of_tests.slow") is None
    assert "functional.py" == located("torch.nn.functional").name
    assert "math" not in (located("math") or package).parts


def test_a_method_of_a_class_can_be_named(tmp_path):
    (tmp_path / "kernels.py").write_text("class Softmax:\n    @staticmethod\n    def apply(x):\n        return x\n")
    [found] = declared(tmp_path / "kernels.py", "Softmax.apply")
    assert "Softmax.apply" == found.name
    with pytest.raises(TargetError, match=r"has no function 'Softmax.aply'"):
        declared(tmp_path / "kernels.py", "Softmax.aply")
