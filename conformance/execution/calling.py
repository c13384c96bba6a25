"""A call on an implementation: arrays go in, a reply comes out, both plain values.

This is the side next to the implementation, in this process or in a worker's; it knows nothing of specifications.
Everything that can only be seen beside the call is judged here: dtype and device of the outputs, memory that they share
with an input or with an earlier output, inputs and settings of the process that were changed.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from attnspec.adapters import Module, Unsupported

from ..data.exact import is_number, is_numbers, plain_or_none
from ..data.texts import described, safe, told
from ..errors import UsageError, did_you_mean
from ..frameworks.framework import Framework, NotDifferentiableError
from ..frameworks.known import framework_named
from ..numerics.formats import KINDS, NUMBER, dtype_under
from .backward import Backward, differentiated
from .faults import SAID, Fault, file_of, is_deliberate, lacks_something, raised
from .filling import Filled, planned
from .inputs import Inputs, Made
from .mapping import MappingError
from .peak import peak
from .state import Watch

LARGEST = 1 << 24
"""Entries beyond which an output is not looked into: the definition makes none that has half as many."""
FACTOR = 16
"""How many times as many entries as all inputs an output may have in any case."""
UNDIFFERENTIABLE = "not differentiable: "
"""What a fault begins with where a function has no gradients."""
SPARE = 16
"""Outputs that a mapping may have beyond those that are known, before it is no longer listed."""
OTHER = "_"
"""What the names of results begin with that are none of the operator's."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call: arrays as float64 (or integers or booleans), and options that are not at their default."""

    inputs: Mapping[str, NDArray[Any]]
    options: Mapping[str, Any]
    dtype: str
    device: str = "cpu"
    layout: str = "contiguous"
    poisoned: bool = False
    dtypes: Mapping[str, str] = field(default_factory=dict)
    """The dtypes of inputs and outputs that are others than the interface says."""
    manner: str = ""
    """How the gradients of a function are asked for, where that is not all of them at once; see `differentiated`."""


