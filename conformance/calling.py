"""A call on an implementation: arrays go in, a reply comes out, both plain values.

This is the side next to the implementation, in this process or in a worker's; it knows nothing of specifications.
Everything that can only be seen beside the call is judged here: dtype and device of the outputs, memory that they share
with an input or with an earlier output, inputs that were changed.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from attnspec.adapters import Unsupported

from .errors import did_you_mean
from .formats import KINDS, NUMBER, dtype_under
from .frameworks import Framework, framework_named
from .inputs import SMALL, Inputs, Made


@dataclass(frozen=True, slots=True)
class Call:
    """One call: arrays as float64 (or whole numbers or truths), and options that are not at their default."""

    inputs: Mapping[str, NDArray[Any]]
    options: Mapping[str, Any]
    dtype: str
    device: str = "cpu"
    layout: str = "contiguous"
    poisoned: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle, which would take four times as long by itself."""
        return _call, (_plain(self.inputs), self.options, self.dtype, self.device, self.layout, self.poisoned)


@dataclass(frozen=True, slots=True)
class Fault:
    """Why there is no result."""

    kind: Literal["unsupported", "raised", "returned", "misshapen", "died", "hung", "flooded"]
    says: str
    trace: str = ""


ABRUPT = ("died", "hung", "flooded")
"""Kinds of faults that end a process."""


