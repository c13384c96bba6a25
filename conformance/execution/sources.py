"""Where implementations come from: the adapters that a file declares, or one function of it.

Nothing here knows a specification, so that it works in a worker as well, where a file can do no harm.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from attnspec import adapters
from attnspec.adapters import Adapter

from ..errors import TargetError, did_you_mean
from ..frameworks.known import FRAMEWORKS
from .declarations import KEYWORDS, checked, place_of
from .documented import documented
from .dotted import Named, named
from .interpretation import interpreted, interpreting
from .planned import Planned, is_planned
from .weightless import asked, call_of, forward_of, is_module, is_weightless, made, telling


def declared(path: Path, function: str = "") -> list[Adapter]:
    """The adapters of a file, or one of them by its name or that of its function.

    A function that is not decorated comes as an adapter of no operator.
    """
    if not path.is_file():
        raise TargetError(f"no such file: {path}")
    module = load(path)
    found = [checked(adapter) for adapter in adapters.registered() if adapter.module == module.__name__]
    if not function:
        if not found:
            raise TargetError(
                f"{path} declares no adapter; decorate a function with @attnspec.adapter(...), "
                f"or name one, as in {path}:function"
            )
        return [interpreted(each, path) for each in found]
    named = [adapter for adapter in found if function in (adapter.name, getattr(adapter.function, "__name__", ""))]
    if named:
        return [interpreted(each, path) for each in named]
    return [interpreted(undecorated(_called(path, function, module), function, module), path)]


def _called(path: Path, name: str, module: ModuleType) -> Callable[..., Any]:
    """What is called in a file: a function, that of a class such as `Function.apply`, or a class with a plan."""
    plain: Any = module
    for part in name.split("."):
        plain = getattr(plain, part, None)
    if not callable(plain):
        known = [own for own, x in vars(module).items() if inspect.isfunction(x)]
        raise TargetError(f"{path} has no function {name!r}{did_you_mean(name, known)}")
    if is_weightless(plain):
        return plain
    found = Planned(plain) if is_planned(plain) else documented(plain)
    if inspect.isclass(found):
        weighty = any(base.__module__.partition(".")[0] in MODULES for base in found.__mro__)
        hint = f"'attnspec init {path}:{name}' proposes how its weights are filled" if weighty else "name a function"
        raise TargetError(f"{path}: {name} is a class{_unmade(found)}; {hint}")
    return found


def _unmade(kind: type) -> str:
    """Why no module of a class can be made, after its name; nothing where one can, or it is no module of torch."""
    if not is_module(kind):
        return ""
    told = telling(kind)
    if told is None:
        names = ", ".join(asked(kind))
        lacking = f" that asks for {names}, and its file has no get_init_inputs() that returns a list of that"
        return lacking if names else ""
    try:
        made(kind)
    except Exception as error:
        return f" that cannot be made with what get_init_inputs() of its file returns, with {_said(error)}"
    return ""


MODULES = ("torch", "flax", "keras")
"""Packages whose classes have weights."""


def undecorated(
    function: Callable[..., Any], name: str, module: ModuleType | None = None, **declaration: Any
) -> Adapter:
    """A plain function as an adapter, or a class without weights, its framework guessed where it is not given."""
    whole = call_of(function) if is_weightless(function) else ""
    written = getattr(function, "__doc__", None) if whole else None
    function = forward_of(function) if whole else documented(function)
    known = {key: x for key, x in declaration.items() if key in KEYWORDS}
    perhaps = guess_frameworks(function, module) if not known.get("framework") else ()
    if perhaps:
        known["framework"] = perhaps[0]
    given = Adapter(
        perhaps=perhaps if len(perhaps) > 1 else (),
        compiles=compiles(function),
        made=whole,
        bundle=str(getattr(function, "bundle", "")),
        name=name,
        operator=declaration.get("operator") or "",
        function=function,
        place=place_of(function),
        summary=str(getattr(function, "__doc__", None) or written or "").strip().partition("\n")[0],
        further={key: x for key, x in declaration.items() if key not in (*KEYWORDS, "operator")},
        **known,
    )
    return checked(given, complete=False)


def compiles(function: Callable[..., Any]) -> bool:
    """Whether a framework compiles a function for every shape, as far as its type shows."""
    kind = type(function)
    made_by = f"{kind.__module__}.{kind.__qualname__}"
    return made_by.startswith(COMPILED) or hasattr(function, "_torchdynamo_orig_callable")


COMPILED = ("mlx.core._gc_func", "tensorflow.python.eager.polymorphic_function", "jaxlib._jax.PjitFunction")
"""The types of what `mx.compile`, `tf.function` and `jax.jit` return."""


def guess_frameworks(function: Callable[..., Any], module: ModuleType | None) -> tuple[str, ...]:
    """The framework of a function's arrays: by its annotations, by the names it uses, by what its module imports.

    Where they say several or none, they come before torch and NumPy, to be tried in this order.
    """
    try:
        annotations = str(inspect.signature(function))
    except (TypeError, ValueError):
        annotations = ""
    code = getattr(inspect.unwrap(function), "__code__", None)
    scope = vars(module) if module else getattr(function, "__globals__", {})
    used = [scope.get(name) for name in (code.co_names if code else ())]
    for hints in (_mentioned([annotations]), _frameworks_of(used), _frameworks_of(scope.values())):
        if len(hints) == 1:
            return tuple(hints)
    imported = _frameworks_of(scope.values())
    return tuple(sorted(FRAMEWORKS, key=lambda name: name not in imported))[: max(2, len(imported))]


def _mentioned(texts: Iterable[str]) -> set[str]:
    marks = {
        "torch": ("torch.", "Tensor"),
        "numpy": (" np.", "numpy.", "NDArray", "ndarray"),
        "jax": ("jax.", "jnp."),
        "mlx": ("mlx.", "mx.array"),
        "cupy": ("cupy.", " cp."),
        "tinygrad": ("tinygrad.",),
        "tensorflow": ("tensorflow.", " tf."),
    }
    return {name for name, words in marks.items() for text in texts if any(word in text for word in words)}


def _frameworks_of(things: Iterable[Any]) -> set[str]:
    names = [x.__name__ if isinstance(x, ModuleType) else str(getattr(x, "__module__", "") or "") for x in list(things)]
    return {name.partition(".")[0] for name in names} & set(FRAMEWORKS)


def load(path: Path) -> ModuleType:
    """A file as a module; what goes wrong in it is a `TargetError` with its place.

    It is a module of its own, or one of its package where it is imported as that.
    """
    resolved = path.resolve()
    own = named(resolved)
    try:
        with interpreting(resolved):
            if own is not None and not own.required:
                with suppress(Exception):  # its package cannot be imported, which need not concern it
                    return _imported(resolved, own)
            return _imported(resolved, own) if own is not None and own.required else _loaded(resolved)
    except (KeyboardInterrupt, TargetError):
        raise
    except BaseException as error:
        raise TargetError(f"{path} cannot be imported{_where(error, resolved)}: {_said(error)}") from error


def _imported(path: Path, own: Named) -> ModuleType:
    """A file as the module of its package."""
    with searched(own.folder):
        module = importlib.import_module(own.name)
    file = getattr(module, "__file__", None)
    if file is None or not os.path.samefile(file, path):
        raise TargetError(f"{path} is the module {own.name}, and another one of that name is imported: {file}")
    return module


def _loaded(path: Path) -> ModuleType:
    """A file as a module of its own."""
    name = f"attnspec_target_{path.stem}_{hashlib.blake2b(str(path).encode(), digest_size=4).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with searched(str(path.parent)):
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return module


@contextmanager
def searched(folder: str) -> Iterator[None]:
    """Modules are looked for in a folder first."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.path.remove(folder)


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