LASTING = {"inputs_overwritten": "inputs_unchanged", "state": "state", "random_state": "state"}
"""The contracts of breaches that matter whatever call they come to light in, by how a reply calls them."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A contract that a call broke, or a key of `LASTING`."""

    contract: str
    says: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "says", safe(self.says, SAID))


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: outputs by name (fractions as float64), breaches, or a fault."""

    outputs: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    breaches: tuple[Breach, ...] = ()
    fault: Fault | None = None
    seconds: float = 0.0
    """How long the function took, until its results were there; zero where that is not known."""


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
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For a module: the sizes that the shape of a required input fixes, and an empty text for an axis of no size."""
    absent: Mapping[str, float] = field(default_factory=dict)
    """For a module: the number that stands for an optional input which is not given."""
    into: Mapping[str, str] = field(default_factory=dict)
    """Inputs that a call may write to, and the output that each then is where that is not returned; or nothing."""
    objects: frozenset[str] = frozenset()
    """Options that are objects with attributes, in place of a mapping."""
    typed: frozenset[str] = frozenset()
    """Options that are dtypes of the framework, in place of their names."""
    returned: Mapping[str, str] = field(default_factory=dict)
    """The dtype of an output that a parameter of another dtype is called like."""
    refusing: bool = False
    """Whether an error that the function raises by a statement of its own refuses the call."""
    others: int = 0
    """How many further results a function may return that are none of the operator's."""
    backward: Backward | None = None
    """How the function is called, where it is one of another operator and its gradients are asked for."""

    @property
    def results(self) -> tuple[str, ...]:
        """What a function may return, in its order."""
        return (*self.outputs, *(f"{OTHER}{len(self.outputs) + number}" for number in range(self.others)))

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

    def __init__(
        self, function: Callable[..., Any], framework: str, interface: Interface, *, alone: bool = False
    ) -> None:
        """`alone` says that nothing but calls goes on in this process."""
        self.interface = interface
        self.framework: Framework = framework_named(framework)
        self.function, self.file = callable_of(function, interface), file_of(function)
        if interface.backward is not None:
            passed = tuple(name for name in interface.required if name not in interface.by_name)
            outputs = frozenset(interface.outputs)
            self.function = differentiated(function, self.framework, interface.backward, passed, outputs)
        self.inputs, self.watch = Inputs(self.framework), Watch(framework, alone=alone)
        self._last: tuple[Any, ...] = ()
        self.kept: dict[str, Any] = {}
        """The outputs of the last large call."""
        self._moved: tuple[Breach, ...] = ()
        """What the last call has changed in its process."""
        self.seconds = 0.0
        """How long the last call took that gave a result, until that was there."""

    @contextmanager
    def session(self) -> Iterator[None]:
        try:
            with self.framework.session():
                yield
        finally:
            self.rest()

    def rest(self) -> None:
        """Let go of all arrays, and of what the framework keeps between calls."""
        self.inputs.forget()
        self._last, self.kept = (), {}
        self.framework.forget()

    @property
    def memory(self) -> int:
        """The most memory that the calls have used, and whatever else goes on in this process, in bytes."""
        return peak()

    def call(self, call: Call) -> Reply:
        made = self._arrays(call)
        reply = self._reply(call, made)
        changed = (*self._moved, *self._changed(made))
        return replace(reply, breaches=(*changed, *reply.breaches)) if changed else reply

    def _reply(self, call: Call, made: Mapping[str, Made]) -> Reply:
        by_position = [name for name in self.interface.required if name not in self.interface.by_name]
        passed = [made[name].array for name in by_position]
        named = {name: made[name].array for name in call.inputs if name not in by_position}
        result = self.result(call, passed, named)
        if isinstance(result, Fault):
            return Reply(fault=result)
        try:
            with _at_home():
                outputs = self.named(result, {name: each.array for name, each in made.items()})
                fault = outputs if isinstance(outputs, Fault) else self._oversized(call, outputs)
        except Exception as error:  # a mapping of its own kind, whose methods fail
            outputs = fault = Fault(
                "returned", f"returned {described(result)} that cannot be read: {raised(error).says}"
            )
        if isinstance(outputs, Fault) or fault is not None:
            return Reply(fault=fault)
        breaches: list[Breach] = []
        try:
            with _at_home():
                breaches += self._mistyped(call, outputs)
                breaches += self._shared(made, outputs)
                entries = {name: self._parted(name, x) for name, x in outputs.items()}
        except Exception as error:  # an array of text, a sparse one, one without memory
            says = f"returned an output that cannot be read: {raised(error).says}"
            return Reply(breaches=tuple(breaches), fault=Fault("returned", says))
        self._last = tuple(outputs.values())
        return Reply(entries, tuple(breaches), seconds=self.seconds)

    def result(self, call: Call, passed: list[Any], named: Mapping[str, Any]) -> Any:
        """What the function returns, or a `Fault` in its place."""
        poison = self.framework.poisoned() if call.poisoned else nullcontext()
        self.watch.begin()
        try:
            with poison, _at_home(), self.framework.computing(call.dtype):
                options, started = self.options(call), time.perf_counter()
                manner = {"manner": call.manner} if call.manner else {}
                result = self.function(*passed, **named, **options, **manner)
                self.framework.finish(result, call.device)
                self.seconds = time.perf_counter() - started
                return result
        except NotDifferentiableError as error:
            return Fault("unsupported", f"{UNDIFFERENTIABLE}{told(error)}")
        except Unsupported as answer:
            return Fault("unsupported", told(answer) or "unsupported")
        except (Exception, SystemExit) as error:
            if isinstance(error, MappingError) and isinstance(self.function, Filled) and self.function.fitted:
                return Fault("unsupported", told(error))
            if lacks_something(error) or (self.interface.refusing and is_deliberate(error, self.file)):
                return Fault("unsupported", raised(error, traced=False).says)
            return raised(error)
        finally:
            self._moved = self._state()

    def options(self, call: Call) -> dict[str, Any]:
        """The options of a call, as the function takes them."""
        made = {name: self._with_arrays(x, call) for name, x in call.options.items()}
        for name in self.interface.typed & made.keys():
            made[name] = self.framework.make(np.zeros(1), made[name], call.device, "contiguous", 0).dtype
        return {name: SimpleNamespace(**x) if name in self.interface.objects else x for name, x in made.items()}

    def _with_arrays(self, x: Any, call: Call) -> Any:
        """An option with arrays of the framework for those of NumPy, which come as lists from other processes."""
        if isinstance(x, Mapping):
            return {name: self._array(each, call) for name, each in x.items()}
        return tuple(self._array(each, call) for each in x) if isinstance(x, tuple | list) else x

    def _array(self, x: Any, call: Call) -> Any:
        given = isinstance(x, np.ndarray | list)
        return self.framework.make(np.asarray(x), call.dtype, call.device, "contiguous", 0) if given else x

    def _arrays(self, call: Call) -> dict[str, Made]:
        made = {}
        for index, (name, array) in enumerate(call.inputs.items()):
            dtype = call.dtypes.get(name) or self.interface.dtype_of(name, call.dtype)
            shared = name in self.interface.into and call.layout == "expanded"
            layout = "contiguous" if shared else call.layout  # what is written to has memory of its own
            made[name] = self.inputs.make(name, array, dtype, call.device, layout, index)
        return made

    def named(self, result: Any, arrays: Mapping[str, Any]) -> dict[str, Any] | Fault:
        """The outputs by name, or what is wrong with them as such.

        What is not returned is what the call may have written, of the arrays that it was passed.
        """
        known = self.interface.results
        written = {output: arrays[name] for name, output in self.interface.into.items() if output and name in arrays}
        if written and (result is None or any(result is x for x in written.values())):
            result = written
        if isinstance(result, Mapping):
            keys = [*itertools.islice(result, len(known) + SPARE)]
            named = {name: key for key in keys if type(name := plain_or_none(key)) is str}
            unknown = [told(key) for key in keys if plain_or_none(key) not in self.interface.outputs]
            if unknown and not (self.interface.others and known[0] in named):
                own = did_you_mean(unknown[0], known) or f"; {self.interface.operator} has {', '.join(known)}"
                return Fault("returned", f"returned an output {unknown[0]!r}{own}")
            outputs = {name: result[key] for name, key in named.items() if name in known}
        else:
            whole = is_numbers(result) and len(self.interface.outputs) == 1
            parts = result if isinstance(result, tuple | list) and not whole else (result,)
            if len(parts) > len(known):
                own = f"{self.interface.operator} has {len(known)}: {', '.join(known)}"
                return Fault("returned", f"returned {len(parts)} outputs; {own}")
            outputs = dict(zip(known, parts, strict=False))
        outputs = written | {name: x for name, x in outputs.items() if x is not None and not self._is_other(name, x)}
        if known[0] not in outputs and (self.interface.backward is None or not outputs):  # or asked for others alone
            return Fault("returned", f"returned {described(result)}, and no {known[0]!r}")
        for name, x in outputs.items():
            numbers = x is result and is_numbers(x)
            if not (self.framework.is_array(x) or numbers or is_number(x)):
                return Fault("returned", f"returned {described(x)} as {name!r}, not an array of {self.framework.name}")
            if self.framework.is_array(x) and (strange := self.framework.strange(x)):
                return Fault("returned", f"returned {name!r} as {described(x)}: {strange}")
        return outputs

    def _is_other(self, name: str, x: Any) -> bool:
        """Whether a result is none of the operator's, and no array that could be told."""
        return name.startswith(OTHER) and (not self.framework.is_array(x) or bool(self.framework.strange(x)))

    def _oversized(self, call: Call, outputs: Mapping[str, Any]) -> Fault | None:
        """What is wrong with an output that no definition can want, which is not looked into."""
        given = sum(x.size for x in call.inputs.values())
        for name, x in outputs.items():
            shape = [int(n) for n in x.shape] if self.framework.is_array(x) else [len(x)] if is_numbers(x) else []
            if math.prod(shape) > max(LARGEST, FACTOR * given):
                says = f"{name} has the shape {shape}, {math.prod(shape):,} entries for inputs of {given:,}"
                return Fault("misshapen", says)
        return None

    def _parted(self, name: str, x: Any) -> NDArray[Any]:
        """The entries of a result; of complex numbers that outputs are assembled from, both parts on a further axis."""
        free = self.interface.dtypes.get(name) == NUMBER and self.framework.is_array(x)
        if free and self.framework.dtype(x).startswith("complex"):
            return np.stack((self.read(x.real), self.read(x.imag)), -1)
        return self.read(x)

    def read(self, x: Any) -> NDArray[Any]:
        """The entries as an array of NumPy itself, of an exact dtype."""
        given = self.framework.is_array(x)
        entries = self.framework.read(x) if given else np.asarray(x if is_numbers(x) else plain_or_none(x))
        if entries.dtype.kind not in "biuf" or entries.dtype.itemsize > 8:
            raise TypeError(f"entries of {entries.dtype} are not numbers")
        return np.array(entries, entries.dtype.newbyteorder("="), copy=type(entries) is not np.ndarray or None)

    # Contracts

    def _state(self) -> tuple[Breach, ...]:
        told_of = {"state": self.watch.changed(), "random_state": self.watch.drawn()}
        return tuple(Breach(contract, says) for contract, says in told_of.items() if says)

    def _changed(self, made: Mapping[str, Made]) -> Iterator[Breach]:
        for name in self.inputs.changed(made):
            if name in self.interface.into:
                continue
            yield Breach("inputs_unchanged", f"the call changed its input {name!r}")
        for name in self.inputs.overwritten(made):
            says = f"changed its input {name!r} of an earlier call, after the call had returned"
            yield Breach("inputs_overwritten", says)

    def _shared(self, made: Mapping[str, Made], outputs: Mapping[str, Any]) -> Iterator[Breach]:
        memory = self.framework.memory
        earlier = [(memory(x), "an earlier result") for x in self._last if self.framework.is_array(x)]
        into = self.interface.into
        given = {name: item.array for name, item in made.items() if name not in into}
        written = (made[name].array for name in into if name in made)
        whole = {(memory(x), math.prod(x.shape)) for x in written}  # which a view of all its entries is, too
        places = [*((memory(x), f"the input {name!r}") for name, x in given.items()), *earlier]
        for name, x in outputs.items():
            if not self.framework.is_array(x) or name.startswith(OTHER):
                continue
            start, end = memory(x)
            if ((start, end), math.prod(x.shape)) in whole:
                continue
            for (low, high), owner in places:
                if start < high and low < end:
                    yield Breach("fresh_output", f"the output {name!r} shares memory with {owner}")
                    break

    def _mistyped(self, call: Call, outputs: Mapping[str, Any]) -> Iterator[Breach]:
        dtypes = {**self.interface.dtypes, **self.interface.returned}
        for name, x in ((name, x) for name, x in outputs.items() if self.framework.is_array(x)):
            own = call.dtypes.get(name)
            dtype, expected = self.framework.dtype(x), own or dtype_under(call.dtype, dtypes.get(name))
            wide_enough = name in dtypes and dtype == "float64" and expected not in KINDS
            whole = dtype.startswith(("int", "uint")) if expected == "integer" else dtype.startswith(expected[:4])
            free = dtypes.get(name) == NUMBER or name.startswith(OTHER)
            if dtype != expected and not (free or wide_enough or (expected in KINDS and whole)):
                yield Breach("dtype", f"the output {name!r} is {dtype}, not {expected}")
            if not self.framework.is_on(x, call.device):
                yield Breach("device", f"the output {name!r} is on {self.framework.device(x)}, not on {call.device}")


def callable_of(function: Callable[..., Any], interface: Interface) -> Callable[..., Any]:
    """A function as it is, and a module as one that fills it; a `UsageError` where its mapping cannot be meant."""
    if not isinstance(function, Module):
        return function
    try:
        plan = planned(function.parts)
    except MappingError as error:
        raise UsageError(str(error)) from None
    return Filled(
        function.factory,
        function.built_from,
        plan,
        interface.required,
        interface.axes,
        interface.absent,
        interface.outputs,
    )


@contextmanager
def _at_home() -> Iterator[None]:
    """A stretch of a subject's code: a process that it forks may come back from there, and is ended."""
    home = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != home:
            os._exit(0)
