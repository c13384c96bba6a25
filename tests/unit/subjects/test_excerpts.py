"""The source of every shipped adapter can be written down by itself."""

import ast

import pytest

from attnspec.errors import UsageError
from attnspec.subjects.excerpts import excerpt
from attnspec.subjects.targets import shipped


def test_every_shipped_function_has_an_excerpt_that_names_nothing_of_attnspec():
    written = [one for one in shipped() if one.factory is None and "<locals>" not in one.function.__qualname__]
    for adapter in written:
        found = excerpt(adapter.module, adapter.function.__name__)
        tree = ast.parse("\n".join(found.imports) + "\n" + found.text)
        imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert [] == [node.module for node in imported if node.level or str(node.module).startswith("attnspec")]
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert "adapter" not in names, adapter.name


def test_what_a_function_uses_of_other_modules_comes_before_it():
    found = excerpt("attnspec.adapters.torch.attention", "torch_sdpa_math")
    heads = [text.splitlines()[0].partition("(")[0] for text in found.statements]
    assert ["class Unsupported", "def attention", "def attention_by", "def torch_sdpa_math"] == heads
    assert ["from typing import Any"] == found.imports


def test_what_is_no_function_of_its_module_is_refused():
    with pytest.raises(UsageError, match="has no function 'nothing' that could be written down"):
        excerpt("attnspec.adapters.torch.attention", "nothing")
