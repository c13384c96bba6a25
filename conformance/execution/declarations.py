"""The form of a declaration: what each part may be, and what to write instead of something else.

Nothing here knows a specification, so that a declaration is read next to the implementation, and only plain values
leave that process: exact types, and ranges as they are.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from attnspec.adapters import Adapter, Module, adapter

from ..data.texts import safe, told
from ..errors import TargetError, UsageError, did_you_mean
from ..frameworks.known import FRAMEWORKS
from ..numerics.formats import FORMATS
from .filling import planned
from .mapping import MappingError

MOST = 10_000
"""Values of one limit that are listed; more of them are a range."""
ON = ("dtypes", "conventions", "limits", "fixed", "requires", "grade", "compiled")
"""What may be declared for a kind of device."""


class _Slip(Exception):  # noqa: N818 - it becomes a `UsageError`
    """What is wrong with a part, and what to write instead where that is known."""

    def __init__(self, says: str, instead: str = "") -> None:
        super().__init__(says)
        self.instead = instead


@dataclass(frozen=True, slots=True)
class _Part:
    """How one part of a declaration is read, what it is in words, and an example."""

    read: Callable[[Any], Any]
    expected: str
    example: str


def checked(given: Adapter, *, complete: bool = True) -> Adapter:
    """An adapter with every part of its declaration in plain values; a `UsageError` for a part that cannot be meant.

    It begins with the file and line of the function. Only what is `complete` has to name an operator.
    """
    given = replace(given, place=given.place or place_of(given.function))
    start = f"{given.place}: " if given.place else ""
    for name in given.further:
        hint = did_you_mean(name, KEYWORDS)
        raise UsageError(f"{start}a declaration has no {name!r}{hint} (after the operator: {', '.join(KEYWORDS)})")
    if not callable(given.function):
        raise UsageError(f"{start}@adapter(...) decorates a function, and not {_described(given.function)}")
    if isinstance(given.function, Module):
        _check_mapping(given.function, start)
    parts = {}
    for name, part in _PARTS.items():
        x = getattr(given, name)
        if name == "operator" and x == "" and (given.like or not complete):
            continue
        try:
            parts[name] = part.read(x)
        except _Slip as slip:
            said = " ".join(filter(None, [start + f"{name} is {_described(x)}", str(slip)]))
            instead = (
                f"write {name}={slip.instead}" if slip.instead[:1] == '"' else f"write {slip.instead or part.example}"
            )
            raise UsageError(f"{said}; expected {part.expected}; {instead}") from None
    return replace(given, **parts)


def _check_mapping(module: Module, start: str) -> None:
    """Raise `UsageError` for a mapping of weights that cannot be meant."""
    if not callable(module.factory):
        raise UsageError(f"{start}the factory of a module is called, and {_described(module.factory)} cannot be")
    try:
        planned(module.parts)
    except MappingError as error:
        raise UsageError(f"{start}{module.__name__}: {error}") from None


def names_in(what: str, given: Any) -> tuple[str, ...]:
    """The names in an argument of that kind, one or several; a `UsageError` where it holds anything else."""
    try:
        return _names(given, lambda _: "")
    except _Slip as slip:
        raise UsageError(" ".join(filter(None, [f"{what} is {_described(given)}", str(slip)]))) from None


def place_of(function: Callable[..., Any]) -> str:
    """`file:line` of a function, relative to the present folder if it lies there; nothing where it is not known."""
    try:
        if isinstance(function, Module):
            path, line = Path(function.place[0]), int(function.place[1])
        else:
            code = inspect.unwrap(function).__code__
            path, line = Path(code.co_filename), int(code.co_firstlineno)
    except (AttributeError, TypeError, ValueError):
        return ""
    here = Path.cwd()
    return f"{path.relative_to(here) if path.is_relative_to(here) else path}:{line}"


def by_name(declared: Iterable[Adapter]) -> dict[str, Adapter]:
    """Adapters by name; one name for two functions is a `TargetError`, for one would stand in the other's place.

    A function that is declared again, as where its module is loaded once more, replaces itself.
    """
    found: dict[str, Adapter] = {}
    for one in declared:
        known = found.get(one.name, one)
        if _origin(known) != _origin(one):
            places = " and ".join(x.place or place_of(x.function) or x.module for x in (known, one))
            raise TargetError(f"{places} both declare the adapter {one.name!r}; rename one of them")
        found[one.name] = one
    return found


def _origin(adapter: Adapter) -> tuple[str, str, str]:
    """The module of a function, its name there, and the operator that it is declared for."""
    return adapter.module, getattr(adapter.function, "__qualname__", ""), adapter.operator


# Reading


def _text(x: Any) -> str:
    if not isinstance(x, str):
        suggestion = _name_in(x)
        raise _Slip("", f'"{suggestion}"' if suggestion else "")
    return str.__str__(x)  # exact, whatever a subclass makes of it


def _name(x: Any) -> str:
    text = _text(x)
    if not text.strip():
        raise _Slip("")
    return text


def _module_name(x: Any) -> str:
    text = _text(x)
    if text and not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", text):
        raise _Slip("")
    return text


def _flag(x: Any) -> bool:
    if not isinstance(x, bool | np.bool_):
        raise _Slip("")
    return bool(x)


def _names(x: Any, suggest: Callable[[Any], str]) -> tuple[str, ...]:
    """One name or several, each once and in their order."""
    if isinstance(x, str):
        x = (x,)
    if isinstance(x, Mapping) or not isinstance(x, Collection):
        raise _Slip("", suggest([x]))
    found = list(x)
    for one in found:
        if not isinstance(one, str):
            raise _Slip(f"with {told(one, 80)} {_kind(one)} in it", suggest(found))
    found = sorted(found) if isinstance(x, set | frozenset) else found
    return tuple(dict.fromkeys(str.__str__(one) for one in found))


def _count(x: Any) -> int:
    """A number of things, zero among them."""
    if not isinstance(x, int | np.integer) or isinstance(x, bool) or not 0 <= x <= MOST:
        raise _Slip("")
    return int(x)


def _tiles(x: Any) -> tuple[int, ...]:
    """The lengths of tiles: of queries, and of keys."""
    found = (x,) if isinstance(x, int) else x
    if isinstance(found, str | Mapping) or not isinstance(found, Collection) or len(found) > 2:
        raise _Slip("")
    counts = tuple(map(_count, found))
    if 0 in counts:
        raise _Slip("")
    return counts


def _dtypes(x: Any) -> tuple[str, ...]:
    found = _names(x, lambda wrong: _listed("dtypes", filter(None, map(_dtype_in, wrong))))
    if not found:
        raise _Slip("")
    return found


def _devices(x: Any) -> tuple[str, ...]:
    found = _names(x, lambda _: "")
    if not all(re.fullmatch(r"[a-z][a-z0-9_]*", one) for one in found):
        raise _Slip("")
    return found


def _mapping(x: Any) -> dict[str, Any]:
    if not isinstance(x, Mapping):
        raise _Slip("")
    for key in x:
        if not isinstance(key, str):
            raise _Slip(f"with the key {told(key, 80)} {_kind(key)}")
    return {str.__str__(key): value for key, value in x.items()}


def _conventions(x: Any) -> dict[str, str]:
    found = _mapping(x)
    for name, word in found.items():
        if not isinstance(word, str):
            says = f"with {told(word, 80)} {_kind(word)} for {told(name, 80)!r}, whose words 'attnspec explain' lists"
            raise _Slip(says)
    return {name: str.__str__(word) for name, word in found.items()}


def _limits(x: Any) -> dict[str, Collection[Any]]:
    return {name: _values(name, values) for name, values in _mapping(x).items()}


def _values(name: str, x: Any) -> Collection[Any]:
    """The values of a limit: a range as it is, or a tuple."""
    name = told(name, 80)
    example = f'limits={{"{name}": range(1, 65)}}'
    if isinstance(x, range):
        found: Collection[Any] = x
    elif isinstance(x, str | bytes) or not isinstance(x, Collection):
        found = (_plain(x, f"with {told(x, 80)} {_kind(x)} for {name!r}", example),)
    elif isinstance(x, Mapping) or len(x) > MOST:
        raise _Slip(f"with {_described(x)} for {name!r}", example)
    else:
        plain = [_plain(one, f"with {told(one, 80)} {_kind(one)} among the values of {name!r}", example) for one in x]
        found = tuple(sorted(plain, key=repr) if isinstance(x, set | frozenset) else plain)
    if not found:
        raise _Slip(f"with no value for {name!r}", f"{example}, or leave it out")
    return found


def _fixed(x: Any) -> dict[str, Any]:
    return {
        name: _plain(value, f"with {told(value, 80)} {_kind(value)} for {told(name, 80)!r}")
        for name, value in _mapping(x).items()
    }


def _plain(x: Any, says: str, instead: str = "") -> bool | int | float | str | None:
    """A single value, of the exact type."""
    x = x.item() if isinstance(x, np.generic) else x
    if x is None or isinstance(x, bool):
        return x
    if isinstance(x, int):
        return int.__int__(x)
    if isinstance(x, float):
        return float.__float__(x)
    if isinstance(x, str):
        return str.__str__(x)
    raise _Slip(says, instead)


def _grade(x: Any) -> str | dict[str, str] | None:
    if x is None or isinstance(x, str):
        return None if x is None else _name(x)
    found = _mapping(x)
    for dtype, grade in found.items():
        if not isinstance(grade, str):
            raise _Slip(f"with {told(grade, 80)} {_kind(grade)} for {told(dtype, 80)!r}")
    return {dtype: str.__str__(grade) for dtype, grade in found.items()}


def _on(x: Any) -> dict[str, dict[str, Any]]:
    found = {kind: _mapping(parts) for kind, parts in _mapping(x).items()}
    for name in (name for parts in found.values() for name in parts):
        if name not in ON:
            raise _Slip(f"with {told(name, 80)!r}, where there may be {', '.join(ON)}")
    return found


_PARTS = {
    "operator": _Part(
        _name, "the name of an operator, which 'attnspec list operators' lists", '@adapter("attention", ...)'
    ),
    "name": _Part(_name, "a text", 'name="my_kernel"'),
    "framework": _Part(_name, f"the name of a framework: {', '.join(FRAMEWORKS)}", 'framework="torch"'),
    "layout": _Part(_text, "the name of a layout, which 'attnspec explain' lists with its operator", 'layout="bshd"'),
    "like": _Part(_text, "the name of a known interface", 'like="flash_attn_func"'),
    "in_place": _Part(_text, "the name of an input", 'in_place="x"'),
    "dtypes": _Part(_dtypes, "names of dtypes", 'dtypes=("float32",)'),
    "conventions": _Part(
        _conventions, "a dict of conventions and their words", 'conventions={"causal_alignment": "top_left"}'
    ),
    "limits": _Part(_limits, "a dict of sizes and the values that they may have", 'limits={"head_dim": (64, 128)}'),
    "fixed": _Part(_fixed, "a dict of options and the one value that each has", 'fixed={"causal": True}'),
    "requires": _Part(lambda x: _names(x, lambda _: ""), "conditions as texts", 'requires=("q_len <= k_len",)'),
    "grade": _Part(_grade, "the name of a grade, or a dict of dtypes and grades", 'grade="bf16"'),
    "deterministic": _Part(_flag, "True or False", "deterministic=True"),
    "batch_invariant": _Part(_flag, "True or False", "batch_invariant=True"),
    "chunk_invariant": _Part(_flag, "True or False", "chunk_invariant=True"),
    "thread_safe": _Part(_flag, "True or False", "thread_safe=True"),
    "compiled": _Part(lambda x: None if x is None else _flag(x), "True or False", "compiled=True"),
    "tiles": _Part(_tiles, "one or two lengths, of queries and of keys", "tiles=(128, 64)"),
    "splits": _Part(_count, "a number of parts", "splits=8"),
    "slow": _Part(_flag, "True or False", "slow=True"),
    "interpreted": _Part(_text, "a text", 'interpreted="Triton\'s interpreter"'),
    "differentiable": _Part(lambda x: None if x is None else _flag(x), "True or False", "differentiable=False"),
    "devices": _Part(_devices, "kinds of devices, as in cpu, cuda, mps", 'devices=("cpu",)'),
    "on": _Part(_on, "a dict of kinds of devices and what is declared for each", 'on={"cuda": {"limits": {}}}'),
    "accelerator": _Part(_text, "the type of a device, as Ray calls it", 'accelerator="H100"'),
    "environment": _Part(
        lambda x: _names(x, lambda _: ""), "requirements of pip as texts", 'environment=("flash-attn==2.6.3",)'
    ),
    "package": _Part(_module_name, "the name of the module that it needs", 'package="my_package"'),
    "extra": _Part(_text, "the name of an extra", 'extra="transformers"'),
    "seen": _Part(_text, "a text", 'seen="owner/repository#12"'),
}
KEYWORDS = [
    name
    for name, parameter in inspect.signature(adapter).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY
]


# Telling


def _described(x: Any) -> str:
    """A value and its type, on one line."""
    try:
        text = safe(repr(x), 80)
    except Exception:
        text = "(not to be shown)"
    return f"{text} {_kind(x)}"


def _kind(x: Any) -> str:
    kind = type(x).__name__
    name = {"function": "function", "ModuleType": "module", "builtin_function_or_method": "function"}.get(kind, kind)
    return f"({'an' if name[:1] in 'aeiouAEIOU' else 'a'} {safe(name, 80)})"


def _name_in(x: Any) -> str:
    """The name of a module, which is given at times in its place."""
    return x.__name__.partition(".")[0] if isinstance(x, ModuleType) else ""


def _dtype_in(x: Any) -> str:
    """The dtype that something is called after: a dtype of torch or NumPy, or a type of number."""
    text = told(x, 80) if not isinstance(x, type) else x.__name__
    last = text.rpartition(".")[2].strip("'>")
    return last if last in FORMATS else ""


def _listed(part: str, found: Iterable[str]) -> str:
    texts = [f'"{one}"' for one in dict.fromkeys(found)]
    return f"{part}=({', '.join(texts)}{',' * (len(texts) == 1)})" if texts else ""
