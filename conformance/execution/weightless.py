"""A module without weights, as a function: it is made once, with its defaults, and its forward pass computes.

Nothing here knows attnspec, for it also serves where that is not to be seen.
"""

import inspect
from typing import Any


def is_weightless(x):
    """Whether something is a class of modules of torch that needs no arguments and has no parameters."""
    if not inspect.isclass(x) or not any(_is_torch(base) for base in x.__mro__):
        return False
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    asked = [p for p in inspect.signature(x).parameters.values() if p.default is p.empty and p.kind not in kinds]
    try:
        made: Any = None if asked else x()
        return made is not None and next(iter(made.parameters()), None) is None
    except Exception:
        return False


def forward_of(x):
    """The forward pass of such a class."""
    return x().eval().forward


def _is_torch(base):
    return base.__name__ == "Module" and base.__module__.partition(".")[0] == "torch"
