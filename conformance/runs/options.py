"""The options of a check, stated once: each has a name, a type, a default and a description.

The command line, pytest, `attnspec.check` and `[tool.attnspec]` of a pyproject.toml take their options from here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any

LINE, PYTEST, CALL, FILE = "attnspec check", "pytest", "attnspec.check", "[tool.attnspec]"
"""Where options are given."""
SURFACES = (LINE, PYTEST, CALL, FILE)
REPORT_DIR = "attnspec-report"
"""Where the command line keeps results, unless otherwise asked for."""
PIN = "attnspec-pin.ndjson"
"""Where the command line writes a pin, unless otherwise asked for."""
TYPES = {str: "a text", int: "an integer", float: "a number", bool: "true or false"}


def _option(
    default: Any,
    says: str,
    metavar: str = "",
    *,
    kind: type | None = None,
    choices: Collection[str] = (),
    short: str = "",
    where: Collection[str] = SURFACES,
) -> Any:
    """A field with the rest of what an option is; without a `kind` it has the type of its default."""
    found = kind or (str if default in (None, ()) else type(default))
    more = {"says": says, "metavar": metavar, "kind": found, "choices": choices, "short": short, "where": where}
    return field(default=default, metadata=more)


@dataclass(frozen=True, slots=True)
class Options:
    """What to run, as it was asked for; None and what is empty ask for nothing."""

    targets: tuple[str, ...] = _option(
        (), "Check an adapter, a file of adapters, file.py:function, or file.py:Class.", "TARGET"
    )
    operator: str | None = _option(None, "The operator that a function computes, if its name does not say it.", "NAME")
    framework: str | None = _option(
        None, "The framework of the function's arrays: torch, numpy, jax, mlx, cupy and others.", "NAME"
    )
    layout: str = _option("", "The layout of the function's arrays, such as bshd; detected if not given.", "NAME")
    like: str = _option("", "The known interface that a function has, such as flash_attn_func.", "NAME")
    dtypes: tuple[str, ...] = _option((), "Check only this dtype.", "DTYPE")
    device: str = _option(
        "cpu", "cpu, cuda, cuda:N, or another device of the framework, such as mps, xpu or tpu.", "DEVICE"
    )
    mechanisms: tuple[str, ...] = _option((), "Check only this mechanism.", "NAME")
    laws: tuple[str, ...] = _option((), "Check only this law: mechanism.law, or law.", "NAME")
    require: tuple[str, ...] = _option(
        (),
        "Fail unless this was tested: law:MECHANISM.LAW, mechanism:NAME, option:NAME, grade:NAME, share:0.95.",
        "WHAT",
    )
    specs: tuple[str, ...] = _option((), "A folder with further specifications.", "DIR")
    references: tuple[str, ...] = _option(
        (),
        "A Python file with float64 references of their operators; attnspec runs it.",
        "FILE",
        where=(LINE, PYTEST, CALL),
    )
    profile: str = _option("quick", "How much is tried: smoke, quick, ci, nightly or serving.", "NAME")
    seed: int = _option(0, "The seed of all cases.", "N")
    max_time: float | None = _option(None, "Stop drawing new cases after this time.", "SECONDS", kind=float)
    fail_on: str = _option(
        "must",
        "What fails a run: 'must' laws, 'should' laws as well, or only failures that are not known findings.",
        choices=("must", "should", "new"),
    )
    isolate: bool = _option(
        True, "Make calls in worker processes, or in this process, without limits on time and output."
    )
    time_limit: float = _option(30.0, "The longest time of a call in a worker process.", "SECONDS")
    explain_time: float = _option(
        2.0, "The time for finding the cause of a failure; 0 gives verdicts alone.", "SECONDS"
    )
    stress: int = _option(0, "Repeat each production-size call N times beside other threads.", "N")
    memory: float = _option(4.0, "The memory of a production-size case, in gigabytes.", "GB")
    workload: str = _option("", "Check only the calls of a workload, the most frequent first; see 'record'.", "FILE")
    workers: int = _option(0, "Run in N more processes.", "N", short="-n", where=(LINE, FILE))
    on: str | None = _option(
        None,
        "Run on a Ray cluster: the one of RAY_ADDRESS, or one on this machine.",
        choices=("ray",),
        where=(LINE, FILE),
    )
    shard: str = _option("", "Run only part I of N.", "I/N")
    balance: tuple[str, ...] = _option(
        (),
        "Earlier results; their durations balance the parts of --shard and order the work of --on.",
        "FILE",
        where=(LINE, FILE),
    )
    exitfirst: bool = _option(False, "Stop at the first failure.", short="-x", where=(LINE, CALL, FILE))
    pin: str = _option("", "The laws that count; other failures are only notes; see 'freeze'.", "FILE")
    waivers: str = _option("", "Excused failures; see 'waive'.", "FILE")
    resume: bool = _option(
        False, "Continue an interrupted run from the results in the report folder.", where=(LINE, PYTEST)
    )
    report_dir: str | None = _option(None, "The folder of the results.", "DIR")
    html: str | None = _option(None, "Also write the report as one HTML file.", "FILE", where=(LINE, FILE))


@dataclass(frozen=True, slots=True)
class Option:
    """One of them."""

    name: str
    default: Any
    says: str
    metavar: str
    kind: type
    """The type of a value, or of each where there are several."""
    choices: tuple[str, ...]
    short: str
    """A flag of one letter on the command line."""
    where: tuple[str, ...]
    """Where it can be given."""

    @property
    def several(self) -> bool:
        return self.default == ()

    @property
    def flag(self) -> str:
        """Its name on a command line, where one that may be repeated is in the singular."""
        return (self.name.removesuffix("s") if self.several else self.name).replace("_", "-")

    def fault(self, x: Any) -> str:
        """What is wrong with a value, as it stands in a file; nothing if it is right."""
        if self.several and not isinstance(x, list):
            return f"a list of {TYPES[self.kind].removeprefix('a ')}s"
        parts = x if self.several else [x]
        kinds = (int, float) if self.kind is float else (self.kind,)
        if not all(isinstance(part, kinds) and isinstance(part, bool) <= (self.kind is bool) for part in parts):
            return f"a list of {TYPES[self.kind].removeprefix('a ')}s" if self.several else TYPES[self.kind]
        return f"one of {', '.join(self.choices)}" if self.choices and x not in self.choices else ""


def _stated(stated: Field[Any]) -> Option:
    assert stated.default is not MISSING
    more = {**stated.metadata, "choices": tuple(stated.metadata["choices"]), "where": tuple(stated.metadata["where"])}
    return Option(stated.name, stated.default, **more)


OPTIONS = {stated.name: _stated(stated) for stated in fields(Options)}
"""All of them by name."""


def given_at(surface: str) -> list[Option]:
    """The options that can be given somewhere."""
    return [option for option in OPTIONS.values() if surface in option.where]
