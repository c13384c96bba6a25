"""Adapters by name: those that come along, that packages register, and that are wrong on purpose."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import entry_points
from types import ModuleType

from attnspec import adapters
from attnspec.adapters import Adapter

from ..errors import TargetError, UsageError, did_you_mean
from ..execution.declarations import by_name, checked
from ..frameworks.framework import kind_of

GROUP = "attnspec.adapters"
"""The entry points under which other packages register modules of adapters."""
AUDITED = ("controls", "faults")
"""The folders whose adapters are there for the audit, and not for users."""
INTERPRETERS = {"Triton's interpreter": "triton", "Pallas' interpret mode": "jax"}
"""The package of each interpreter, by what adapters call it."""
FAULT = "fault:"
"""What the names of adapters begin with that are wrong on purpose."""


def installed(adapter: Adapter) -> bool:
    """Whether what an adapter presents, and what interprets it, can be imported."""
    wanted = (adapter.package, INTERPRETERS.get(adapter.interpreted, ""))
    try:
        return all(importlib.util.find_spec(package) is not None for package in wanted if package)
    except ModuleNotFoundError:  # of a.b, a is missing
        return False


def runs_on(adapter: Adapter, device: str) -> bool:
    """Whether it is declared for that kind of device, or for none in particular."""
    return not adapter.devices or kind_of(device) in adapter.devices


def declared_on(adapter: Adapter, device: str | None) -> Adapter:
    """A checked adapter as it is on a device; what it declares wrongly for any device is a `UsageError`."""
    found = adapter
    for kind, parts in adapter.on.items():
        own = checked(replace(adapter, **parts), complete=False)
        changed = {name: getattr(own, name) for name in parts}
        for name in ("conventions", "limits", "fixed"):
            if name in changed:
                changed[name] = {**getattr(adapter, name), **changed[name]}
        if "requires" in changed:
            changed["requires"] = (*adapter.requires, *changed["requires"])
        found = replace(adapter, **changed) if device is not None and kind == kind_of(device) else found
    return found


def install_command(adapter: Adapter) -> str:
    """The command that installs what an adapter presents.

    What comes along without an extra is on no index, where its name may be another package's.
    """
    if adapter.extra:
        return f"pip install 'attnspec[{adapter.extra}]'"
    if adapter.module.startswith(f"{adapters.__name__}."):
        return "build it from source, as its project describes"
    return f"pip install {adapter.package.partition('.')[0]}"


def shipped(operator: str = "") -> list[Adapter]:
    """The adapters of this package and of those that register some, installed or not, module by module.

    With an operator only its adapters are returned, and no other declaration is read.
    """
    return [checked(one) for one in _declared() if operator in ("", one.operator)]


def adapter_names() -> list[str]:
    """The names of all of them, for which no declaration is read."""
    return [one.name for one in _declared()]


def _declared() -> list[Adapter]:
    """The same as declared; reading all parts of hundreds of declarations takes longer than importing them."""
    modules = families()
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            raise TargetError(f"the entry point {entry.name!r} ({entry.value}) cannot be loaded: {error}") from error
        modules.append(entry.module)
    place = {module: at for at, module in enumerate(modules)}  # whichever was imported first
    found = by_name(one for one in adapters.registered() if one.module in place)
    return sorted(found.values(), key=lambda one: place[one.module])


def families(audited: str = "") -> list[str]:
    """The modules of attnspec.adapters, imported: those of implementations, or the audit's controls or faults."""
    return [*_imported(audited)]


@functools.cache
def _imported(audited: str) -> tuple[str, ...]:
    """The same, whose folders are read once."""
    folders = {folder.name: importlib.import_module(folder.name) for folder in _inside(adapters)}
    kinds = {name: name.rpartition(".")[2] for name in folders}
    wanted = [name for name in folders if (kinds[name] if kinds[name] in AUDITED else "") == audited]
    chosen = [module.name for name in wanted for module in _inside(folders[name])]
    for name in chosen:
        importlib.import_module(name)
    return tuple(chosen)


def _inside(package: ModuleType) -> Iterator[pkgutil.ModuleInfo]:
    return pkgutil.iter_modules(package.__path__, f"{package.__name__}.")


def every_one(device: str, *, elsewhere: bool = False) -> list[str]:
    """The names of all shipped adapters that can be run on a device without much patience, here or `elsewhere`."""
    return [
        one.name
        for one in shipped()
        if (installed(one) or (elsewhere and one.environment)) and runs_on(one, device) and not one.slow
    ]


def adapter_named(name: str) -> Adapter | None:
    """The adapter of that name, if there is one; no other declaration is read."""
    return next((checked(one) for one in _declared() if one.name == name), None)


def find(name: str) -> Adapter:
    """The adapter of that name; an unknown one is a `TargetError`."""
    if (found := adapter_named(name)) is not None:
        return found
    known = [adapter.name for adapter in shipped()]
    hint = did_you_mean(name, known) or "; a file is given as path/to/file.py, and 'attnspec list adapters' lists them"
    raise TargetError(f"unknown target {name!r}{hint}")


def variants() -> dict[str, Adapter]:
    """The correct variants of the audit, by name."""
    modules = families("controls")
    return by_name(adapter for adapter in adapters.registered() if adapter.module in modules)


def faults() -> dict[str, Adapter]:
    """The functions that are wrong on purpose, by name."""
    modules = families("faults")
    return by_name(adapter for adapter in adapters.registered() if adapter.module in modules)


def fault(name: str) -> Adapter:
    """The function of that name that is wrong on purpose."""
    known = faults()
    if name not in known:
        raise UsageError(f"there is no {name!r}{did_you_mean(name, known)}")
    return known[name]
