"""A registered adapter is a file of its own, which imports nothing that a subject cannot import."""

import ast
from pathlib import Path

import pytest

from attnspec.auditing.standalone import standalone
from attnspec.errors import TargetError
from attnspec.execution.guard import CLOSED
from attnspec.execution.sources import declared


@pytest.mark.parametrize("name", ["control_merged_moments", "control_blocks_by_rows", "torch_softmax"])
def test_its_file_declares_it_and_imports_nothing_that_is_closed(name, tmp_path):
    found = standalone(name, tmp_path)
    assert [name] == [one.name for one in declared(found.path, name)]
    imported = [
        node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
        for path in (tmp_path / "sources").glob("*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert [] == [module for module in imported if module is None or module.startswith(CLOSED)]


def test_a_module_that_is_imported_whole_comes_along(tmp_path):
    found = standalone("control_delta_rule_back_by_tokens", tmp_path)
    assert "control_delta_rule_back_by_tokens" in {one.name for one in declared(found.path)}


def test_its_lines_have_the_numbers_of_the_module(tmp_path):
    found = standalone("control_blocks_by_rows", tmp_path)
    module = Path(__file__).resolve().parents[3] / "adapters/controls/block_sparse.py"
    lines = [path.read_text("utf-8").splitlines() for path in (found.path, module)]
    assert {True} == {a == b for a, b in zip(*lines, strict=True) if not b.startswith("from .")}


def test_a_name_that_no_adapter_has_is_told(tmp_path):
    with pytest.raises(TargetError, match="there is no adapter 'control_merged_moment'; did you mean"):
        standalone("control_merged_moment", tmp_path)
