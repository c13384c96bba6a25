"""Other Python interpreters: what is installed in their environments, and the program that starts a worker there.

The modules of attnspec are placed there by their folders, so that attnspec need not be installed in that environment.
It has to have NumPy, and what the target imports; msgpack is lent to it where it has none.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgpack

import attnspec
from attnspec import adapters

from ..data.texts import safe
from ..errors import TargetError
from .addresses import EXEC

OLDEST = (3, 11)
"""The first version of Python that can run a worker."""
NEEDED, LENT = "numpy", "msgpack"
"""What a worker imports beside the standard library; the second one is lent where it is missing."""
SECONDS = 60
"""How long an interpreter may take to say what it has."""
COMMON = ("venv", "env", "virtualenv", "bin")
"""Names of folders that do not tell one environment from another."""
PROBE = """
import json, sys
found = {"version": list(sys.version_info[:3]), "packages": {}}
if sys.version_info >= (3, 11):
    import importlib.metadata, importlib.util
    owners = importlib.metadata.packages_distributions()
    for name in sys.argv[1:]:
        if importlib.util.find_spec(name) is not None:
            owner = (owners.get(name) or [name])[0]
            try:
                found["packages"][name] = [owner, importlib.metadata.version(owner)]
            except importlib.metadata.PackageNotFoundError:
                found["packages"][name] = [owner, ""]
print(json.dumps(found))
"""
PROGRAM = """
import importlib.util, sys
for name, folder in zip(sys.argv[2::2], sys.argv[3::2]):
    spec = importlib.util.spec_from_file_location(name, folder + "/__init__.py", submodule_search_locations=[folder])
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    owner, _, last = name.rpartition(".")
    if owner:
        setattr(sys.modules[owner], last, module)
del sys.argv[2:]
from attnspec.execution.worker import main
main()
"""
"""The program of a worker, after packages have been placed: each by its name and folder."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter, its version, and what is installed of the modules that were asked for.

    `packages` has by module the distribution and its version.
    """

    path: str
    version: str
    packages: Mapping[str, tuple[str, str]] = field(hash=False)

    @property
    def label(self) -> str:
        """A short name of its environment: that of its folder, with the one above it where many are called so."""
        folder = Path(self.path).parent
        parts = [part for part in (folder.parent if folder.name == "bin" else folder).parts if part != "/"]
        last = parts[-1:] or [Path(self.path).name]
        plain = last[0].lstrip(".").lower()
        return "/".join(parts[-2:] if plain in COMMON else last)

    def require(self, module: str, whom: str) -> None:
        """Raise `TargetError` for a module that is not installed there, saying who needs it."""
        top = module.partition(".")[0]
        if top not in self.packages:
            raise TargetError(f"{self.path} has no {top}: {whom} needs it; '{self.path} -m pip install {top}'")

    @property
    def versions(self) -> dict[str, str]:
        """Versions by distribution."""
        return {name: version for name, version in self.packages.values() if version}


def parted(target: str) -> tuple[str, str]:
    """A target without its interpreter, and the path of that; nothing where none is named.

    A name after which a Python file goes on is a part of the name of that file, and a command is all of its target.
    """
    if target.startswith(EXEC):
        return target, ""
    rest, at, python = target.rpartition("@")
    return (rest, python) if at and rest and not (python.endswith(".py") or ".py:" in python) else (target, "")


def examined(path: str, modules: Sequence[str] = ()) -> Interpreter:
    """The interpreter at a path, and which modules it has.

    Raises `TargetError` for what is no interpreter, one that is too old, and one that cannot run a worker.
    """
    place = Path(path).expanduser()
    place = next((place / name for name in ("bin/python", "bin/python3") if (place / name).exists()), place)
    whole = Path(os.path.abspath(place))  # a link to an interpreter is what names an environment: it is not followed
    if not whole.is_file() or not os.access(whole, os.X_OK):
        raise TargetError(
            f"{safe(path)} is not an interpreter: expected the path of a Python, as in /envs/new/bin/python"
        )
    found = _asked(str(whole), tuple(sorted({NEEDED, LENT, *(name.partition(".")[0] for name in modules)})))
    found.require(NEEDED, "the program that makes calls")
    return found


@functools.cache
def _asked(path: str, modules: tuple[str, ...]) -> Interpreter:
    try:
        done = subprocess.run(
            [path, "-c", PROBE, *modules],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            cwd=Path(path).parent,
        )
        said = json.loads((done.stdout.strip().splitlines() or [""])[-1])
        version, packages = tuple(said["version"]), said["packages"]
    except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
        raise TargetError(f"{safe(path)} does not behave like a Python interpreter: {safe(str(error))}") from None
    number = ".".join(map(str, version))
    if version < OLDEST:
        raise TargetError(f"{path} is Python {number}; attnspec needs Python {'.'.join(map(str, OLDEST))} or later")
    return Interpreter(path, number, {name: (owner, own) for name, (owner, own) in packages.items()})


def placed(interpreter: Interpreter) -> list[str]:
    """The packages that are placed there, each by its name and folder: arguments of `PROGRAM`."""
    found = {"attnspec": attnspec, adapters.__name__: adapters}
    if LENT not in interpreter.packages:
        found = {LENT: msgpack, **found}
    return [part for name, module in found.items() for part in (name, module.__path__[0])]


def imported(path: Path) -> tuple[str, ...]:
    """The modules outside the standard library that a file names in its imports; none of what cannot be parsed."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ()
    tops = (name.partition(".")[0] for node in ast.walk(tree) for name in _names(node))
    return tuple(dict.fromkeys(top for top in tops if top and top not in {*sys.stdlib_module_names, "attnspec"}))


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        yield node.module or ""
