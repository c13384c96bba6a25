"""What to do about a failure: if it is meant, and if it is not."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from .workloads import WORKED

NO_DEVICE = "0 active drivers"
"""What Triton says where there is no device for its kernels."""
PRODUCTS = 'ask for products in full precision, as by input_precision="ieee" in Triton'
"""What to do about factors of 11 bits."""


def advice(witness: Mapping[str, Any], cell: Mapping[str, Any]) -> str:
    """What to do if it is meant, and what if it is not."""
    law = cell["law"]
    if follows := witness.get("follows"):
        shown = f"these are the gradients of what the function returns, as {follows['told']} differences show"
        told = shown if follows["told"] else "it ends in the same way where no gradients are asked for"
        return f"fix {follows['operator']} first: {told}"
    likeness, fixed = witness["likeness"], witness.get("fixed")
    together = likeness is not None and len(likeness["causes"]) > 1
    if likeness and likeness["convention"] and not (together and fixed):
        return _of_words([cause["name"] for cause in likeness["causes"]])
    if fixed:
        return _of_fixed(fixed["option"], fixed["value"], cell["operator"])
    if cell["law"] == "contract.precision":
        return _of_precision(witness.get("elsewhere"), str(cell["says"]), named=likeness is not None)
    if coarse := re.search(r"behaves as (\w+), claims (\w+)", cell["says"] or ""):
        return f"it would pass as {coarse[1]}: {_of_precision(witness.get('elsewhere'), coarse[0])}"
    unusual = ", ".join(f"{name} = {value(x)}" for name, x in witness["unusual"].items())
    if cell["verdict"] == "error" and NO_DEVICE in str(cell["says"]):
        return "Triton finds no device here: TRITON_INTERPRET=1 in the environment has its interpreter run the kernels"
    if cell["verdict"] == "error":
        return "if it is not supported, raise attnspec.Unsupported or declare limits; otherwise -v shows the trace"
    if unusual:
        return f"if {unusual} is not supported, raise attnspec.Unsupported or remove the option; otherwise fix it"
    if law.startswith("convention."):
        return f"attnspec explain {law.removeprefix('convention.')}"
    if law.startswith(WORKED):
        law = "definition"
    further = "".join(f" --spec {shlex.quote(folder)}" for folder in witness.get("specs", ()))
    return f"attnspec explain {law if law.startswith('contract.') else cell['mechanism'] + '.' + law}{further}"


def _of_words(causes: Sequence[str]) -> str:
    """What to do about other words of conventions, alone or with a mistake."""
    words = dict[str, str](name.split(" = ") for name in causes if re.fullmatch(r"\w+ = \w+", name))
    stated, mistakes = f"declare conventions={words!r}", [name for name in causes if name.split(" = ")[0] not in words]
    if mistakes:
        return f"fix {mistakes[0]}; if {causes[-1]} is intended, {stated}"
    return f"if {'both are ' if len(causes) > 1 else ''}intended, {stated}; if not, fix it"


def _of_fixed(option: str, meant: Any, operator: str) -> str:
    """What to do about an option that a subject does not take, and may be meant to have in every call."""
    text = str(meant).lower() if isinstance(meant, bool) else meant
    stated = f"--like '{operator}() fixed({option}={text})', or fixed={{{option!r}: {meant!r}}} in @adapter"
    return f"if {option} = {meant} is meant in every call, declare it: {stated}; otherwise fix it"


def _of_precision(elsewhere: Sequence[str] | None, says: str, *, named: bool = False) -> str:
    """What to do about a coarse result, whose cause may be named, by what else is wrong; None where that is unknown."""
    if elsewhere:
        count = len(elsewhere) - 1
        return f"fix {elsewhere[0]}{f' and {count} more' if count else ''} first: this may follow from it"
    known = "right in every law" if elsewhere is not None else "if it is right in every law"
    on_tensor_cores = says.startswith("behaves as tf32")
    looked_for = "fix that" if named else "look for an intermediate stored in low precision"
    sought = PRODUCTS if on_tensor_cores and not named else looked_for
    return f"{known}: if intended, declare the grade; if not, {sought}"


def value(x: Any) -> str:
    """A size or the value of an option, as short as it is."""
    return f"{x:g}" if isinstance(x, float) else str(x)
