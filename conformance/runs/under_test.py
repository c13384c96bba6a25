"""What is under test, as a program of its own imports or states it."""

from __future__ import annotations

import ast
import inspect
import os
import re
from pathlib import Path

from attnspec.adapters import Adapter

from ..data.texts import safe
from ..errors import UsageError
from ..execution.dotted import is_edited, named
from ..execution.interpretation import BY
from ..reporting.filling import IMPORTS, LINES, NOTED
from ..subjects.excerpts import excerpt, interpreted_excerpt
from ..subjects.registered import INTERPRETERS
from ..subjects.subject import AdapterSubject
from ..subjects.targets import file_of, function_of, in_module
from .runner import SHIPPED

DECLARING = re.compile(rb"^\s*(from|import) attnspec\b", re.MULTILINE)
"""What a file has that declares functions with attnspec."""
STAND_IN = '''class Unsupported(Exception):
    """What a function raises for a call that it does not take."""


def declared(*given, **declaration):
    """The function itself, whatever is declared of it."""
    return given[0] if given and callable(given[0]) else lambda function: function


# The file declares its functions with attnspec, and needs no more of it.
stand_in = types.ModuleType("attnspec")
stand_in.adapter, stand_in.Unsupported = declared, Unsupported
sys.modules["attnspec"] = sys.modules["attnspec.adapters"] = stand_in


'''
INTERPRETING = """os.environ.setdefault("TRITON_INTERPRET", "1")  # there is no device
torch.Tensor.is_cuda = property(lambda _: True)
"""
LOADED = """path = Path(__file__).resolve().parent / {path!r}
sys.path.insert(0, str(path.parent))
spec = importlib.util.spec_from_file_location("under_test", path)
module = sys.modules["under_test"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)"""
IMPORTED = """sys.path.insert(0, str(Path(__file__).resolve().parent / {folder!r}))
module = importlib.import_module({name!r})"""


def code_of(subject: AdapterSubject, target: str, device: str, beside: Path) -> tuple[str, list[str], str]:
    """The name of the function, what it imports, and what defines it."""
    path = file_of(target)
    adapter = subject.adapter
    if adapter.factory is not None:
        return _module(subject, path, beside)
    if path is not None:
        whole = function_of(target) or adapter.name
        known = in_module(target) or "." in whole or adapter.made
        whole = whole if known else _function_of(path, whole, adapter.place)
        name = whole.rpartition(".")[2]
        stand_in = STAND_IN if DECLARING.search(path.read_bytes()) else ""
        loading, imports = _loaded(path, beside)
        imports += ["import types"] if stand_in else []
        if adapter.interpreted == BY:
            imports, loading = [*imports, "import os"], f"{INTERPRETING}{loading}"
        called = f"module.{whole}{adapter.made and f'{adapter.made}.eval().forward'}"
        return name, imports, f"{stand_in}{loading}\n{_defined(adapter, name, called)}"
    name = adapter.function.__name__
    if not adapter.module.startswith(SHIPPED):
        stand_in = STAND_IN
        return name, ["import sys", "import types"], f"{stand_in}from {adapter.module} import {name}"
    interpreted = INTERPRETERS.get(adapter.interpreted) == "triton" and device == "cpu"  # others are asked in the call
    found = (interpreted_excerpt if interpreted else excerpt)(adapter.module, adapter.function)
    return name, found.imports, found.text


def _defined(adapter: Adapter, name: str, called: str) -> str:
    """What defines a function by that name, of which that is what is called."""
    if not adapter.bundle:
        return f"{name} = {called}"
    taken = [*inspect.signature(adapter.function).parameters]
    pairs = ", ".join(f"{x!r}: {x}" for x in taken)
    given = f"{{{pairs}}}" if adapter.bundle == "dict" else f"({', '.join(taken)})"
    return f"\n\ndef {name}({', '.join(taken)}):\n    return {called}({given})"


def _loaded(path: Path, beside: Path) -> tuple[str, list[str]]:
    """What imports a file, by itself or as the module of its package, and what that needs."""
    own = named(path.resolve())
    if own is None:
        file = os.path.relpath(path.resolve(), beside.resolve())
        return LOADED.format(path=file), ["import importlib.util", "import sys", "from pathlib import Path"]
    if not is_edited(path.resolve()):
        return f"module = importlib.import_module({own.name!r})", ["import importlib"]
    folder = os.path.relpath(own.folder, beside.resolve())
    return IMPORTED.format(folder=folder, name=own.name), ["import importlib", "import sys", "from pathlib import Path"]


def _module(subject: AdapterSubject, path: Path | None, beside: Path) -> tuple[str, list[str], str]:
    """The same of a module of torch in a file, which is made and filled by the program."""
    if path is None or subject.adapter.framework != "torch":
        raise UsageError("modules are written down that are of torch, and in a file; 'attnspec replay' makes the call")
    interface, name = subject.interface, re.sub(r"\W", "_", subject.adapter.name)
    axes = {each: [*found] for each, found in interface.axes.items()}
    given = f"{subject.adapter.name!r}, {[*interface.required]!r}, {axes!r}, {dict(interface.absent)!r}"
    stand_in = f"{STAND_IN.rstrip()}\nstand_in.module = noted\n\n\n"
    loading, imports = _loaded(path, beside)
    imports += ["import sys", "import types", *IMPORTS]
    return name, imports, f"{NOTED}{stand_in}{loading}\n\n\n{LINES}{name} = filled({given})"


def _function_of(path: Path, name: str, place: str) -> str:
    """The name of a function in its file, where an adapter may have another one: by its line."""
    functions = [node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)]
    if any(node.name == name for node in functions):
        return name
    line = int(tail) if (tail := place.rpartition(":")[2]).isdigit() else 0
    first = {min([node.lineno, *(each.lineno for each in node.decorator_list)]): node.name for node in functions}
    if line not in first:
        raise UsageError(f"{safe(str(path))} has no function {safe(name)!r} at its top; a program could not call it")
    return first[line]
