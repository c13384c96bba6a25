"""The Python interface: `attnspec.check` gives the results of the command line to a project's own tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from attnspec.adapters import Adapter, Module, registered

from .data.texts import safe, told
from .errors import NotConformantError, UsageError
from .execution.declarations import names_in
from .judging.first_call import noticed
from .reporting.records import CellLine, Record
from .reporting.standings import altered, standing_of
from .reporting.summary import page
from .runs.groups import Group, chosen, completed, library_of, with_further
from .runs.options import CALL, OPTIONS, Options, given_at
from .runs.pins import under_pin
from .runs.run import Run
from .subjects.subject import AdapterSubject
from .subjects.targets import subject, undecorated

LONGEST = 500
"""Characters of a call that are kept."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found. It is true if every subject is conformant, and prints as the command line would."""

    lines: Sequence[Record]
    folder: str = ""
    """Where it was written; nothing if it was not."""

    @property
    def cells(self) -> list[CellLine]:
        """Every verdict: subject, mechanism, law, dtype, device, verdict, cases, worst, says, ..."""
        return [line for line in self.lines if line["kind"] == "cell"]

    @property
    def failures(self) -> list[CellLine]:
        """The cells that fail or raise, those included that only should hold."""
        return [cell for cell in self.cells if cell["verdict"] in ("fail", "error")]

    @property
    def verdicts(self) -> dict[str, str]:
        """`conformant`, `violated`, `partial` or `not_tested`, by subject."""
        return {line["subject"]: line["verdict"] for line in self.lines if line["kind"] == "subject"}

    @property
    def conformant(self) -> bool:
        subjects = [line for line in self.lines if line["kind"] == "subject"]
        counted = {standing_of(line, self.lines[0]) for line in subjects}
        return counted == {"conformant"} and not altered(self.lines)

    def expect_conformant(self) -> None:
        """Raise `NotConformantError` (an `AssertionError`) with the report unless every subject is conformant."""
        if not self.conformant:
            raise NotConformantError(str(self))

    def __bool__(self) -> bool:
        return self.conformant

    def __str__(self) -> str:
        return "\n".join(page([dict(line) for line in self.lines], folder=self.folder))


