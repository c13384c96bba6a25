"""The capabilities of a program: its functions, as adapters."""

from __future__ import annotations

import functools
import importlib.resources
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from attnspec.adapters import Adapter

from ..data.texts import safe
from ..errors import TargetError, UsageError, did_you_mean
from .addresses import EXEC
from .declarations import checked
from .messages import Elsewhere
from .programs import Served


class Offered(Elsewhere):
    """A function of a program: its name, its signature, and who is to be asked."""

    def __init__(self, name: str, signature: inspect.Signature, served: Served) -> None:
        super().__init__(name, f"{EXEC}{served.command}", signature)
        self.served = served


@functools.cache
def schema() -> Mapping[str, Any]:
    """The JSON Schema of the messages."""
    return json.loads(importlib.resources.files("attnspec.execution").joinpath("protocol.schema.json").read_bytes())


def wrong(message: Any, *kinds: str) -> str:
    """What keeps a message from being one of those kinds, in words; nothing if it is."""
    import jsonschema
    from jsonschema.exceptions import best_match

    refs = [{"$ref": f"#/$defs/{kind}"} for kind in kinds]
    chosen = {"$defs": schema()["$defs"], **(refs[0] if len(refs) == 1 else {"oneOf": refs})}
    error = best_match(jsonschema.Draft202012Validator(chosen).iter_errors(message))
    if error is None:
        return ""
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path).lstrip(".")
    return safe(f"{place}: {error.message}" if place else error.message, 300)


def adapters_of(answer: Any, served: Served, name: str = "") -> list[Adapter]:
    """The functions that an answer tells of, or the one of that name, as adapters.

    A declaration that cannot be meant is a `UsageError`, and an answer that is none a `TargetError`.
    """
    label = f"{EXEC}{served.command}"
    if says := wrong(answer, "Capabilities"):
        raise TargetError(f"{safe(label)}: its capabilities do not fit the protocol: {says}")
    found = [_adapter(said, served, label) for said in answer["functions"]]
    if not name:
        return found
    chosen = [adapter for adapter in found if adapter.name == name]
    if not chosen:
        names = [adapter.name for adapter in found]
        raise TargetError(f"{safe(label)} has no function {name!r}{did_you_mean(name, names)} (it has {_told(names)})")
    return chosen


def _adapter(said: Mapping[str, Any], served: Served, label: str) -> Adapter:
    parts = dict(said)
    kind, takes = inspect.Parameter, parts.pop("takes", ())
    for name in takes:
        if not name.isidentifier():
            raise UsageError(f"{safe(label)}: {said['name']!r} takes {safe(name)!r}, which is no name")
    options = [kind(name, kind.KEYWORD_ONLY, default=None) for name in dict.fromkeys(takes)]
    signature = inspect.Signature([kind("arrays", kind.VAR_POSITIONAL), *options])
    one = replace(served, strides=parts.pop("strides", False))
    limits = {name: _values(x) for name, x in parts.pop("limits", {}).items()}
    many: dict[str, Any] = {name: tuple(x) if type(x) is list else x for name, x in parts.items()}
    function = Offered(said["name"], signature, one)
    return checked(Adapter(function=function, framework="numpy", limits=limits, place=label, **many))


def _values(x: Any) -> Any:
    return range(x["least"], x["most"] + 1, x.get("step", 1)) if isinstance(x, dict) else tuple(x)


def _told(names: Sequence[str]) -> str:
    return safe(", ".join(names), 300)
