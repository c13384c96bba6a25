"""A declaration of a class with weights, part by part, and its text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

DTYPES = 'dtypes=("float32",),  # and the others that it takes'
"""The line of a declaration that says in which dtypes it is tried."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A declaration of a class, part by part as it is written."""

    factory: str
    operator: str
    weights: Mapping[str, str | tuple[str, ...]]
    inputs: str = ""
    call: str = ""
    same: bool = False
    keywords: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, str] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    returns: str = ""
    framework: str = "torch"

    def arguments(self, without: str = "") -> tuple[list[str], list[str]]:
        """The inputs that a function which makes its call takes, and what that passes, but for a keyword."""
        inputs = [*re.findall(r'"(\w+)"', self.inputs)] or ["x"]
        passed = ["x", f"{inputs[2]}=context"] if inputs[2:] else inputs
        return inputs[:2], [*passed, *(f"{name}={x}" for name, x in self.keywords.items() if name != without)]

    def text(self, name: str, remarks: Sequence[str] = ()) -> str:
        """The declaration under a name, with remarks before it."""
        lines = [*(f"# {remark}" for remark in remarks), f"{name} = attnspec.module(", f"    {self.factory},"]
        lines += [f'    "{self.operator}",', f'    name="{name}",', "    weights={"]
        lines += [f'        "{weight}": {_quoted(text)},' for weight, text in self.weights.items()] + ["    },"]
        lines += [f"    inputs={self.inputs},"] * bool(self.inputs) + [f"    call={self.call},"] * bool(self.call)
        lines += ['    same={"context": "x"},'] * self.same
        for part in ("options", "keywords", "fixed"):
            said: Mapping[str, str] = getattr(self, part)
            words = ", ".join(f'"{key}": {x}' for key, x in said.items())
            lines += [f"    {part}={{{words}}},"] * bool(said)
        lines += [f"    requires={_quoted(self.requires)},"] * bool(self.requires)
        lines += [f"    returns={self.returns},"] * bool(self.returns)
        lines += [f'    framework="{self.framework}",', f"    {DTYPES}", ")"]
        return "\n".join(lines)


def _quoted(text: str | tuple[str, ...]) -> str:
    if isinstance(text, str):
        return f'"{text}"'
    return _quoted(text[0]) if len(text) == 1 else f"({', '.join(map(_quoted, text))})"