def check(
    target: Callable[..., Any] | str | Path,
    *,
    operator: str | None = None,
    framework: str | None = None,
    layout: str = "",
    like: str = "",
    dtypes: Sequence[str] = (),
    device: str = "cpu",
    mechanisms: Sequence[str] = (),
    laws: Sequence[str] = (),
    require: Sequence[str] = (),
    specs: Sequence[str | Path] = (),
    references: Sequence[str | Path] = (),
    profile: str = "quick",
    seed: int = 0,
    max_time: float | None = None,
    fail_on: str = "must",
    isolate: bool = True,
    time_limit: float = 30.0,
    explain_time: float = 2.0,
    stress: int = 0,
    memory: float = 4.0,
    workload: str | Path = "",
    shard: str = "",
    exitfirst: bool = False,
    pin: str | Path = "",
    waivers: str | Path = "",
    report_dir: str | Path | None = None,
    **declaration: Any,
) -> Report:
    """Check a function, or whatever the command line takes as a target.

    A function under `@attnspec.adapter` is taken as it declares itself, unless an operator, a framework or a part of a
    declaration is given here. Any other is taken as the operator that its name says, or `operator`; its arrays are
    those of `framework`, or of what its module imports.

    `declaration` may hold whatever `attnspec.adapter` takes: conventions, limits, fixed,
    grade, deterministic, compiled, name. With `report_dir`, the results are written there, and each failing case, so
    that the command which is printed with it runs it again.

    `require` names what is to have been tested, as in `("law:attention.key_shift", "option:causal", "share:0.95")`;
    where it was not, the subject is violated.

    A function is called in this process; a target that is named is called in a process of its own, each call within
    `time_limit` seconds, unless `isolate` is false.

    The other keywords are the options of `attnspec check` by the same names.

    Raises `TargetError` for a target that cannot be loaded, and `UsageError` for an unknown name.
    """
    given = {name: x for name, x in locals().items() if name in OPTIONS and x != OPTIONS[name].default}
    target = str(target) if isinstance(target, Path) else target
    if isinstance(target, str) and declaration:
        raise UsageError(f"{target!r} declares itself; {', '.join(declaration)} can be said of a function alone")
    if not (isinstance(target, str) or callable(target)):
        raise UsageError(f"check() takes a function or a target as text, not a {type(target).__name__}")
    options = under_pin(Options(targets=(target,) if isinstance(target, str) else (), **_options(given)))
    command = _typed(target, given, declaration)
    run = Run(options, command, None if isinstance(target, str) else _groups(target, options, declaration))
    run.execute()
    return Report(cast(list[Record], run.lines), options.report_dir or "")


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a run, from keywords."""
    found = {name: _plain(x) for name, x in given.items()}
    several = {option.name for option in given_at(CALL) if option.several}
    return found | {name: names_in(name, x) for name, x in found.items() if name in several}


def _plain(x: Any) -> Any:
    """Paths as texts."""
    if isinstance(x, list | tuple):
        return [_plain(part) for part in x]
    return str(x) if isinstance(x, Path) else x


def _typed(target: Callable[..., Any] | str, *keywords: Mapping[str, Any]) -> str:
    """The call as somebody may have typed it."""
    first = repr(target) if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)
    rest = [
        f"{name}={x!r}" if type(x) is str else f"{name}={told(x)}" for given in keywords for name, x in given.items()
    ]
    return safe(f"attnspec.check({', '.join([first, *rest])})", LONGEST)


def _groups(function: Callable[..., Any], options: Options, declaration: dict[str, Any]) -> list[Group]:
    if isinstance(function, Module):
        return _module_groups(function, options, declaration)
    own = next((a for a in registered() if a.function is function and (a.operator or a.like)), None)
    asked = options.operator or options.framework or options.layout or options.like
    if own is not None and not (declaration or asked):
        return _declared_groups(own, options)
    name = declaration.pop("name", getattr(function, "__name__", type(function).__name__))
    dtypes = options.dtypes or ("float32",)
    known = library_of(options)
    declaration |= {key: x for key in ("layout", "like") if (x := getattr(options, key))}
    adapter = undecorated(function, name, options.operator, options.framework, known, dtypes=dtypes, **declaration)
    return _all_of(
        subject(adapter, declared=bool(declaration), known=known, device=options.device),
        _source(function, name),
        options,
    )


def _module_groups(function: Module, options: Options, declaration: Mapping[str, Any]) -> list[Group]:
    """The groups of a module, which declares itself."""
    if declaration or options.operator or options.framework:
        raise UsageError(f"{function.__name__} declares itself: say the rest in attnspec.module(...)")
    return _declared_groups(next(a for a in registered() if a.function is function), options)


def _declared_groups(adapter: Adapter, options: Options) -> list[Group]:
    """The groups of an adapter, by what it declares."""
    one = subject(adapter, known=library_of(options), device=options.device)
    name = one.adapter.name
    path, _, _ = one.adapter.place.rpartition(":")
    source = f"{path}:{name}" if name.isidentifier() and path.endswith(".py") and Path(path).is_file() else ""
    return _all_of(one, source, options)


def _all_of(one: AdapterSubject, source: str, options: Options) -> list[Group]:
    """The groups of a subject, and those of its other calls and of gradients."""
    known = library_of(options)
    notes, laws_of = noticed(one, options.device, options.dtypes), chosen(options, known)
    several, more = with_further(one, options.device, known, laws_of)
    found = [
        Group(one.adapter.name, each, known[mechanism], dtype, laws, source, (*notes, *more))
        for each in several
        for mechanism, laws in laws_of(each.operator).items()
        for dtype in options.dtypes or one.claims.dtypes
    ]
    return completed(found, options)


def _source(function: Callable[..., Any], known_as: str) -> str:
    """The target under which another process finds a function; nothing for one that is not a function of a file."""
    name, path = getattr(function, "__qualname__", ""), getattr(getattr(function, "__code__", None), "co_filename", "")
    if not name.isidentifier() or name != known_as or not Path(path).is_file() or not path.endswith(".py"):
        return ""
    here = Path(path).resolve()
    return f"{here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here}:{name}"