LASTING = {"inputs_overwritten": "inputs_unchanged", "state": "state", "random_state": "state"}
"""The contracts of breaches that matter whatever call they come to light in, by how a reply calls them."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A contract that a call broke, or a key of `LASTING`."""

    contract: str
    says: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: outputs by name (fractions as float64), breaches, or a fault."""

    outputs: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    breaches: tuple[Breach, ...] = ()
    fault: Fault | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """As with calls."""
        return _reply, (_plain(self.outputs), self.breaches, self.fault)


def _plain(arrays: Mapping[str, NDArray[Any]]) -> list[tuple[str, Any]]:
    """Arrays with the small ones as what they consist of, for which pickle does not ask NumPy."""
    return [(name, x if x.size > SMALL else (x.shape, x.dtype.str, x.tobytes())) for name, x in arrays.items()]


def _arrays(plain: list[tuple[str, Any]]) -> dict[str, NDArray[Any]]:
    return {name: np.ndarray(*x) if type(x) is tuple else x for name, x in plain}


def _call(plain: list[tuple[str, Any]], *rest: Any) -> Call:
    return Call(_arrays(plain), *rest)


def _reply(plain: list[tuple[str, Any]], *rest: Any) -> Reply:
    return Reply(_arrays(plain), *rest)


@dataclass(frozen=True, slots=True)
class Interface:
    """What a caller has to know of an operator."""

    operator: str
    required: tuple[str, ...]
    outputs: tuple[str, ...]
    dtypes: Mapping[str, str]
    """The dtype of an input or output that has one of its own."""
    by_name: frozenset[str] = frozenset()
    """Required inputs that the function takes by name alone."""

    def dtype_of(self, name: str, dtype: str) -> str:
        """The dtype of an input or output when `dtype` is under test."""
        return dtype_under(dtype, self.dtypes.get(name))


class Caller(Protocol):
    """Whoever makes calls: in this process, or in another one."""

    def call(self, call: Call) -> Reply: ...

    def session(self) -> AbstractContextManager[None]:
        """A stretch of calls."""
        ...


class DirectCaller:
    """Calls a function in this process."""

    def __init__(self, function: Callable[..., Any], framework: str, interface: Interface) -> None:
        self.function, self.interface = function, interface
        self.framework: Framework = framework_named(framework)
        self.inputs = Inputs(self.framework)
        self._last: tuple[Any, ...] = ()

    @contextmanager
    def session(self) -> Iterator[None]:
        try:
            with self.framework.session():
                yield
        finally:
            self.inputs.forget()

    def call(self, call: Call) -> Reply:
        made = self._arrays(call)
        reply = self._reply(call, made)
        changed = tuple(self._changed(made))
        return replace(reply, breaches=(*changed, *reply.breaches)) if changed else reply

    def _reply(self, call: Call, made: Mapping[str, Made]) -> Reply:
        by_position = [name for name in self.interface.required if name not in self.interface.by_name]
        passed = [made[name].array for name in by_position]
        named = {name: made[name].array for name in call.inputs if name not in by_position}
        poison = self.framework.poisoned() if call.poisoned else nullcontext()
        try:
            with poison:
                result = self.function(*passed, **named, **call.options)
        except Unsupported as answer:
            return Reply(fault=Fault("unsupported", str(answer) or "unsupported"))
        except (Exception, SystemExit) as error:
            return Reply(fault=raised(error))
        outputs = self._named(result)
        if isinstance(outputs, Fault):
            return Reply(fault=outputs)
        breaches = [*self._mistyped(call, outputs)]
        try:
            breaches += self._shared(made, outputs)
            entries = {name: self._read(x) for name, x in outputs.items()}
        except Exception as error:  # an array of text, a sparse one, one without memory
            says = f"returned an output that cannot be read: {raised(error).says}"
            return Reply(breaches=tuple(breaches), fault=Fault("returned", says))
        self._last = tuple(outputs.values())
        return Reply(entries, tuple(breaches))

    def _arrays(self, call: Call) -> dict[str, Made]:
        made = {}
        for index, (name, array) in enumerate(call.inputs.items()):
            dtype = self.interface.dtype_of(name, call.dtype)
            made[name] = self.inputs.make(name, array, dtype, call.device, call.layout, index)
        return made

    def _named(self, result: Any) -> dict[str, Any] | Fault:
        """The outputs by name, or what is wrong with them as such."""
        known = self.interface.outputs
        if isinstance(result, Mapping):
            unknown = [str(name) for name in result if name not in known]
            if unknown:
                own = did_you_mean(unknown[0], known) or f"; {self.interface.operator} has {', '.join(known)}"
                return Fault("returned", f"returned an output {unknown[0]!r}{own}")
            outputs = dict(result)
        else:
            parts = result if isinstance(result, tuple | list) else (result,)
            if len(parts) > len(known):
                own = f"{self.interface.operator} has {len(known)}: {', '.join(known)}"
                return Fault("returned", f"returned {len(parts)} outputs; {own}")
            outputs = dict(zip(known, parts, strict=False))
        outputs = {name: x for name, x in outputs.items() if x is not None}
        if known[0] not in outputs:
            return Fault("returned", f"returned {_described(result)}, and no {known[0]!r}")
        for name, x in outputs.items():
            if not self.framework.is_array(x) and not isinstance(x, int | float):
                return Fault("returned", f"returned {_described(x)} as {name!r}, not an array of {self.framework.name}")
            if self.framework.is_array(x) and (strange := self.framework.strange(x)):
                return Fault("returned", f"returned {name!r} as {_described(x)}: {strange}")
        return outputs

    def _read(self, x: Any) -> NDArray[Any]:
        return self.framework.read(x) if self.framework.is_array(x) else np.asarray(x)

    # Contracts

    def _changed(self, made: Mapping[str, Made]) -> Iterator[Breach]:
        for name in self.inputs.changed(made):
            yield Breach("inputs_unchanged", f"the call changed its input {name!r}")
        for name in self.inputs.overwritten(made):
            says = f"changed its input {name!r} of an earlier call, after the call had returned"
            yield Breach("inputs_overwritten", says)

    def _shared(self, made: Mapping[str, Made], outputs: Mapping[str, Any]) -> Iterator[Breach]:
        memory = self.framework.memory
        earlier = [(memory(x), "an earlier result") for x in self._last if self.framework.is_array(x)]
        places = [*((memory(item.array), f"the input {name!r}") for name, item in made.items()), *earlier]
        for name, x in outputs.items():
            if not self.framework.is_array(x):
                continue
            start, end = memory(x)
            for (low, high), owner in places:
                if start < high and low < end:
                    yield Breach("fresh_output", f"the output {name!r} shares memory with {owner}")
                    break

    def _mistyped(self, call: Call, outputs: Mapping[str, Any]) -> Iterator[Breach]:
        for name, x in outputs.items():
            if not self.framework.is_array(x):
                continue
            dtype, expected = self.framework.dtype(x), self.interface.dtype_of(name, call.dtype)
            wide_enough = name in self.interface.dtypes and dtype == "float64" and expected not in KINDS
            whole = dtype.startswith(("int", "uint")) if expected == "integer" else dtype.startswith(expected[:4])
            free = self.interface.dtypes.get(name) == NUMBER
            if dtype != expected and not (free or wide_enough or (expected in KINDS and whole)):
                yield Breach("dtype", f"the output {name!r} is {dtype}, not {expected}")
            device = self.framework.device(x)
            if device.partition(":")[0] != call.device.partition(":")[0]:
                yield Breach("device", f"the output {name!r} is on {device}, not on {call.device}")


def _described(x: Any) -> str:
    kind = type(x).__name__
    return "None" if x is None else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def raised(error: BaseException) -> Fault:
    """An exception as a fault: its first line, and the end of its trace."""
    line = (str(error).strip().splitlines() or ["(no message)"])[0][:300]
    return Fault("raised", f"{type(error).__name__}: {line}", "".join(traceback.format_exception(error)[-8:]))
