"""The settings of a project: `[tool.attnspec]` in its pyproject.toml.

[tool.attnspec]
targets = ["kernels.py", "other.py:flash"]
dtypes = ["float32", "bfloat16"]
profile = "ci"

The keys are the names of options. Files are looked for beside the pyproject.toml.
"""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..data.texts import safe
from ..errors import UsageError, did_you_mean
from ..execution import addresses
from ..execution.addresses import EXEC, PLACE, words_of
from ..execution.interpreters import parted
from .options import FILE, TYPES, Option, given_at

NAME = "pyproject.toml"


def declared(folder: Path) -> dict[str, Any]:
    """The options that are declared in the nearest pyproject.toml, in a folder or above it; none without such a table.

    A key that names no option, or a value of another type, is a `UsageError`.
    """
    path = next((up / NAME for up in (folder, *folder.parents) if (up / NAME).is_file()), None)
    if path is None:
        return {}
    shown = safe(os.path.relpath(path, folder))
    try:
        tools = tomllib.loads(path.read_text("utf-8")).get("tool", {})
    except (OSError, ValueError) as error:
        raise UsageError(f"{shown} cannot be read: {safe(str(error))}") from None
    table = tools.get("attnspec", {}) if isinstance(tools, Mapping) else {}
    if not isinstance(table, Mapping):
        raise UsageError(f"{shown}: tool.attnspec is not a table; write [tool.attnspec]")
    known = {option.name: option for option in given_at(FILE)}
    return {name: _value(known, name, x, path.parent, shown) for name, x in table.items()}


def _value(known: Mapping[str, Option], name: str, x: Any, folder: Path, shown: str) -> Any:
    if name not in known:
        hint = did_you_mean(name, known) or f" (keys: {', '.join(known)})"
        raise UsageError(f"{shown}: [tool.attnspec] has the unknown key {safe(name)!r}{hint}")
    option = known[name]
    expected = option.fault(x)
    if expected:
        raise UsageError(f"{shown}: [tool.attnspec] {name} is {_told(x)}; expected {expected}")
    if name == "targets":
        return tuple(_target(target, folder) for target in x)
    if name in ("specs", "balance"):
        return tuple(_placed(each, folder) for each in x)
    if name in ("pin", "waivers", "report_dir", "html"):
        return _placed(x, folder)
    return tuple(x) if option.several else option.kind(x)


def _target(target: str, folder: Path) -> str:
    """A target whose files are seen from the present folder: its own, and the interpreter that calls it."""
    if target.startswith(EXEC):
        command, function = addresses.parted(target)
        words = [_run_from(word, folder) if (folder / word).is_file() else word for word in words_of(command)]
        return EXEC + shlex.join(words) + (f"{PLACE}{function}" if function else "")
    name, python = parted(target)
    name = _placed(name, folder) if ".py" in name else name
    return f"{name}@{_placed(python, folder)}" if python else name


def _placed(name: str, folder: Path) -> str:
    """A file's name as it is seen from the present folder."""
    return name if Path(name).is_absolute() or not name else os.path.relpath(folder / name)


def _run_from(word: str, folder: Path) -> str:
    """A file of a command as it is seen from the present folder; a bare name would be looked for elsewhere."""
    placed = _placed(word, folder)
    return placed if os.sep in placed else os.path.join(os.curdir, placed)


def _told(x: Any) -> str:
    if isinstance(x, str):
        return safe(repr(x), 60)
    if isinstance(x, list):
        return "a list" if all(isinstance(part, str) for part in x) else "a list of other things"
    return TYPES.get(type(x), f"a {type(x).__name__}")
