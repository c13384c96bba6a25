"""A class with a plan, as a function: it is constructed, `plan` gets the batch, and `run` computes.

It is made anew for each call. Nothing here knows attnspec, for it also serves where that is not to be seen.
"""

import inspect

PAIR = "paged_kv_cache"
"""A parameter that is a pair, of keys and values; the function takes both by its name with `_0` and `_1`."""
DTYPE = "q_data_type"
"""A parameter of a plan that is the dtype of the queries."""


def is_planned(x):
    """Whether something is such a class."""
    return inspect.isclass(x) and all(inspect.isfunction(getattr(x, name, None)) for name in ("plan", "run"))


class Planned:
    """Such a class as a function of all that it is told, by name."""

    def __init__(self, made):
        self.made, self.__name__, self.__doc__, self.__module__ = made, made.__name__, made.__doc__, made.__module__
        self.__wrapped__ = made.run
        self.takes = [_taken(made.__init__), _taken(made.plan), _taken(made.run)]
        every = {name: p for part in self.takes for name, p in part.items() if name != DTYPE}
        if PAIR in every:
            one = every.pop(PAIR)
            every |= {name: one.replace(name=name) for name in (f"{PAIR}_0", f"{PAIR}_1")}
        self.__signature__ = inspect.Signature([*every.values()])

    def __call__(self, **given):
        if f"{PAIR}_0" in given:
            given[PAIR] = given.pop(f"{PAIR}_0"), given.pop(f"{PAIR}_1")
        given[DTYPE] = given["q"].dtype
        made, planned, run = ({name: given[name] for name in part if name in given} for part in self.takes)
        wrapper = self.made(**made)
        wrapper.plan(**planned)
        return wrapper.run(**run)


def _taken(function):
    """The parameters of a method that have names, without the object itself."""
    if not inspect.isfunction(function):
        return {}
    _, *parameters = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    plain = [p for p in parameters if p.kind not in kinds]
    return {p.name: p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in plain}
