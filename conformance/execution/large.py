"""Large calls: inputs are made here of their keys, and what a call gives stays here and is asked for in parts."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from ..numerics.drawn import Drawn
from .calling import Call, DirectCaller, Fault, raised


@dataclass(frozen=True, slots=True)
class LargeCall:
    """One call: arrays that are drawn, and others as in a call; all of their names in their order."""

    names: tuple[str, ...]
    drawn: Mapping[str, Drawn]
    inputs: Mapping[str, NDArray[Any]]
    options: Mapping[str, Any]
    dtype: str
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class Held:
    """The outputs that are kept of a large call, by their shapes and dtypes; or a fault."""

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    fault: Fault | None = None
    memory: int = 0
    """The most memory that the process has used, in bytes."""


def held(caller: DirectCaller, call: LargeCall) -> Held:
    """Make a large call, and keep its outputs with the caller."""
    try:
        caller.rest()
        found = _called(caller, call)
    except BaseException as error:  # even one that is meant to end a program
        found = raised(error)
    if isinstance(found, Fault):
        return Held(fault=found, memory=_memory())
    caller.kept = found
    framework = caller.framework
    shapes = {name: tuple(int(n) for n in x.shape) for name, x in found.items()}
    return Held(shapes, {name: framework.dtype(x) for name, x in found.items()}, memory=_memory())


def _called(caller: DirectCaller, call: LargeCall) -> dict[str, Any] | Fault:
    framework, interface, arrays = caller.framework, caller.interface, dict[str, Any]()
    for index, name in enumerate(call.names):
        source = call.drawn[name].whole() if name in call.drawn else call.inputs[name]
        dtype = interface.dtype_of(name, call.dtype)
        arrays[name] = framework.make(source, dtype, call.device, "contiguous", index)
    by_position = [name for name in interface.required if name not in interface.by_name]
    named = {name: arrays[name] for name in call.names if name not in by_position}
    small = Call({}, call.options, call.dtype, call.device)
    result = caller.result(small, [arrays[name] for name in by_position], named)
    if isinstance(result, Fault):
        return result
    written = {output: arrays[name] for name, output in interface.into.items() if output and name in arrays}
    if written and (result is None or any(result is x for x in written.values())):
        result = written
    outputs = caller.named(result)
    if isinstance(outputs, Fault):
        return outputs
    return {name: x for name, x in outputs.items() if framework.is_array(x)}


def part(caller: DirectCaller, name: str, box: tuple[tuple[int, int], ...]) -> NDArray[Any]:
    """A part of an output that is kept: from where to where along each axis."""
    return caller.read(caller.kept[name][tuple(slice(*ends) for ends in box)])


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
