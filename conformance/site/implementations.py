"""The page of an implementation: capabilities, conventions, results, findings and precision."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from attnspec.adapters import Adapter

from ..reporting.baseline import Group, Key, Verdict
from ..reporting.findings import Finding, findings, standing
from ..subjects.registered import install_command, shipped
from .history import Run
from .tables import Row, counted, framework_of, rows, verdict_of

TOLD = {
    "pass": "every law holds that was tried",
    "should": "every law holds that must",
    "waived": "what fails is waived",
    "known": "what fails is known",
    "fail": "some laws fail",
    "not_tested": "not tested here",
}


@dataclass(frozen=True, slots=True)
class Capability:
    """What a declaration says."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Known:
    """A finding, and how it stands."""

    finding: Finding
    standing: str


@dataclass(frozen=True, slots=True)
class Implementation:
    """One implementation."""

    name: str
    operator: str
    framework: str
    summary: str
    verdict: str
    told: str
    counts: str
    capabilities: tuple[Capability, ...]
    install: str
    absence: str
    """Why it was not tested, where it was not; nothing if nothing speaks against it."""
    conventions: tuple[tuple[str, str], ...]
    grades: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]
    known: tuple[Known, ...]


@functools.cache
def _adapters() -> dict[str, Adapter]:
    return {one.name: one for one in shipped()}


def names(groups: Mapping[Key, tuple[Run, Group]]) -> list[str]:
    """All implementations: those that come along, and those that were run."""
    return sorted({*_adapters(), *(key[0] for key in groups)})


def implementation(name: str, groups: Mapping[Key, tuple[Run, Group]]) -> Implementation:
    """The page of an implementation, with what is known of it."""
    adapter = _adapters().get(name)
    own = {key: found for key, found in groups.items() if key[0] == name}
    laws: dict[str, Verdict] = {
        f"{key[1]}.{law} {key[2]} {key[3]}": found
        for key, (_, group) in own.items()
        for law, found in group.laws.items()
    }
    verdict = verdict_of(laws)
    return Implementation(
        name,
        adapter.operator if adapter else "",
        framework_of(name),
        adapter.summary if adapter else "",
        verdict,
        TOLD[verdict],
        counted(laws) if laws else "",
        tuple(_capabilities(adapter)) if adapter else (),
        install_command(adapter) if adapter and adapter.extra else "",
        "" if laws or not adapter else absence(adapter),
        tuple(_conventions(own)),
        tuple(_grades(own)),
        tuple(rows(own)),
        tuple(Known(one, standing(one)) for one in findings() if any(name in seen.subjects for seen in one.seen)),
    )


def absence(adapter: Adapter) -> str:
    """What speaks against testing an implementation on any machine."""
    if adapter.devices and "cpu" not in adapter.devices:
        return f"runs on {' or '.join(adapter.devices)} alone"
    if adapter.interpreted:
        return f"takes {adapter.interpreted}, which is slow"
    if adapter.slow:
        return "is compiled for each shape, which is slow" if adapter.compiled else "is slow"
    return f"needs {adapter.package.partition('.')[0]}" if adapter.extra else ""


def _capabilities(adapter: Adapter) -> list[Capability]:
    found = {
        "dtypes": ", ".join(adapter.dtypes),
        "conventions declared": ", ".join(f"{name} = {word}" for name, word in adapter.conventions.items()),
        "limits": ", ".join(f"{name}: {_several(x)}" for name, x in adapter.limits.items()),
        "fixed": ", ".join(f"{name} = {x}" for name, x in adapter.fixed.items()),
        "requires": "; ".join(adapter.requires),
        "precision claimed": str(adapter.grade or ""),
        "layout": adapter.layout,
        "interface": adapter.like,
        "devices": ", ".join(adapter.devices),
        **{f"on {kind}": ", ".join(f"{name} = {x}" for name, x in parts.items()) for kind, parts in adapter.on.items()},
        "package": adapter.package,
        "module": adapter.module,
    }
    return [Capability(name, text) for name, text in found.items() if text]


def _several(x: object) -> str:
    return f"{x.start} to {x.stop - 1}" if isinstance(x, range) else str(x)


def _conventions(own: Mapping[Key, tuple[Run, Group]]) -> list[tuple[str, str]]:
    """The words that it follows, with the dtypes where these differ."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for key, (_, group) in own.items():
        for name, word in group.conventions.items():
            found.setdefault(name, {}).setdefault(word, {})[key[2]] = None
    return [
        (name, next(iter(words)) if len(words) == 1 else "; ".join(f"{w} in {', '.join(d)}" for w, d in words.items()))
        for name, words in sorted(found.items())
    ]


def _grades(own: Mapping[Key, tuple[Run, Group]]) -> list[tuple[str, str]]:
    """The grades that it needed, by dtype."""
    found: dict[str, dict[str, None]] = {}
    for key, (_, group) in own.items():
        if group.grade:
            found.setdefault(key[2], {})[group.grade] = None
    return [(dtype, ", ".join(grades)) for dtype, grades in found.items()]
