"""Why a call has no result, as text that is safe to show."""

from __future__ import annotations

import dis
import inspect
import os
import re
import traceback
from dataclasses import dataclass
from typing import Any, Literal

from ..data.exact import exact_text
from ..data.texts import safe, safe_lines
from ..frameworks.known import FRAMEWORKS

WORDLESS = "(no message)"
"""How an error is told that says nothing."""
SAID = 2000
"""Characters of what a fault says, and of a line of its trace."""
TRACED = 100
"""Lines of the trace of a fault."""
ABRUPT = ("died", "hung", "flooded")
"""Kinds of faults that end a process."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why there is no result."""

    kind: Literal["unsupported", "raised", "returned", "misshapen", "died", "hung", "flooded", "slow"]
    says: str
    trace: str = ""

    def __post_init__(self) -> None:
        """Both are safe, wherever they come from."""
        object.__setattr__(self, "says", safe(self.says, SAID))
        object.__setattr__(self, "trace", safe_lines(self.trace, TRACED, SAID))


def raised(error: BaseException, *, traced: bool = True) -> Fault:
    """An exception as a fault: what it says, and if it is to be `traced` the end of its trace, which takes longer."""
    says = f"{safe(type(error).__name__)}: {_said(error)}"
    return Fault("raised", says, _traced(error) if traced else "")


def is_deliberate(error: BaseException, file: str) -> bool:
    """Whether an exception was raised by a statement, of a file or of none that belongs to a framework.

    So a function refuses a call, which is another thing than one that goes wrong somewhere below it.
    """
    at = error.__traceback__
    if not isinstance(error, REFUSING) or at is None:
        return False
    while at.tb_next is not None:
        at = at.tb_next
    code = at.tb_frame.f_code
    raising = dis.opname[code.co_code[at.tb_lasti]] == "RAISE_VARARGS"
    return raising and (code.co_filename == file or BELOW.isdisjoint(code.co_filename.split(os.sep)))


def lacks_something(error: BaseException) -> bool:
    """Whether something is not there that a function asks for by itself.

    That is a device, a group of processes, a module, or an operator that a library of kernels would register.
    """
    if isinstance(error, ValueError):
        return WITHOUT_GROUP in str(error)
    if isinstance(error, AttributeError):
        return str(error).startswith(NAMESPACE)
    if isinstance(error, ModuleNotFoundError):
        return True
    if isinstance(error, ImportError | RuntimeError) and any(
        text.search(str(error)) for text in (WITHOUT_PACKAGE, WITHOUT_BACKEND)
    ):
        return True
    return isinstance(error, AssertionError | RuntimeError) and any(text in str(error) for text in WITHOUT_DEVICE)


def file_of(function: Any) -> str:
    """The file that a function is written in, or of a step of autograd its forward pass; nothing where that is none."""
    called = getattr(function, "function", function)
    written = getattr(getattr(called, "__self__", None), "forward", None) or inspect.unwrap(called)
    return str(getattr(getattr(written, "__code__", None), "co_filename", ""))


REFUSING = (AssertionError, NotImplementedError, TypeError, ValueError)
"""What functions raise for calls that they do not take."""
WITHOUT_PACKAGE = re.compile(r"\b(is not (available|installed)|please (install|update))\b", re.IGNORECASE)
"""How functions say that a package is not there, or not in a version that has what they call."""
WITHOUT_DEVICE = (
    "Torch not compiled with CUDA enabled",
    "Found no NVIDIA driver on your system",
    "Cannot access accelerator device when none is available",
)
"""What frameworks say of a device that is not there."""
WITHOUT_BACKEND = re.compile(r"Could not run '\S+' with arguments from the '\w+' backend")
"""How torch begins to say that an operator has no kernel for a device."""
WITHOUT_GROUP = "Default process group has not been initialized"
"""What torch says where other processes are asked for, and there is one."""
NAMESPACE = "'_OpNamespace'"
"""How torch begins to say that no operator of a name is registered."""
BELOW = frozenset({*FRAMEWORKS, "jaxlib", "triton"})
"""Packages whose own errors say that something went wrong."""


def _said(error: BaseException) -> str:
    """The first line of what an exception says, even of one that cannot say it.

    A first line that announces the others, as that of a compiler with the place, is told with the last of them.
    """
    try:
        text = exact_text(error).strip()
    except Exception as another:
        return f"(its message cannot be read: {safe(type(another).__name__)})"
    first = (text[:SAID].splitlines() or [WORDLESS])[0]
    announces = first.endswith(":") and len(first) < len(text)
    return safe(f"{first} {text[-SAID:].splitlines()[-1].strip()}" if announces else first)


def _traced(error: BaseException) -> str:
    """The end of the trace of an exception, as far as it can be formatted."""
    for form in (_formatted, _places):
        try:
            return safe_lines("".join(form(error)[-8:]))
        except Exception:
            continue
    return ""


def _formatted(error: BaseException) -> list[str]:
    """As `traceback.format_exception`, which takes long; where a place raises again, only what it says is formatted."""
    if error.__cause__ is not None or error.__context__ is not None or isinstance(error, BaseExceptionGroup):
        return traceback.format_exception(error)
    frames, at = [], error.__traceback__
    while at is not None:
        frames.append((at.tb_frame.f_code, at.tb_lasti, at.tb_lineno))
        at = at.tb_next
    place = tuple(frames)
    if place not in _FORMATTED:
        if len(_FORMATTED) >= PLACES:
            _FORMATTED.clear()
        above = ["Traceback (most recent call last):\n"] if place else []
        _FORMATTED[place] = above + traceback.format_tb(error.__traceback__)
    return [*_FORMATTED[place], *traceback.format_exception_only(error)]


_FORMATTED: dict[tuple[Any, ...], list[str]] = {}
"""The lines of tracebacks by their places, which keep the code that raised."""
PLACES = 64
"""Tracebacks that are kept at a time."""


def _places(error: BaseException) -> list[str]:
    return traceback.format_tb(error.__traceback__)
