"""A module without weights, as a function: it is made once, and its forward pass computes.

It is made with its defaults, or with what `get_init_inputs` of its file returns, as KernelBench has it: a list of
arguments, or such a list and a mapping of further ones.
Nothing here knows attnspec, for it also serves where that is not to be seen.
"""

import inspect
import sys

MODELS = ("Model", "ModelNew")
"""The classes that `get_init_inputs` is for, whether they ask for arguments or not."""


def is_weightless(x):
    """Whether something is a class of modules of torch that can be made and has no parameters."""
    try:
        return is_module(x) and next(iter(made(x).parameters()), None) is None
    except Exception:
        return False


def is_module(x):
    """Whether something is a class of modules of torch."""
    return inspect.isclass(x) and any(
        base.__name__ == "Module" and base.__module__.partition(".")[0] == "torch" for base in x.__mro__
    )


def made(x):
    """A module of such a class."""
    given, named = arguments(x)
    return x(*given, **named)


def forward_of(x):
    """The forward pass of such a class."""
    return made(x).eval().forward


def asked(x):
    """The arguments of such a class that have no default."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in inspect.signature(x).parameters.values() if p.default is p.empty and p.kind not in kinds]


def telling(x):
    """The function of its file that tells the arguments of a class; None where there is none, or none is asked for."""
    own = getattr(sys.modules.get(x.__module__), "get_init_inputs", None)
    return own if asked(x) or x.__name__ in MODELS else None


def arguments(x):
    """What a class is made with: arguments by their places, and others by their names."""
    told = telling(x)
    given = told() if told is not None else []
    return given if is_split(given) else (given, {})


def is_split(given):
    """Whether arguments are told as a list of those by place and a mapping of those by name."""
    return len(given) == 2 and isinstance(given[0], list | tuple) and isinstance(given[1], dict)


def call_of(x):
    """The text after the name of such a class by which a program makes a module, that knows its file as `module`."""
    told = telling(x)
    if told is None:
        return "()"
    given = "module.get_init_inputs()"
    return f"(*{given}[0], **{given}[1])" if is_split(told()) else f"(*{given})"
