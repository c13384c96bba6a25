"""A module as a function: built once for all cases of the same sizes, filled with weights for each case, and called.

This file imports nothing of its package but its neighbours, so that it works where the package is hidden.
"""

from __future__ import annotations

import fnmatch
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .mapping import Held, MappingError, near, read
from .modules import Filling, filling, preserved

ROOM = 16
"""Modules that are kept at a time."""
CASE = ("dtype", "device")
"""What a factory may take beside sizes and options."""


@dataclass(frozen=True)
class Plan:
    """What a declaration says, in one form."""

    weights: dict[str, tuple[Held, ...]]
    by_position: tuple[str, ...]
    by_name: dict[str, str]
    """Inputs and options, by the keywords under which they are passed."""
    leave: dict[str, float | None]
    same: dict[str, str]
    keywords: dict[str, Any]
    returns: int | str | None
    call: Callable[..., Any] | None


def planned(parts: Mapping[str, Any]) -> Plan:
    """The plan of a declaration; a `MappingError` for what cannot be meant."""
    weights = {
        name: tuple(read(text) for text in _texts(f"weights[{name!r}]", text))
        for name, text in _dict("weights", parts["weights"]).items()
    }
    if not weights:
        raise MappingError("weights is empty; a module without weights is a function, and takes @adapter(...)")
    by_position, by_name = _places(parts["inputs"])
    options = parts["options"]
    named = options if isinstance(options, Mapping) else {name: name for name in _texts("options", options)}
    for one in (*by_position, *by_name):
        if one in weights:
            raise MappingError(
                f"{one!r} is passed by inputs and also fills {weights[one][0].text!r}; use it for only one"
            )
    leave = parts["leave"]
    return Plan(
        weights,
        by_position,
        {**by_name, **named},
        dict(leave) if isinstance(leave, Mapping) else dict.fromkeys(_texts("leave", leave)),
        _dict("same", parts["same"]),
        _dict("keywords", parts["keywords"]),
        parts["returns"],
        parts["call"],
    )


def _dict(what: str, x: Any) -> dict[str, Any]:
    if not isinstance(x, Mapping) or not all(isinstance(name, str) for name in x):
        raise MappingError(f"{what} is {x!r:.80}; expected a dict with names for its keys")
    return dict(x)


def _texts(what: str, x: Any) -> tuple[str, ...]:
    found: tuple[Any, ...] = (x,) if isinstance(x, str) else tuple(x) if isinstance(x, Sequence) else (None,)
    if not all(isinstance(one, str) for one in found):
        raise MappingError(f"{what} is {x!r:.80}; expected a text, or several in a tuple")
    return found


def _places(inputs: Any) -> tuple[tuple[str, ...], dict[str, str]]:
    """The inputs by position, and those by keyword."""
    if not isinstance(inputs, Mapping):
        return _texts("inputs", inputs), {}
    placed = {name: at for name, at in inputs.items() if type(at) is int}
    if sorted(placed.values()) != [*range(len(placed))]:
        raise MappingError(f"inputs has the positions {sorted(placed.values())}; they count from 0")
    keywords = {name: at for name, at in inputs.items() if name not in placed}
    if not all(isinstance(at, str) for at in keywords.values()):
        raise MappingError(f"inputs is {dict(inputs)!r:.80}; expected positions or keywords for its values")
    return tuple(sorted(placed, key=placed.__getitem__)), keywords


