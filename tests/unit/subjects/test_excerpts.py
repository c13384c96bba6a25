"""The source of every shipped adapter can be written down by itself."""

import ast
import builtins
import symtable

import pytest

from attnspec.errors import UsageError
from attnspec.subjects.excerpts import excerpt, interpreted_excerpt
from attnspec.subjects.registered import find, shipped


def test_every_shipped_function_has_an_excerpt_that_names_nothing_of_attnspec():
    for adapter in (one for one in shipped() if one.factory is None):
        found = excerpt(adapter.module, adapter.function)
        tree = ast.parse("\n".join(found.imports) + "\n" + found.text)
        imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert [] == [node.module for node in imported if node.level or str(node.module).startswith("attnspec")]
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        parameters = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        assert "adapter" not in names - parameters, adapter.name
        assert adapter.function.__name__ in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def unbound(found):
    """The global names of an excerpt that neither it nor Python binds."""
    lines = ["from __future__ import annotations", *found.imports, found.text]
    top = symtable.symtable("\n".join(lines), "excerpt", "exec")
    known = {x.get_name() for x in top.get_symbols() if x.is_assigned() or x.is_imported()} | {*dir(builtins)}
    tables = [top]
    for table in tables:
        tables += table.get_children()
    names = {x.get_name() for table in tables for x in table.get_symbols() if x.is_global() and x.is_referenced()}
    return names - known


def test_a_function_of_kernels_in_triton_is_interpreted_by_what_comes_with_it():
    for adapter in (one for one in shipped() if one.interpreted == "Triton's interpreter"):
        found = interpreted_excerpt(adapter.module, adapter.function)
        name = adapter.function.__name__
        assert (set(), f"{name} = interpreting()({name})") == (unbound(found), found.statements[-1])


def test_what_a_function_uses_of_other_modules_comes_before_it():
    found = excerpt("attnspec.adapters.torch.attention", find("torch_sdpa_math").function)
    heads = [text.splitlines()[0].partition("(")[0] for text in found.statements]
    assert ["class Unsupported", "def attention", "def attention_by", "def torch_sdpa_math"] == heads
    assert ["from typing import Any"] == found.imports


def test_a_function_that_another_has_made_comes_with_what_it_was_made_for():
    (one,) = [one for one in shipped() if one.name == "flashinfer_paged_fa2"]
    found = excerpt(one.module, one.function)
    assert "backend = 'fa2'" in found.statements
    assert found.statements[-1].startswith("def flashinfer_paged(\n    q: Any,\n")


def made_of(thing):
    def nothing():
        return thing

    return nothing


@pytest.mark.parametrize("function", [lambda: 0, made_of("text"), made_of(object())])
def test_what_is_no_function_of_its_module_is_refused(function):
    with pytest.raises(UsageError, match=r"has no function .* that could be written down"):
        excerpt("attnspec.adapters.torch.attention", function)
