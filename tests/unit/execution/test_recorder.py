"""What a recorder notes down: calls of functions by name, in every process, and no data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types

import numpy as np
import pytest
import torch

from attnspec.execution import recorder
from attnspec.execution.recorder import Recorder, put, stated, strides


@pytest.fixture
def module(monkeypatch):
    made = types.ModuleType("recorded_kernels")
    made.inner = lambda x, scale=None: x
    made.outer = lambda x, scale=None: made.inner(x)
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def plan(*names):
    return {name: {"found": [f"recorded_kernels:{name}"], "parameters": ["x", "scale"]} for name in names}


def lines(folder):
    return [json.loads(line) for path in sorted(folder.glob("*.ndjson")) for line in path.read_text().splitlines()]


def test_a_call_is_written_when_it_is_new_and_counted_after(module, tmp_path):
    watching = Recorder(str(tmp_path), plan("inner")).begin()
    for _ in range(5):
        module.inner(np.ones((2, 3)), scale=0.5)
    watching.end()
    call, *counts = lines(tmp_path)
    assert {"x": {"shape": [2, 3], "strides": [3, 1], "dtype": "float64"}, "scale": 0.5} == call["arguments"]
    assert 5 == counts[-1]["count"]


def test_functions_are_put_back(module, tmp_path):
    before = module.inner
    watching = Recorder(str(tmp_path), plan("inner")).begin()
    assert before is not module.inner
    watching.end()
    assert before is module.inner


def test_a_call_within_another_is_not_counted(module, tmp_path):
    watching = Recorder(str(tmp_path), plan("inner", "outer")).begin()
    module.outer(np.ones(2))
    watching.end()
    assert ["outer"] == [line["interface"] for line in lines(tmp_path) if line["kind"] == "call"]


def test_calls_of_another_dtype_or_with_truths_for_numbers_are_others(module, tmp_path):
    watching = Recorder(str(tmp_path), plan("inner")).begin()
    for x, scale in ((np.ones(2), 1), (np.ones(2), True), (np.ones(2, np.float32), 1)):
        module.inner(x, scale)
    watching.end()
    assert 3 == sum(line["kind"] == "call" for line in lines(tmp_path))


def test_a_module_is_exchanged_when_it_is_imported(tmp_path, monkeypatch):
    (tmp_path / "recorded_kernels.py").write_text("def inner(x, scale=None):\n    return x\n")
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "journals"
    folder.mkdir()
    watching = Recorder(str(folder), plan("inner")).begin()
    try:
        import recorded_kernels  # type: ignore[import-not-found] - it has just been written

        recorded_kernels.inner(np.ones(4))
    finally:
        watching.end()
        sys.modules.pop("recorded_kernels", None)
    assert [[4]] == [line["arguments"]["x"]["shape"] for line in lines(folder) if line["kind"] == "call"]


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, where another test has imported it
def test_a_forked_process_has_a_journal_of_its_own(module, tmp_path):
    watching = Recorder(str(tmp_path), plan("inner")).begin()
    module.inner(np.ones(2))
    child = os.fork()
    if not child:
        module.inner(np.ones(3))
        os._exit(0)
    os.waitpid(child, 0)
    watching.end()
    assert 2 == len([*tmp_path.glob("*.ndjson")])


def test_strides_are_in_entries():
    assert ((1, 4), (1, 4)) == (strides(np.ones((3, 4)).T), strides(torch.ones(3, 4).T))


def test_of_an_argument_no_entry_is_kept():
    assert {"shape": [2], "strides": [1], "dtype": "float32"} == put(stated(torch.tensor([1.5, 2.5])))
    assert [{"type": "dict"}, [1, -1], None, "NHD"] == [put(stated(x)) for x in ({"a": 1}, (1, -1), None, "NHD")]


def test_torch_compiles_a_recorded_function(tmp_path):
    found = {"sdpa": {"found": ["torch:nn.functional.scaled_dot_product_attention"], "parameters": ["query"]}}
    watching = Recorder(str(tmp_path), found).begin()
    try:
        graphs = []

        def backend(graph, _):
            graphs.append(graph)
            return graph.forward

        x = torch.ones(1, 1, 2, 4)
        torch.compile(
            lambda q: torch.nn.functional.scaled_dot_product_attention(q, q, q), backend=backend, fullgraph=True
        )(x)
    finally:
        watching.end()
    assert (1, []) == (len(graphs), lines(tmp_path))


def test_a_program_of_its_own_imports_nothing_of_this_project():
    code = f"import runpy, sys; runpy.run_path({recorder.__file__!r}); print(any('attn' in n for n in sys.modules))"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert "False" == done.stdout.strip()