class Filled:
    """The function of a module: takes inputs and options of an operator by name, and gives what the module returns."""

    def __init__(
        self,
        factory: Callable[..., Any],
        takes: Sequence[str],
        plan: Plan,
        required: Sequence[str],
        axes: Mapping[str, Sequence[str]],
        absent: Mapping[str, float],
        outputs: Sequence[str],
    ) -> None:
        """`takes` are the factory's parameters, `axes` the names of those of the inputs, `absent` what is not given."""
        self.factory, self.takes, self.plan = factory, tuple(takes), plan
        self.required, self.axes, self.absent, self.outputs = tuple(required), axes, absent, tuple(outputs)
        self._built: OrderedDict[tuple[Any, ...], Built] = OrderedDict()
        self.fitted = False
        """Whether it was called once; weights that do not fit are then of a case that it cannot hold."""

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        given = {**dict(zip(self.required, inputs, strict=False)), **named}
        arrays = {name: x for name, x in given.items() if hasattr(x, "shape")}
        sizes = self._sizes(arrays) | {name: x for name, x in given.items() if name not in arrays}
        with _double(arrays.values()):
            built = self._module(sizes, given, [*arrays.values()])
            built.fill(given)
            found = built.filling.call(lambda module: self._called(module, given, built.filling.given))
        output = self._output(found)
        self.fitted = True
        return output

    def _sizes(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The sizes that the shapes of the inputs fix; a `ValueError` where they contradict one another."""
        found: dict[str, int] = {}
        for name, axes in self.axes.items():
            shape = tuple(arrays[name].shape) if name in arrays else ()
            for axis, n in [*zip(reversed(axes), reversed(shape), strict=False)][::-1]:
                if axis and found.setdefault(axis, int(n)) != n:
                    raise ValueError(f"{axis} is {found[axis]}, but {n} in {name}")
        return found

    def _module(self, sizes: Mapping[str, Any], given: Mapping[str, Any], arrays: list[Any]) -> Built:
        fractions = [x for x in arrays if "float" in str(x.dtype)] or arrays
        like = fractions[0]
        case = {"dtype": like.dtype, "device": getattr(like, "device", "cpu")}
        taken = {name: {**case, **sizes}[name] for name in self.takes if name in {**case, **sizes}}
        held = [tuple(given[name].shape) for name in self.plan.weights if hasattr(given.get(name), "shape")]
        key = (*map(str, case.values()), *held, *((name, str(x)) for name, x in taken.items()))
        built = self._built.pop(key, None)
        if built is None:
            with preserved():
                made = self.factory(**taken)
                module = filling(made, arrays, lambda one: self._called(one, given, _converted))
            built = Built(module, self.plan, self.axes, self.absent, sizes)
        self._built[key] = built
        while len(self._built) > ROOM:
            self._built.popitem(last=False)
        built.sizes = sizes
        return built

    def _called(self, module: Any, given: Mapping[str, Any], taken: Callable[[Any], Any]) -> Any:
        plan = self.plan
        passed = {name: taken(x) if hasattr(x, "shape") else x for name, x in given.items()}
        if plan.call is not None:
            inner = {name: x for name, x in passed.items() if name not in plan.weights and name not in plan.same}
            own = _parameters(plan.call)
            return plan.call(module, **{name: x for name, x in inner.items() if name in own})
        arguments = [passed[name] for name in plan.by_position if name in passed]
        named = {keyword: passed[name] for name, keyword in plan.by_name.items() if name in passed}
        return module(*arguments, **named, **plan.keywords)

    def _output(self, found: Any) -> Any:
        returns = self.plan.returns
        if returns is None:
            if isinstance(found, tuple | list) and len(found) > len(self.outputs):
                raise MappingError(
                    f"the module returned {len(found)} results, and there is {len(self.outputs)} output; "
                    "say which it is, as in returns=0"
                )
            return found
        try:
            if isinstance(returns, str) and hasattr(found, returns):
                return getattr(found, returns)
            return found[returns]
        except (LookupError, TypeError):
            known = [*found] if isinstance(found, Mapping) else f"{type(found).__name__}"
            raise MappingError(f"returns={returns!r} is not among the results of the module ({known})") from None


def _converted(x: Any) -> Any:
    """An input of the call that builds a module: NumPy's bfloat16 is known to JAX alone."""
    if not isinstance(x, np.ndarray):
        return x
    import sys

    return sys.modules["jax"].numpy.asarray(x) if "jax" in sys.modules and x.dtype.kind == "V" else x


def _double(arrays: Any) -> Any:
    """A stretch in which JAX has double precision, if an array has it."""
    import contextlib
    import sys

    double = any(isinstance(x, np.ndarray) and x.dtype == np.float64 for x in arrays)
    return sys.modules["jax"].enable_x64(True) if double and "jax" in sys.modules else contextlib.nullcontext()


def taken_by(factory: Callable[..., Any]) -> list[str]:
    """The names that a factory takes; a class says them in its `__init__`, whatever its metaclass says."""
    import inspect

    parameters = [*inspect.signature(factory.__init__ if isinstance(factory, type) else factory).parameters.values()]
    return [p.name for p in parameters[isinstance(factory, type) :] if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def _parameters(function: Callable[..., Any]) -> list[str]:
    import inspect

    return [*inspect.signature(function).parameters][1:]


class Built:
    """A module of some sizes, and where each weight goes."""

    def __init__(
        self,
        module: Filling,
        plan: Plan,
        axes: Mapping[str, Sequence[str]],
        absent: Mapping[str, float],
        sizes: Mapping[str, Any],
    ) -> None:
        self.filling, self.plan, self.axes, self.absent, self.sizes = module, plan, axes, absent, sizes
        self.places = {name: [self._place(name, one) for one in held] for name, held in plan.weights.items()}
        self._check()
        for pattern, x in plan.leave.items():
            for name in self._matching(pattern):
                if x is not None:
                    self.filling.fill(name, [(np.arange(int(np.prod(self._shape(name)))), float(x))])

    def fill(self, given: Mapping[str, Any]) -> None:
        """Write the weights of a case into the module."""
        pieces: dict[str, list[tuple[Any, Any]]] = {}
        for name, places in self.places.items():
            weight = given.get(name)
            for held, parts in places:
                for at, (parameter, entries) in enumerate(parts):
                    if weight is None:
                        value: Any = float(self._without(name)) - held.plus
                    else:
                        one = weight[at] if "*" in held.path else weight
                        self._check_shape(name, held, parameter, entries, tuple(one.shape))
                        value = one - held.plus if held.plus else one
                    pieces.setdefault(parameter, []).append((entries, value))
            if weight is not None:
                self._check_layers(name, places, len(weight) if weight.shape else 0)
        for parameter, found in pieces.items():
            self.filling.fill(parameter, found)

    def _without(self, name: str) -> float:
        if name not in self.absent:
            raise MappingError(f"{name} is not given, and has no default number")
        return self.absent[name]

    def _place(self, name: str, held: Held) -> tuple[Held, list[tuple[str, Any]]]:
        """The parameters that hold a weight, layer by layer, and their entries in its order."""
        return held, [
            (parameter, held.entries(self._shape(parameter), self.sizes)) for parameter in self._found(name, held)
        ]

    def _found(self, name: str, held: Held) -> list[str]:
        known = {**self.filling.shapes, **self.filling.further, **self.filling.aliases}
        if "*" not in held.path:
            if held.path not in known:
                several = ", ".join(known)
                raise MappingError(
                    f"{name}: the module has no parameter {held.path!r}{near(held.path, known)} (it has: {several})"
                )
            return [self.filling.aliases.get(held.path, held.path)]
        found = sorted(fnmatch.filter(known, held.path), key=_numbered)
        if not found:
            bare = near(held.path.replace("*", "0"), known)
            raise MappingError(f"{name}: no parameter is {held.path!r}{bare} (it has: {', '.join(known)})")
        return found

    def _shape(self, name: str) -> tuple[int, ...]:
        return {**self.filling.further, **self.filling.shapes}[name]

    def _matching(self, pattern: str) -> list[str]:
        known = {**self.filling.shapes, **self.filling.further}
        found = fnmatch.filter(known, pattern)
        if not found:
            raise MappingError(f"leave: no parameter is {pattern!r}{near(pattern, known)} (it has: {', '.join(known)})")
        return found

    def _check(self) -> None:
        """Every entry of a parameter is filled once, but for those that are left."""
        filled: dict[str, Counter[int]] = {}
        for name, places in self.places.items():
            for _, parts in places:
                for parameter, entries in parts:
                    count = filled.setdefault(parameter, Counter())
                    count.update(entries.reshape(-1).tolist())
                    if max(count.values(), default=0) > 1:
                        others = dict.fromkeys(n for n, o in self.places.items() for _, p in o if parameter in dict(p))
                        raise MappingError(
                            f"{name}: entries of {parameter!r} are filled twice, by {' and '.join(others)}"
                        )
        left = {name for pattern in self.plan.leave for name in self._matching(pattern)}
        for parameter, shape in self.filling.shapes.items():
            whole, some = int(np.prod(shape)), len(filled.get(parameter, ()))
            if some < whole and parameter not in left:
                part = f"{whole - some} of {whole} entries of" if some else ""
                raise MappingError(
                    f"no weight fills {part}{' ' if part else ''}{parameter!r} {list(shape)}; name it in weights=, "
                    f"or in leave={{{parameter!r}: 0}} to fill it with zeros, or in "
                    f"leave=({parameter!r},) to keep its initial value"
                )

    def _check_shape(self, name: str, held: Held, parameter: str, entries: Any, shape: tuple[int, ...]) -> None:
        if entries.shape != shape:
            raise MappingError(
                f"{name} {self._told(name, shape)} does not fit {held.text!r}, which is {list(entries.shape)} "
                f"({parameter} is {list(self._shape(parameter))}; {self._case()})"
            )

    def _check_layers(self, name: str, places: list[tuple[Held, list[tuple[str, Any]]]], layers: int) -> None:
        for held, parts in places:
            if "*" in held.path and len(parts) != layers:
                raise MappingError(
                    f"{name} has {layers} layers, and {held.path!r} is {len(parts)} parameters ({self._case()})"
                )

    def _told(self, name: str, shape: tuple[int, ...]) -> str:
        axes = [*self.axes.get(name, ())][-len(shape) :]
        named = [f"{axis}={n}" if axis else str(n) for axis, n in zip(axes, shape, strict=False)]
        return f"[{', '.join(named if len(named) == len(shape) else map(str, shape))}]"

    def _case(self) -> str:
        return "case: " + " ".join(f"{name}={x}" for name, x in self.sizes.items() if isinstance(x, int | float))


def _numbered(name: str) -> list[Any]:
    """Paths in the order of the numbers in them."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in name.split(".")]
