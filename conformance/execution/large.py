"""Large calls: the worker generates inputs from keys, keeps the outputs, and returns parts of them on request.

Arrays lie inside larger ones that hold NaN, so that what is read beyond them shows, and what is written there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..frameworks.framework import Framework, kind_of
from ..numerics.drawn import Drawn
from ..numerics.formats import FORMATS
from .calling import Call, DirectCaller
from .faults import Fault, raised
from .peak import peak
from .pressure import pressed
from .strided import seen_as, spread_out
from .vast import NoRoomError, bounded, is_vast, out_of_room, spread, vast

ZONE = 1 << 12
"""Entries around an array that belong to nobody."""
SHORT = 1.0
"""Seconds that a call takes at most if it is made once more."""
AGAIN = " again"
"""What is behind the name of an output of a call that was made once more."""
VIEWING = ("numpy", "torch")
"""Frameworks in which a part of an array is in the memory of the whole."""


@dataclass(frozen=True, slots=True)
class LargeCall:
    """One call: arrays that are drawn, and others as in a call; all of their names in their order."""

    names: tuple[str, ...]
    drawn: Mapping[str, Drawn]
    inputs: Mapping[str, NDArray[Any]]
    options: Mapping[str, Any]
    dtype: str
    device: str = "cpu"
    around: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """How many entries directly in front of and behind each array are NaN; of one that is not named, all."""
    room: int = 4 << 30
    """Bytes that a call may take beside its arrays, where that can be bounded."""
    turns: int = 0
    """How often the call is made again while other threads make it with other inputs; what differs most is kept."""
    apart: int = 0
    """Over how many entries of memory a mask of several rows lies, most of it never touched; 0 if over its own."""
    again: bool = True
    """Whether a short call is made once more, with new memory full of NaN."""


@dataclass(frozen=True, slots=True)
class Held:
    """The outputs that are kept of a large call, by their shapes and dtypes; or a fault."""

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    fault: Fault | None = None
    beyond: str = ""
    """What was written beyond an array, and where."""
    memory: int = 0
    """The most memory that the process has used, in bytes."""
    unroomy: str = ""
    """Why the call was not made, or came to nothing, for want of memory."""
    unsteady: str = ""
    """How often which entries were others beside other threads."""
    again: bool = False
    """Whether the call was made once more."""
    unlike: str = ""
    """Which outputs had other bits then; those are kept, too, under their names with `AGAIN` behind."""


def held(caller: DirectCaller, call: LargeCall) -> Held:
    """Make a large call, and keep its outputs with the caller."""
    try:
        caller.rest()
        found = _called(caller, call)
    except NoRoomError as error:
        return Held(unroomy=str(error))
    except BaseException as error:  # even one that is meant to end a program
        found = raised(error)
    if isinstance(found, Fault):
        return Held(unroomy=found.says) if out_of_room(found.says) else Held(fault=found, memory=peak())
    caller.kept = {**found.outputs, **{f"{name}{AGAIN}": x for name, x in found.second.items()}}
    framework = caller.framework
    shapes = {name: tuple(int(n) for n in x.shape) for name, x in found.outputs.items()}
    dtypes = {name: framework.dtype(x) for name, x in found.outputs.items()}
    beyond = next(filter(None, (zoned.written(framework) for zoned in found.zones)), "")
    more = {"unsteady": found.unsteady, "again": found.again, "unlike": found.unlike}
    return Held(shapes, dtypes, beyond=beyond, memory=peak(), **more)


@dataclass(frozen=True, slots=True)
class _Zoned:
    """An array inside a larger one, whose surroundings nobody has any business with."""

    name: str
    buffer: Any
    before: NDArray[np.float32]
    """What is in front of it, as it was made."""
    behind: NDArray[np.float32]

    def written(self, framework: Framework) -> str:
        """What was written beyond the array; nothing if nothing was."""
        front, back = (framework.read(part) for part in (self.buffer[:ZONE], self.buffer[len(self.buffer) - ZONE :]))
        for entries, made, side in ((front[::-1], self.before[::-1], "in front of"), (back, self.behind, "behind")):
            changed = np.flatnonzero(~((entries == made) | (np.isnan(entries) & np.isnan(made))))
            if len(changed):
                return f"the call wrote {side} {self.name!r}, {changed[0] + 1} entries beyond it"
        return ""


@dataclass(frozen=True, slots=True)
class _Given:
    """What a call gave, and the arrays that lay inside larger ones."""

    outputs: dict[str, Any]
    zones: list[_Zoned]
    unsteady: str = ""
    again: bool = False
    second: Mapping[str, Any] = field(default_factory=dict)
    """The outputs of the same call made once more, if any of them has other bits."""
    unlike: str = ""


def _arranged(caller: DirectCaller, call: LargeCall) -> tuple[dict[str, Any], list[_Zoned]]:
    """The arrays of a call, most of them inside larger ones."""
    framework, interface = caller.framework, caller.interface
    arrays, zones = dict[str, Any](), list[_Zoned]()
    for index, name in enumerate(call.names):
        dtype = interface.dtype_of(name, call.dtype)
        if name in call.drawn and is_vast(call.drawn[name]):
            arrays[name] = vast(_viewing(framework, call.device), call.drawn[name], dtype, index)
        elif name in call.drawn and framework.name in VIEWING:
            drawn = call.drawn[name]
            before, behind = _around(call, name)
            make = partial(framework.make, dtype=dtype, device=call.device, layout="contiguous", index=index)
            if drawn.key and not drawn.order and not drawn.strides and kind_of(call.device) == "cpu":
                buffer, shape = _by_stretches(framework, drawn, before, behind, make), drawn.folded or drawn.shape
            else:
                flat, shape = _laid(drawn, before, behind)
                buffer = make(flat)
            own, strides = buffer[ZONE : len(buffer) - ZONE], drawn.handed_strides
            arrays[name] = seen_as(framework, own, shape, strides) if strides else own.reshape(shape)
            zones.append(_Zoned(name, buffer, before, behind))
        elif call.apart and name not in call.drawn and _is_mask(call.inputs[name]):
            made = framework.make(call.inputs[name], dtype, call.device, "contiguous", index)
            arrays[name] = spread(_viewing(framework, call.device), made, call.apart)
        elif name not in call.drawn and _surroundable(framework, call.inputs[name], dtype):
            source, (before, behind) = call.inputs[name], _around(call, name)
            flat = np.concatenate([before, source.ravel(), behind], dtype=source.dtype)
            buffer = framework.make(flat, dtype, call.device, "contiguous", index)
            arrays[name] = buffer[ZONE : len(buffer) - ZONE].reshape(source.shape)
            zones.append(_Zoned(name, buffer, before, behind))
        else:
            source = call.drawn[name].whole() if name in call.drawn else call.inputs[name]
            arrays[name] = framework.make(source, dtype, call.device, "contiguous", index)
    return arrays, zones


def _called(caller: DirectCaller, call: LargeCall) -> _Given | Fault:
    framework, interface, (arrays, zones) = caller.framework, caller.interface, _arranged(caller, call)
    by_position = [name for name in interface.required if name not in interface.by_name]
    named = {name: arrays[name] for name in call.names if name not in by_position}
    small = Call({}, call.options, call.dtype, call.device)
    passed, unsteady = [arrays[name] for name in by_position], ""
    with _within(caller, call):
        if call.turns:
            if interface.into:
                return Fault("unsupported", "what is written to is that of one thread")
            other = {name: _others(caller, call, name, x) for name, x in arrays.items()}
            beside = [other[name] for name in by_position], {name: other[name] for name in named}
            found = pressed(
                call.turns,
                lambda: caller.result(small, passed, named),
                lambda: caller.function(*beside[0], **beside[1], **caller.options(small)),
                lambda result: _entries(caller, arrays, result),
            )
            result, unsteady = found.result, found.says
        else:
            result = caller.result(small, passed, named)
    outputs = _outputs(caller, arrays, result)
    if isinstance(outputs, Fault):
        return outputs
    given = {name: x for name, x in outputs.items() if framework.is_array(x)}
    if not call.again or call.turns or interface.into or caller.seconds > SHORT:
        return _Given(given, zones, unsteady)
    with _within(caller, call):
        second = _outputs(caller, arrays, caller.result(replace(small, poisoned=True), passed, named))
    if isinstance(second, Fault):
        refused = second.kind == "unsupported" or out_of_room(second.says)
        return _Given(given, zones) if refused else replace(second, says=f"the same call again: {second.says}")
    unlike = [name for name, x in given.items() if name not in second or not framework.same(second[name], x)]
    kept = {name: x for name, x in second.items() if framework.is_array(x)} if unlike else {}
    return _Given(given, zones, again=True, second=kept, unlike=" and ".join(map(repr, unlike)))


def _within(caller: DirectCaller, call: LargeCall) -> AbstractContextManager[None]:
    """A stretch in which no more memory is taken than a call may take, where that can be bounded."""
    plain = caller.framework.name in VIEWING and kind_of(call.device) == "cpu"
    return bounded(call.room) if plain else nullcontext()


def _viewing(framework: Framework, device: str) -> Framework:
    """A framework whose arrays may lie in larger memory; `NoRoomError` for another one, or another device."""
    if framework.name not in VIEWING or kind_of(device) != "cpu":
        raise NoRoomError(f"arrays of {framework.name} on {device} are not laid into larger memory")
    return framework


def _is_mask(x: NDArray[Any]) -> bool:
    """Whether an array is a mask of several rows."""
    return x.dtype.kind == "b" and x.ndim > 1 and x.size > x.shape[-1]


def _surroundable(framework: Framework, x: NDArray[Any], dtype: str) -> bool:
    """Whether an array can lie inside a larger one that holds NaN: one of numbers that have a NaN."""
    return framework.name in VIEWING and x.size > 0 and x.ndim > 0 and x.dtype.kind == "f" and dtype in FORMATS


def _laid(
    drawn: Drawn, before: NDArray[np.float32], behind: NDArray[np.float32]
) -> tuple[NDArray[np.float32], tuple[int, ...]]:
    """The entries of an array with what lies around it, and its shape."""
    if drawn.handed_strides:
        source = drawn.whole()
        return np.concatenate([before, spread_out(source, drawn.handed_strides), behind]), source.shape
    flat = np.empty(drawn.size + 2 * ZONE, np.float32)
    flat[:ZONE], flat[len(flat) - ZONE :] = before, behind
    return flat, drawn.whole(flat[ZONE : len(flat) - ZONE]).shape


def _by_stretches(
    framework: Framework,
    drawn: Drawn,
    before: NDArray[np.float32],
    behind: NDArray[np.float32],
    make: Callable[[NDArray[np.float32]], Any],
) -> Any:
    """The entries of an array with what lies around it, made and rounded a stretch at a time in main memory."""
    first, total = make(before), drawn.size + 2 * ZONE
    buffer = np.empty(total, first.dtype) if framework.name == "numpy" else first.new_empty(total)
    buffer[:ZONE], buffer[total - ZONE :] = first, make(behind)
    for start, entries in drawn.stretches():
        buffer[ZONE + start : ZONE + start + len(entries)] = make(entries)
    return buffer


def _others(caller: DirectCaller, call: LargeCall, name: str, x: Any) -> Any:
    """Other entries in the shape of an array that was drawn; any other array as it is."""
    drawn = call.drawn.get(name)
    if drawn is None:
        return x
    entries = replace(drawn, key=f"{drawn.key} beside").whole()
    return caller.framework.make(entries, caller.interface.dtype_of(name, call.dtype), call.device, "contiguous", 0)


def _entries(caller: DirectCaller, arrays: Mapping[str, Any], result: Any) -> dict[str, NDArray[Any]] | None:
    """The entries of what a call gave; None for a fault."""
    outputs = _outputs(caller, arrays, result)
    if isinstance(outputs, Fault):
        return None
    return {name: caller.read(x) for name, x in outputs.items() if caller.framework.is_array(x)}


def _outputs(caller: DirectCaller, arrays: Mapping[str, Any], result: Any) -> dict[str, Any] | Fault:
    """What a call gave, by name."""
    return result if isinstance(result, Fault) else caller.named(result, arrays)


def _around(call: LargeCall, name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """What lies in front of an array, and behind it: NaN next to it, and zeros further away."""
    front, back = call.around.get(name, (ZONE, ZONE))
    before, behind = np.zeros(ZONE, np.float32), np.zeros(ZONE, np.float32)
    before[ZONE - front :], behind[:back] = np.nan, np.nan
    return before, behind


def extremes(caller: DirectCaller, name: str) -> NDArray[np.int64]:
    """Where the least and the greatest entry of an output that is kept are, counted over all axes; NaN is either."""
    x = caller.kept[name]
    if caller.framework.name == "torch":
        flat = x.reshape(-1)
        return np.array([int(flat.argmin()), int(flat.argmax())])
    entries = caller.read(x)
    return np.array([entries.argmin(), entries.argmax()])


def part(caller: DirectCaller, name: str, box: tuple[tuple[int, int], ...]) -> NDArray[Any]:
    """A part of an output that is kept: from where to where along each axis."""
    return caller.read(caller.kept[name][tuple(slice(*ends) for ends in box)])
