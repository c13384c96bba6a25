"""What becomes of files whose functions are called in another process: changed, gone, broken, or read anew."""

import sys
from pathlib import Path

import numpy as np
import pytest

from attnspec.errors import TargetError
from attnspec.execution.calling import Call
from attnspec.execution.supervisor import Supervisor, available
from attnspec.subjects.targets import resolve

pytestmark = pytest.mark.skipif(not available(), reason="processes are not isolated on this system")

KERNELS = """
import os
import numpy as np
from attnspec import adapter

def softmax(x):
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)

def declared(function):
    return adapter("softmax", framework="numpy")(function)

@declared
def right(x): return softmax(x)
"""
GOOD = Call({"x": np.zeros((1, 2))}, {}, "float32")
ANSWER = np.full((1, 2), 0.5)


@pytest.fixture(scope="module")
def supervisor():
    made = Supervisor(10.0)
    yield made
    made.close()


def test_a_file_that_was_changed_is_loaded_again(supervisor, tmp_path):
    path = tmp_path / "changing.py"
    for factor in ("1", "23"):
        path.write_text(KERNELS + f"\n@declared\ndef changing(x): return {factor} * softmax(x)\n")
        (one,) = resolve(f"{path}:changing", supervisor=supervisor)
        np.testing.assert_array_equal(int(factor) * ANSWER, one.call(GOOD).outputs["p"])


def test_a_file_that_disappears_before_it_is_called_is_told(supervisor, tmp_path):
    path = tmp_path / "fleeting.py"
    path.write_text(KERNELS)
    (one,) = resolve(f"{path}:right", supervisor=supervisor)
    supervisor.close()
    path.unlink()
    says = "fleeting.py can no longer be read: No such file or directory"
    assert says in one.call(GOOD).fault.says


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import os\nos._exit(5)\n", "cannot be imported: the process exited with status 5"),
        ("import ctypes\nctypes.string_at(0)\n", "cannot be imported: the process died of SIGSEGV"),
        ("x = 1\nraise KeyError('x')\n", "cannot be imported, line 2: KeyError: 'x'"),
        ("x = 1\n", "declares no adapter"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_an_error_of_the_target(supervisor, tmp_path, text, says):
    path = tmp_path / "broken.py"
    path.write_text(text)
    with pytest.raises(TargetError, match=str(path)) as raised:
        resolve(str(path), supervisor=supervisor)
    assert says in str(raised.value)


def test_nothing_of_a_file_is_run_in_this_process(supervisor, tmp_path):
    path = tmp_path / "marks.py"
    path.write_text("import sys\nsys.attnspec_mark = True\n" + KERNELS)
    resolve(str(path), supervisor=supervisor)
    assert not hasattr(sys, "attnspec_mark")


def test_calls_are_made_in_the_folder_of_the_run(supervisor, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("relative.py").write_text(
        KERNELS + "\n@declared\ndef folder(x): return softmax(x) * os.path.exists('relative.py')\n"
    )
    (one,) = resolve("relative.py:folder", supervisor=supervisor)
    np.testing.assert_array_equal(ANSWER, one.call(GOOD).outputs["p"])
