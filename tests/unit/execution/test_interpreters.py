"""Other interpreters: how a target names one, what it has, and what is said of one that cannot make calls."""

from __future__ import annotations

import site
import sys
import venv
from pathlib import Path

import numpy as np
import pytest

from attnspec.errors import TargetError, UsageError
from attnspec.execution.calling import Call
from attnspec.execution.interpreters import Interpreter, examined, imported, parted
from attnspec.execution.supervisor import Supervisor, available
from attnspec.subjects.targets import file_of, resolve

SOFTMAX = """
import sys
import numpy as np

def softmax(x):
    return np.full_like(x, len(sys.prefix))
"""


def speaking(folder: Path, said: str, name: str = "python") -> Path:
    """A program that answers as an interpreter does, whatever it is asked."""
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{said}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another environment, which has NumPy and not attnspec."""
    folder = tmp_path_factory.mktemp("environments") / "new"
    try:
        venv.create(folder, symlinks=True, with_pip=False)
    except OSError as error:
        pytest.skip(f"no environment can be made here: {error}")
    (own,) = folder.glob("lib/python*/site-packages")
    roots = {str(Path(np.__file__).parents[1]), *site.getsitepackages()}
    (own / "shared.pth").write_text("\n".join(roots))
    return folder


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("torch_sdpa", ("torch_sdpa", "")),
        ("torch_sdpa@/envs/new/bin/python", ("torch_sdpa", "/envs/new/bin/python")),
        ("a.py:flash@new", ("a.py:flash", "new")),
        ("me@home/a.py:flash", ("me@home/a.py:flash", "")),
        ("me@home/a.py@new", ("me@home/a.py", "new")),
    ],
)
def test_a_target_ends_with_its_interpreter(target: str, expected: tuple[str, str]) -> None:
    assert expected == parted(target)


def test_the_file_of_a_target_is_without_its_interpreter() -> None:
    assert Path("a.py") == file_of("a.py:flash@/envs/new/bin/python")
    assert file_of("torch_sdpa@/envs/new.py/bin/python") is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/envs/new/bin/python", "new"),
        ("/old/.venv/bin/python3.12", "old/.venv"),
        ("/envs/new/python", "new"),
        ("/bin/python", "python"),
    ],
)
def test_an_environment_is_called_after_its_folder(path: str, expected: str) -> None:
    assert expected == Interpreter(path, "3.12.1", {}).label


def test_an_old_interpreter_is_refused(tmp_path: Path) -> None:
    old = speaking(tmp_path, '{"version": [3, 9, 18], "packages": {}}')
    with pytest.raises(TargetError, match=r"/python is Python 3\.9\.18; attnspec needs Python 3\.11 or later"):
        examined(str(old))


def test_what_an_interpreter_lacks_is_said_with_what_installs_it(tmp_path: Path) -> None:
    bare = speaking(tmp_path, '{"version": [3, 12, 1], "packages": {}}')
    with pytest.raises(TargetError, match=f"{bare} has no numpy: the program .* '{bare} -m pip install numpy'"):
        examined(str(bare))


def test_what_is_no_interpreter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="is not an interpreter"):
        examined(str(tmp_path / "python"))
    with pytest.raises(TargetError, match="does not behave like a Python interpreter"):
        examined(str(speaking(tmp_path, "usage: thing")))


def test_the_imports_of_a_file_are_those_outside_the_standard_library(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(
        "import sys, einops.layers\nfrom torch.nn import x\nfrom . import y\nfrom attnspec import adapter\n"
    )
    assert ("einops", "torch") == imported(path)


@pytest.mark.skipif(not available(), reason="calls are not isolated here")
def test_calls_are_made_in_the_other_environment(environment: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(SOFTMAX)
    supervisor = Supervisor()
    try:
        (there,) = resolve(f"{path}:softmax@{environment}", supervisor=supervisor)
        (here,) = resolve(f"{path}:softmax", supervisor=supervisor)
        call = Call({"x": np.zeros((1, 1))}, {}, "float64")
        found = [float(next(iter(one.call(call).outputs.values()))[0, 0]) for one in (there, here)]
        assert [len(str(environment)), len(sys.prefix)] == found
        assert ["softmax@new", "softmax"] == [there.name, here.name]
    finally:
        supervisor.close()


def test_what_attnspec_computes_itself_has_no_other_interpreter() -> None:
    with pytest.raises(UsageError, match="reference is computed by attnspec itself"):
        resolve(f"reference@{sys.executable}", supervisor=Supervisor())


def test_another_interpreter_needs_processes(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="leave out --no-isolate"):
        resolve(f"torch_sdpa@{sys.executable}")
