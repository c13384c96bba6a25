"""From what people type to subjects: shipped adapters, registered ones, files, functions in files, mistakes.

torch_sdpa                      an adapter that is shipped, or registered by a package
path/to/file.py                 every adapter declared in a file
path/to/file.py:function        one of them, or a function that is not decorated at all
reference                       the float64 reference, as a subject of every operator
mistake:attention.no_scale      a known mistake
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from attnspec import adapters
from attnspec.adapters import Adapter

from .errors import TargetError, UsageError, did_you_mean
from .frameworks import FRAMEWORKS
from .loader import library, mechanism_named
from .mechanism import Mechanism
from .stand_ins import DefinitionSubject, ReferenceSubject
from .subject import AdapterSubject, Subject

GROUP = "attnspec.adapters"
"""The entry points under which other packages register modules of adapters."""
CONTROLS = "controls"
"""What the names of modules begin with whose adapters are there for the audit, and not for users."""


def resolve(
    target: str, *, operator: str | None = None, framework: str | None = None, device: str = "cpu"
) -> list[Subject]:
    """The subjects that a target names.

    `operator` and `framework` are for functions that do not say them by themselves.
    Raises `TargetError` where the target cannot be loaded or does not run on the device, `UsageError` where it names
    nothing.
    """
    if target == "reference":
        return [ReferenceSubject(m) for m in operators().values()]
    if target.startswith("mistake:"):
        return [mistake(target.removeprefix("mistake:"))]
    path, _, function = target.partition(".py:")
    if target.endswith(".py") or function:
        return from_file(Path(path if not function else f"{path}.py"), function, operator, framework, device)
    return [subject(find(target), device=device)]


def operators() -> dict[str, Mechanism]:
    """The mechanisms that state an operator, by name."""
    return {name: m for name, m in library().items() if m.operator == name}


def subject(adapter: Adapter, *, declared: bool = True, device: str | None = None) -> AdapterSubject:
    """An adapter as a subject, on a device if one is given; what it declares wrongly is an error with its place."""
    known = operators()
    if adapter.operator not in known:
        raise UsageError(
            f"{adapter.name}: unknown operator {adapter.operator!r}{did_you_mean(adapter.operator, known)}"
        )
    if adapter.framework not in FRAMEWORKS:
        hint = did_you_mean(adapter.framework, FRAMEWORKS)
        raise UsageError(f"{adapter.name}: unknown framework {adapter.framework!r}{hint}")
    if not installed(adapter):
        raise TargetError(f"{adapter.name} needs {adapter.package}, which is not installed: {install_command(adapter)}")
    if device is not None and not runs_on(adapter, device):
        raise TargetError(f"{adapter.name} does not run on {device}; add --device {adapter.devices[0]}")
    return AdapterSubject(adapter, known[adapter.operator], declared=declared)


def installed(adapter: Adapter) -> bool:
    """Whether what an adapter presents can be imported."""
    try:
        return not adapter.package or importlib.util.find_spec(adapter.package) is not None
    except ModuleNotFoundError:  # of a.b, a is missing
        return False


def runs_on(adapter: Adapter, device: str) -> bool:
    """Whether it is declared for that kind of device."""
    return device.partition(":")[0] in adapter.devices


def install_command(adapter: Adapter) -> str:
    """The command that installs what an adapter presents."""
    package = adapter.package.partition(".")[0]
    return f"pip install 'attnspec[{adapter.extra}]'" if adapter.extra else f"pip install {package}"


# Adapters by name


def shipped() -> list[Adapter]:
    """The adapters of this package and of those that register some, installed or not."""
    modules = set(families())
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            raise TargetError(f"the entry point {entry.name!r} ({entry.value}) cannot be loaded: {error}") from error
        modules.add(entry.module)
    return [adapter for adapter in adapters.registered() if adapter.module in modules]


def families(*, controls: bool = False) -> list[str]:
    """The modules of attnspec.adapters, imported: those of implementations, or those of the audit's controls."""
    names = [module.name for module in pkgutil.iter_modules(adapters.__path__, "attnspec.adapters.")]
    chosen = [name for name in names if name.rpartition(".")[2].startswith(CONTROLS) is controls]
    for name in chosen:
        importlib.import_module(name)
    return chosen


def every_one(device: str) -> list[str]:
    """The names of all shipped adapters that can be run on a device without much patience."""
    return [one.name for one in shipped() if installed(one) and runs_on(one, device) and not one.slow]


