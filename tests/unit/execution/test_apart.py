"""Calls where nothing of attnspec is to be seen: who makes them, and what that process has been given."""

import inspect
import os
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from attnspec.execution import processes
from attnspec.execution.bare import plain
from attnspec.execution.calling import Call
from attnspec.execution.supervisor import Supervisor, available
from attnspec.subjects.targets import resolve

pytestmark = pytest.mark.skipif(not available(), reason="processes are not isolated on this system")
KERNEL = """
import gc
import os
from pathlib import Path
import numpy as np

def parent(x):
    return np.full_like(x, os.getppid())

def grandparent(x):
    return np.full_like(x, int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]))

def told(x):
    texts = [*os.environ, *(Path(f"/proc/{pid}/{what}").read_bytes().decode().lower()
             for pid in (os.getpid(), os.getppid()) for what in ("environ", "cmdline"))]
    return np.full_like(x, sum("attnspec" in text.lower() for text in texts))

def variable(x):
    return np.full_like(x, float(os.environ.get("OF_THE_USER", "nan")))

def collects(x):
    return np.full_like(x, gc.isenabled())

def frozen(x):
    return np.full_like(x, gc.get_freeze_count() > 10_000)
"""
CASE = Call({"x": np.zeros((1, 2))}, {}, "float32")


@pytest.fixture
def supervisor():
    made = Supervisor()
    yield made
    made.close()


@pytest.fixture
def asked(supervisor, tmp_path):
    """What a function gives where it is called, and where nothing of attnspec is to be seen."""
    (tmp_path / "kernel.py").write_text(KERNEL)

    def ask(name):
        target = f"{tmp_path}/kernel.py:{name}"
        (one,) = resolve(target, operator="softmax", framework="numpy", supervisor=supervisor)
        (there,) = one.caller.apart([CASE], 60.0)
        return [reply.outputs["p"].flat[0] for reply in (one.call(CASE), there)]

    return ask


def test_one_process_imports_a_framework_for_calls_here_and_there(asked, monkeypatch):
    started = []
    original = subprocess.Popen
    monkeypatch.setattr(processes.subprocess, "Popen", lambda *a, **k: started.append(original(*a, **k)) or started[-1])
    here, there = asked("parent")
    assert (1, True) == (len(started), here != there)
    assert started[0].pid == asked("grandparent")[1]


def test_neither_variables_nor_arguments_there_say_who_asks(asked, monkeypatch):
    monkeypatch.setenv("ATTNSPEC_CACHE", str(Path("of_attnspec").absolute()))
    assert 0.0 == asked("told")[1]


def test_the_variables_of_a_user_are_there(asked, monkeypatch):
    monkeypatch.setenv("OF_THE_USER", "7")
    assert [7.0, 7.0] == asked("variable")


@pytest.mark.parametrize("name", ["collects", "frozen"])
def test_garbage_is_collected_in_calls_but_not_sought_in_what_was_imported(asked, name):
    assert [1.0, 1.0] == asked(name)


def test_the_process_ends_with_the_one_that_it_comes_from(supervisor, asked):
    asked("parent")
    (fork_server,) = [fork_server for fork_server in supervisor._fork_servers.values() if fork_server.apart is not None]
    pid = int(asked("grandparent")[1])
    assert pid == fork_server.process.pid
    (bare,) = processes.orphans.children_of(pid) - {n.process.pid for n in supervisor._fork_servers.values()}
    supervisor.close()
    until = time.monotonic() + 5
    while os.path.exists(f"/proc/{bare}") and time.monotonic() < until:
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{bare}")


@pytest.mark.parametrize("framework", ["torch", "numpy"])
def test_codes_are_passed_there_in_their_own_dtypes(supervisor, tmp_path, framework):
    result = "a_scale + ('float8_e5m2' in str(a.dtype)) + float(a[0, 0])"
    kernel = f"def product(a, b, a_scale, b_scale):\n    return {result}\n"
    (tmp_path / "kernel.py").write_text(kernel)
    target = f"{tmp_path}/kernel.py:product"
    (one,) = resolve(target, operator="scaled_matmul", framework=framework, supervisor=supervisor)
    arrays = {name: np.full((1, 1), 0.25) for name in ("a", "b", "a_scale", "b_scale")}
    (there,) = one.caller.apart([Call(arrays, {}, "float32", dtypes={"a": "float8_e5m2", "b": "float8_e4m3fn"})], 60.0)
    assert 1.5 == there.outputs["out"].item()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_dtype_is_passed_there_as_here(supervisor, tmp_path, dtype):
    (tmp_path / "kernel.py").write_text("def softmax(x, out_dtype):\n    return x * 0 + (x.dtype is out_dtype)\n")
    (one,) = resolve(f"{tmp_path}/kernel.py:softmax", operator="softmax", framework="torch", supervisor=supervisor)
    assert "dtype" == one.form.taken.passed["out_dtype"].how
    call = Call(CASE.inputs, {}, dtype)
    ((there,), here) = one.apart([call], 60.0), one.call(call)
    assert (1.0, 1.0) == (there.outputs["p"].flat[0], here.outputs["p"].flat[0])


def test_a_default_that_is_no_plain_value_is_known_as_it_is(supervisor, tmp_path):
    (tmp_path / "kernel.py").write_text(
        "import torch\ndef softmax(x, pair=(-1, None), own=torch.float16):\n    return x\n"
    )
    (one,) = resolve(f"{tmp_path}/kernel.py:softmax", operator="softmax", framework="torch", supervisor=supervisor)
    found = inspect.signature(one.adapter.function).parameters
    assert ((-1, None), "torch.float16") == (found["pair"].default, repr(found["own"].default))


def test_complex_numbers_are_sent_as_their_two_parts():
    x = torch.tensor([1 + 2j, 3 - 4j])
    assert [[1.0, 2.0], [3.0, -4.0]] == plain(x).tolist() == plain(x.numpy()).tolist()
    assert [[1.0, -2.0], [3.0, 4.0]] == plain(x.conj()).tolist()
