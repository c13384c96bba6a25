"""From command-line targets to subjects: shipped and registered adapters, files, functions, mistakes.

torch_sdpa                      an adapter that is shipped, or registered by a package
path/to/file.py                 every adapter declared in a file
path/to/file.py:function        one of them, or a function that is not decorated at all
package.module:function         the same of a module that can be imported
reference                       the float64 reference, as a subject of every operator
mistake:attention.no_scale      a known mistake
fault:boundary_key_twice        a function that is wrong on purpose
exec:./kernels --serve          every function of a program that speaks the protocol of docs/protocol.md
exec:./kernels --serve::name    one of them
TARGET@path/to/python           any of them that is a function, called by the interpreter of another environment
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnspec.adapters import Adapter

from ..errors import TargetError, UsageError, did_you_mean, label_of
from ..execution import addresses, interpreters, sources
from ..execution.addresses import EXEC, words_of
from ..execution.calling import Caller, Interface
from ..execution.declarations import checked
from ..execution.dotted import located
from ..execution.interpreters import Interpreter, examined, parted
from ..execution.supervised import supervised
from ..frameworks.known import FRAMEWORKS, is_installed
from ..language.expressions import Expression
from ..mechanisms.library import Library
from ..mechanisms.loader import library, mechanism_named
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.references import has_reference
from ..mechanisms.signatures import signature_named
from ..mechanisms.stated import is_stated, stated
from .claims import Claims
from .guesses import Asked, completed
from .registered import FAULT, declared_on, fault, find, install_command, installed, runs_on
from .renaming import stated_for
from .stand_ins import DefinitionSubject, ReferenceSubject
from .subject import AdapterSubject, Subject

if TYPE_CHECKING:
    from ..execution.supervisor import Supervisor


def resolve(
    target: str,
    *,
    operator: str | None = None,
    framework: str | None = None,
    layout: str = "",
    like: str = "",
    device: str | None = "cpu",
    supervisor: Supervisor | None = None,
    known: Library | None = None,
    elsewhere: bool = False,
) -> list[Subject]:
    """The subjects that a target names, called under a supervisor or in this process.

    Their mechanisms are those that are `known`, or the shipped ones.
    What is called `elsewhere` need not have its packages here, if its environment has them.
    `operator`, `framework`, `layout` and `like` are for functions that do not say them by themselves.
    Raises `TargetError` where the target cannot be loaded or does not run on the device,
    if there is one, and `UsageError` where it names nothing.
    """
    asked = Asked(operator, framework, layout, like)
    if target.startswith(EXEC):
        served = _served(target, supervisor, known)
        _check_device(served, device)
        return [*served]
    target, python = parted(target)
    if python:
        return _elsewhere(target, python, asked, device, supervisor, known)
    if target == "reference":
        return [ReferenceSubject(m) for m in operators(known).values() if has_reference(m)]
    if target.startswith("mistake:"):
        return [mistake(target.removeprefix("mistake:"), known)]
    if target.startswith(FAULT):
        return [subject(fault(target), supervisor=supervisor, known=known, device=device)]
    path = file_of(target)
    if path is not None:
        found = from_file(path, function_of(target), asked, supervisor, known, elsewhere=elsewhere, device=device)
    else:
        found = [subject(find(target), supervisor=supervisor, known=known, elsewhere=elsewhere, device=device)]
    _check_device(found, device)
    return [*found]


def _elsewhere(
    target: str,
    python: str,
    asked: Asked,
    device: str | None,
    supervisor: Supervisor | None,
    known: Library | None,
) -> list[Subject]:
    """The subjects of a target that is called by another interpreter; each has the name of its environment."""
    whole = f"{target}@{python}"
    if target == "reference" or target.startswith("mistake:"):
        raise UsageError(f"{whole}: {target} is computed by attnspec itself; name it without @{python}")
    if supervisor is None:
        raise UsageError(f"{whole}: another interpreter needs its own process; leave out --no-isolate")
    if in_module(target):
        raise UsageError(f"{whole}: a module is found by the Python that runs attnspec; name its file instead")
    path = file_of(target)
    if path is not None:
        if not path.is_file():
            raise TargetError(f"no such file: {path}")
        own = examined(python, interpreters.imported(path))
        if supervisor.framework(path) != "numpy":
            own.require(supervisor.framework(path), str(path))
        found = from_file(path, function_of(target), asked, supervisor, known, own, device=device)
    else:
        adapter = fault(target) if target.startswith(FAULT) else find(target)
        needed = [*filter(None, (adapter.framework, adapter.package))]
        own = examined(python, needed)
        for module in needed:
            own.require(module, adapter.name)
        found = [subject(adapter, supervisor=supervisor, known=known, own=own, device=device)]
    _check_device(found, device)
    return [*found]


def _served(target: str, supervisor: Supervisor | None, known: Library | None) -> list[AdapterSubject]:
    """The functions of a program, as it says them."""
    if supervisor is None:
        raise UsageError(f"{target}: a program needs a worker process; leave out --no-isolate")
    return [subject(found, supervisor=supervisor, known=known) for found in supervisor.offered(target)]


def _check_device(found: Sequence[AdapterSubject], device: str | None) -> None:
    for adapter in (one.adapter for one in found):
        if device is not None and not runs_on(adapter, device):
            raise TargetError(f"{adapter.name} does not run on {device}; add --device {adapter.devices[0]}")


def files_of(target: str) -> list[Path]:
    """The files that a target names: its own, or those of the words of a command that are files."""
    if target.startswith(EXEC):
        return [path for word in words_of(addresses.parted(target)[0]) if (path := Path(word)).is_file()]
    path = file_of(target)
    return [path] if path is not None else []


def file_of(target: str) -> Path | None:
    """The file of Python that a target names, if it names one; a `TargetError` for a module that is not there."""
    if target.startswith(EXEC):
        return None
    target = parted(target)[0]
    path, _, function = target.partition(".py:")
    if target.endswith(".py") or function:
        return Path(f"{path}.py" if function else target)
    found = in_module(target)
    if found is None:
        return None
    file = located(found)
    if file is None:
        top = found.partition(".")[0]
        missing = f"module {found!r}" if located(top) else f"module {top!r} in this environment or the current folder"
        raise TargetError(f"{target}: there is no {missing}")
    return file


def function_of(target: str) -> str:
    """The function that a target names in a file or module; nothing where all of its adapters are meant."""
    target = parted(target)[0]
    return target.partition(":")[2] if in_module(target) else target.partition(".py:")[2]


def in_module(target: str) -> str | None:
    """The module of a target such as `package.module:function`; None where it is of another kind."""
    module, _, function = target.partition(":")
    names = [*module.split("."), *function.split(".")]
    kinds = (FAULT, "mistake:", EXEC)
    return module if function and all(map(str.isidentifier, names)) and not target.startswith(kinds) else None


def operators(known: Library | None = None) -> dict[str, Mechanism]:
    """The mechanisms that state an operator, by name."""
    known = known or library()
    return {name: known[name] for name in known.stating}


def subject(
    adapter: Adapter,
    *,
    declared: bool = True,
    supervisor: Supervisor | None = None,
    path: Path | None = None,
    known: Library | None = None,
    own: Interpreter | None = None,
    elsewhere: bool = False,
    device: str | None = None,
) -> AdapterSubject:
    """An adapter as a subject; what it declares wrongly is an error with its place.

    With a supervisor its calls are made in another process, which finds the adapter in its module, or in a file.
    That process is of this interpreter, or of its `own`.
    """
    known, adapter = known or library(), declared_on(checked(adapter), device)
    if adapter.like and not adapter.operator:
        adapter = replace(adapter, operator=signature_named(adapter.like).operator)
    if is_stated(adapter.like):
        adapter = replace(adapter, like=_whole(adapter.like, adapter.function, known))
    label = label_of(adapter.name, adapter.place)
    if adapter.operator not in known.stating:
        hint = did_you_mean(adapter.operator, known.stating)
        if adapter.operator in known:
            hint = f"; it is a mechanism of the operator {known[adapter.operator].operator!r}"
        raise UsageError(f"{label}: unknown operator {adapter.operator!r}{hint}{_where_else(known)}")
    if adapter.framework not in FRAMEWORKS:
        hint = did_you_mean(adapter.framework, FRAMEWORKS)
        raise UsageError(f"{label}: unknown framework {adapter.framework!r}{hint}")
    at_hand = own is not None or (elsewhere and bool(adapter.environment))
    if not at_hand and not installed(adapter):
        raise TargetError(f"{adapter.name} needs {adapter.package}, which is not installed: {install_command(adapter)}")
    if not at_hand and not is_installed(adapter.framework):
        needed = adapter.framework
        raise TargetError(f"{label}: the framework {needed!r} is not installed: pip install {needed}")
    if supervisor is None:
        return AdapterSubject(adapter, known[adapter.operator], declared=declared)

    def supervise(adapter: Adapter, interface: Interface, claims: Claims) -> Caller:
        python = own.path if own else ""
        return supervised(supervisor, adapter, interface, path, patient=claims.compiled, python=python)

    return AdapterSubject(adapter, known[adapter.operator], declared=declared, supervise=supervise, own=own)


def _whole(like: str, function: Callable[..., Any], known: Library) -> str:
    """A line that states an interface, with the parameters that it does not speak of."""
    line = stated(like)
    return (stated_for(function, known[line.operator], line) if line.operator in known.stating else "") or like


def _where_else(known: Library) -> str:
    return "" if known.folders else " (--spec DIR adds those of a folder)"


def mistake(address: str, known: Library | None = None) -> DefinitionSubject:
    """A known mistake as a subject."""
    mechanism_name, _, name = address.partition(".")
    mechanism = mechanism_named(mechanism_name, known)
    if name not in mechanism.mistakes:
        raise UsageError(f"{mechanism_name} has no mistake {name!r}{did_you_mean(name, mechanism.mistakes)}")
    change = mechanism.mistakes[name].change
    one = DefinitionSubject(mechanism, f"mistake:{address}", change)
    needed = mechanism.own & frozenset(mechanism.inputs)
    one.claims = replace(one.claims, names=one.claims.names - _ignored(mechanism, change), always=needed)
    return one


def _ignored(mechanism: Mechanism, change: Mapping[str, Expression]) -> frozenset[str]:
    """The options that a definition with a change leaves alone, and so cannot claim."""
    if mechanism.by_reference:
        return frozenset()
    parts = (mechanism.sizes, mechanism.inputs, mechanism.options, mechanism.definition, change)
    used = {name for part in parts for expression in part.values() for name in expression.uses}
    # a condition on one name is its domain, which every call is to keep
    used |= {name for condition in mechanism.requires.values() if len(condition.uses) > 1 for name in condition.uses}
    used |= {*change, *mechanism.vocabulary}
    return frozenset(name for name in mechanism.options if name in mechanism.defaults and name not in used)


# Files


def from_file(
    path: Path,
    function: str,
    asked: Asked,
    supervisor: Supervisor | None,
    known: Library | None = None,
    own: Interpreter | None = None,
    elsewhere: bool = False,
    device: str | None = None,
) -> list[AdapterSubject]:
    """The adapters declared in a file, or one function of it; with a supervisor, the file is loaded elsewhere."""
    python = own.path if own else ""
    declared = supervisor.declared(path, function, python) if supervisor else sources.declared(path, function)
    declared = [replace(found, layout=found.layout or asked.layout) for found in declared]
    return [
        subject(found, supervisor=supervisor, path=path, known=known, own=own, elsewhere=elsewhere, device=device)
        if found.operator or found.like
        else subject(
            completed(found, asked, known),
            declared=False,
            supervisor=supervisor,
            path=path,
            known=known,
            own=own,
        )
        for found in declared
    ]


def undecorated(
    function: Callable[..., Any],
    name: str,
    operator: str | None,
    framework: str | None,
    known: Library | None = None,
    **declaration: Any,
) -> Adapter:
    """A plain function as an adapter, its operator and framework guessed where they are not given."""
    found = sources.undecorated(function, name, **declaration)
    return completed(found, Asked(operator, framework, found.layout, found.like), known)