def find(name: str) -> Adapter:
    """The adapter of that name; an unknown one is a `TargetError`."""
    known = {adapter.name: adapter for adapter in shipped()}
    if name not in known:
        hint = (
            did_you_mean(name, known) or "; a file is given as path/to/file.py, and 'attnspec list adapters' lists them"
        )
        raise TargetError(f"unknown target {name!r}{hint}")
    return known[name]


def mistake(address: str) -> DefinitionSubject:
    """A known mistake as a subject."""
    mechanism_name, _, name = address.partition(".")
    mechanism = mechanism_named(mechanism_name)
    if name not in mechanism.mistakes:
        raise UsageError(f"{mechanism_name} has no mistake {name!r}{did_you_mean(name, mechanism.mistakes)}")
    return DefinitionSubject(mechanism, f"mistake:{address}", mechanism.mistakes[name].change)


# Files


def from_file(
    path: Path, function: str, operator: str | None, framework: str | None, device: str = "cpu"
) -> list[Subject]:
    """The adapters declared in a file, or one function of it."""
    if not path.is_file():
        raise TargetError(f"no such file: {path}")
    module = load(path)
    declared = [adapter for adapter in adapters.registered() if adapter.module == module.__name__]
    if not function:
        if not declared:
            raise TargetError(
                f"{path} declares no adapter; decorate a function with @attnspec.adapter(...), "
                f"or name one as {path}:function"
            )
        return [subject(adapter, device=device) for adapter in declared]
    named = [adapter for adapter in declared if function in (adapter.name, adapter.function.__name__)]
    if named:
        return [subject(adapter, device=device) for adapter in named]
    found = getattr(module, function, None)
    if not callable(found):
        known = [name for name, x in vars(module).items() if inspect.isfunction(x)]
        raise TargetError(f"{path} has no function {function!r}{did_you_mean(function, known)}")
    return [subject(undecorated(found, function, module, operator, framework), declared=False)]


def undecorated(
    function: Callable[..., Any],
    name: str,
    module: ModuleType | None = None,
    operator: str | None = None,
    framework: str | None = None,
    **more: Any,
) -> Adapter:
    """A plain function as an adapter, its operator and framework guessed where they are not given."""
    return Adapter(
        name=name,
        operator=operator or guess_operator(name),
        function=function,
        framework=framework or guess_framework(function, module),
        summary=(function.__doc__ or "").strip().partition("\n")[0],
        **more,
    )


def guess_operator(name: str) -> str:
    """The operator that the name of a function says, the longest if it says several."""
    words = f"_{re.sub(r'[^a-z0-9]+', '_', name.lower())}_"
    said = [operator for operator in operators() if f"_{operator}_" in words]
    if not said:
        raise UsageError(
            f"the name {name!r} does not say what operator it is; add --operator (operators: {', '.join(operators())})"
        )
    return max(said, key=len)


def guess_framework(function: Callable[..., Any], module: ModuleType | None) -> str:
    """The framework of a function's arrays: by its annotations, by the names it uses, by what its module imports."""
    try:
        annotations = str(inspect.signature(function))
    except (TypeError, ValueError):
        annotations = ""
    code = getattr(inspect.unwrap(function), "__code__", None)
    scope = vars(module) if module else getattr(function, "__globals__", {})
    used = [scope.get(name) for name in (code.co_names if code else ())]
    for hints in (_mentioned([annotations]), _frameworks_of(used), _frameworks_of(scope.values())):
        if len(hints) == 1:
            return hints.pop()
    return "torch"


def _mentioned(texts: Iterable[str]) -> set[str]:
    marks = {"torch": ("torch.", "Tensor"), "numpy": ("np.", "numpy.", "NDArray", "ndarray")}
    return {name for name, words in marks.items() for text in texts if any(word in text for word in words)}


def _frameworks_of(things: Iterable[Any]) -> set[str]:
    names = [x.__name__ if isinstance(x, ModuleType) else str(getattr(x, "__module__", "") or "") for x in list(things)]
    return {name.partition(".")[0] for name in names} & set(FRAMEWORKS)


def load(path: Path) -> ModuleType:
    """A file as a module of its own; what goes wrong in it is a `TargetError` with its place."""
    resolved = path.resolve()
    name = f"attnspec_target_{resolved.stem}_{hashlib.blake2b(str(resolved).encode(), digest_size=4).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, resolved)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(resolved.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise TargetError(f"{path} cannot be imported{_where(error, resolved)}: {_said(error)}") from error
    finally:
        sys.path.remove(str(resolved.parent))
    return module


def _where(error: BaseException, path: Path) -> str:
    """`, line n` of the file that fails, as far as that is known."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f", line {error.lineno}"
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f", line {line}" if line else ""


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def names(subjects: Sequence[Subject]) -> list[str]:
    return [s.name for s in subjects]
