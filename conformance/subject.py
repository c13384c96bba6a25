"""What is under test, seen from outside: a call goes in, a reply comes out, both plain values.

Nothing of a framework crosses this line, so the same subject works in this process or behind another one.
Everything that can only be seen beside the call is judged here: dtype and device of the outputs, memory that they share
with an input or with an earlier output, inputs that were changed.
"""

from __future__ import annotations

import inspect
import traceback
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from attnspec.adapters import Adapter, Unsupported

from .definition import Frame, reference_outputs
from .errors import TargetError, UsageError, did_you_mean
from .formats import FORMATS, rounded
from .frameworks import Framework, framework_named
from .grades import LADDER, STANDARD, Grade, grade_named
from .loader import library
from .mechanism import Mechanism


@dataclass(frozen=True, slots=True)
class Claims:
    """What an implementation says of itself."""

    names: frozenset[str]
    """The optional inputs and the options that it takes."""
    dtypes: tuple[str, ...]
    conventions: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, Collection[int]] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    grades: Mapping[str, Grade] = field(default_factory=dict)
    deterministic: bool = False
    compiled: bool = False
    declared: bool = True
    """Whether it was declared as an adapter, and not merely pointed at."""
    always: frozenset[str] = frozenset()
    """Options that are passed even at their default, for the function has no default of its own."""
    unknown: tuple[str, ...] = ()
    """Parameters that mean nothing to the operator."""

    def grade(self, dtype: str) -> Grade:
        return self.grades.get(dtype, STANDARD[dtype])

    @property
    def key(self) -> tuple[Any, ...]:
        """What the drawing of cases depends on."""
        limits = tuple(sorted((n, tuple(v)) for n, v in self.limits.items()))
        return self.names, limits, tuple(sorted(self.fixed.items())), self.compiled


@dataclass(frozen=True, slots=True)
class Call:
    """One call: arrays as float64 (or whole numbers or truths), and options that are not at their default."""

    inputs: Mapping[str, NDArray[Any]]
    options: Mapping[str, Any]
    dtype: str
    device: str = "cpu"
    layout: str = "contiguous"
    poisoned: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """Why there is no result."""

    kind: Literal["unsupported", "raised", "returned"]
    says: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Breach:
    """A contract that a call broke."""

    contract: str
    says: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: outputs by name (fractions as float64), breaches, or a fault."""

    outputs: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    breaches: tuple[Breach, ...] = ()
    fault: Fault | None = None


class Subject(Protocol):
    """What is under test."""

    @property
    def name(self) -> str: ...

    @property
    def operator(self) -> str: ...

    @property
    def claims(self) -> Claims: ...

    def call(self, call: Call) -> Reply: ...

    def session(self) -> AbstractContextManager[None]: ...


class AdapterSubject:
    """An adapter's function, called in this process."""

    def __init__(self, adapter: Adapter, mechanism: Mechanism, *, declared: bool = True) -> None:
        """`mechanism` is the one of the operator's own name. A signature that cannot serve it is a `TargetError`."""
        self.adapter, self.mechanism = adapter, mechanism
        self.name, self.operator = adapter.name, adapter.operator
        self.claims = claims_of(adapter, mechanism, declared)
        self._last: tuple[Any, ...] = ()

    @property
    def framework(self) -> Framework:
        return framework_named(self.adapter.framework)

    @contextmanager
    def session(self) -> Iterator[None]:
        with self.framework.session():
            yield

    def call(self, call: Call) -> Reply:
        made = self._arrays(call)
        passed = [made[name].array for name in self.mechanism.required]
        named = {name: made[name].array for name in call.inputs if name not in self.mechanism.required}
        poison = self.framework.poisoned() if call.poisoned else nullcontext()
        try:
            with poison:
                result = self.adapter.function(*passed, **named, **call.options)
        except Unsupported as answer:
            return Reply(fault=Fault("unsupported", str(answer) or "unsupported"))
        except Exception as error:  # noqa: BLE001 - whatever a subject raises is a verdict on it
            return Reply(fault=Fault("raised", f"{type(error).__name__}: {_first_line(error)}", _trace(error)))
        outputs = self._named(result)
        if isinstance(outputs, Fault):
            return Reply(fault=outputs)
        breaches = [*self._changed(made), *self._shared(made, outputs), *self._mistyped(call, outputs)]
        self._last = tuple(outputs.values())
        return Reply({name: self._read(x) for name, x in outputs.items()}, tuple(breaches))

    def _arrays(self, call: Call) -> dict[str, _Made]:
        made = {}
        for index, (name, array) in enumerate(call.inputs.items()):
            dtype = self.mechanism.dtype_of(name, call.dtype)
            made[name] = _ARRAYS.make(self.framework, array, dtype, call.device, call.layout, index)
        return made

    def _named(self, result: Any) -> dict[str, Any] | Fault:
        """The outputs by name, or what is wrong with them as such."""
        known = self.mechanism.outputs
        if isinstance(result, Mapping):
            unknown = [str(name) for name in result if name not in known]
            if unknown:
                return Fault("returned", f"returned an output {unknown[0]!r}{did_you_mean(unknown[0], known)}")
            outputs = dict(result)
        else:
            parts = result if isinstance(result, tuple | list) else (result,)
            if len(parts) > len(known):
                listed = ", ".join(known)
                return Fault("returned", f"returned {len(parts)} outputs; {self.operator} has {len(known)}: {listed}")
            outputs = dict(zip(known, parts, strict=False))
        outputs = {name: x for name, x in outputs.items() if x is not None}
        if known[0] not in outputs:
            return Fault("returned", f"returned {_described(result)}, and no {known[0]!r}")
        for name, x in outputs.items():
            if not self.framework.is_array(x) and not isinstance(x, int | float):
                return Fault("returned", f"returned {_described(x)} as {name!r}, not an array of {self.framework.name}")
        return outputs

    def _read(self, x: Any) -> NDArray[Any]:
        return self.framework.read(x) if self.framework.is_array(x) else np.asarray(x)

    # Contracts

    def _changed(self, made: Mapping[str, _Made]) -> Iterator[Breach]:
        for name, item in made.items():
            if not self.framework.same(item.array, item.pristine):
                _ARRAYS.discard(item)
                yield Breach("inputs_unchanged", f"the call changed its input {name!r}")

    def _shared(self, made: Mapping[str, _Made], outputs: Mapping[str, Any]) -> Iterator[Breach]:
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
            dtype, expected = self.framework.dtype(x), self.mechanism.dtype_of(name, call.dtype)
            wide_enough = name in self.mechanism.dtypes and dtype == "float64"
            if dtype in FORMATS and dtype != expected and not wide_enough:
                yield Breach("dtype", f"the output {name!r} is {dtype}, not {expected}")
            device = self.framework.device(x)
            if device.partition(":")[0] != call.device.partition(":")[0]:
                yield Breach("device", f"the output {name!r} is on {device}, not on {call.device}")


def claims_of(adapter: Adapter, mechanism: Mechanism, declared: bool) -> Claims:
    """The claims of an adapter: its declaration, read together with the signature of its function."""
    label = f"{adapter.name}: "
    parameters = inspect.signature(adapter.function).parameters.values()
    takes_any = [p for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL]
    plain = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    inputs = [p for p in plain if p.kind is not p.KEYWORD_ONLY][: len(mechanism.required)]
    if len(inputs) < len(mechanism.required) and not takes_any:
        wanted = ", ".join(mechanism.required)
        raise TargetError(f"{label}{mechanism.operator} passes {len(mechanism.required)} inputs by position ({wanted})")
    further = [p for p in plain if p not in inputs]
    optional = {*mechanism.optional, *mechanism.options}
    unknown = [p for p in further if p.name not in optional]
    needed = [p.name for p in unknown if p.default is p.empty]
    if needed:
        hint = did_you_mean(needed[0], optional)
        raise TargetError(f"{label}the parameter {needed[0]!r} is neither input nor option of {adapter.operator}{hint}")
    for convention, word in adapter.conventions.items():
        if convention not in mechanism.conventions:
            raise UsageError(f"{label}unknown convention {convention!r}{did_you_mean(convention, mechanism.conventions)}")
        words = mechanism.conventions[convention]
        if word not in words:
            raise UsageError(f"{label}{convention} is one of {', '.join(words)}, not {word!r}{did_you_mean(word, words)}")
    for dtype in adapter.dtypes:
        if dtype not in FORMATS:
            raise UsageError(f"{label}unknown dtype {dtype!r}{did_you_mean(dtype, FORMATS)}")
    kin = [m for m in library().values() if m.operator == mechanism.name] or [mechanism]
    names = {name for m in kin for name in (*m.sizes, *m.options)}
    for name in (*adapter.limits, *adapter.fixed):
        if name not in names:
            raise UsageError(f"{label}limits and fixed speak of sizes and options, not of {name!r}"
                             f"{did_you_mean(name, names)}")  # fmt: skip
    return Claims(
        names=frozenset(p.name for p in further if p.name in optional),
        dtypes=adapter.dtypes,
        conventions=adapter.conventions,
        limits={n: v if isinstance(v, Collection) else (v,) for n, v in adapter.limits.items()},
        fixed=adapter.fixed,
        grades=_grades(adapter),
        deterministic=adapter.deterministic,
        compiled=adapter.compiled,
        declared=declared,
        always=frozenset(p.name for p in further if p.name in optional and _says_otherwise(p, mechanism)),
        unknown=tuple(p.name for p in unknown),
    )


def _says_otherwise(parameter: inspect.Parameter, mechanism: Mechanism) -> bool:
    """Whether leaving an option out means something else to the function than to the operator."""
    if parameter.default is parameter.empty:
        return True
    return isinstance(parameter.default, bool) and parameter.default is not mechanism.defaults.get(parameter.name)


def _grades(adapter: Adapter) -> dict[str, Grade]:
    if adapter.grade is None:
        return {}
    if isinstance(adapter.grade, str):
        return {dtype: grade_named(adapter.grade) for dtype in adapter.dtypes}
    return {dtype: grade_named(name) for dtype, name in adapter.grade.items()}


def _described(x: Any) -> str:
    return "None" if x is None else f"a {type(x).__name__}"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["(no message)"])[0][:300]


def _trace(error: Exception) -> str:
    return "".join(traceback.format_exception(error)[-8:])


# Arrays, made once for all subjects that are given the same ones


@dataclass(slots=True)
class _Made:
    key: tuple[Any, ...]
    source: NDArray[Any]
    array: Any
    pristine: Any


class _Arrays:
    """Framework arrays by the identity of their source, each with an untouched twin to find changes by."""

    def __init__(self, room: int = 256, largest: int = 1 << 14) -> None:
        self.room, self.largest = room, largest
        self.kept: OrderedDict[tuple[Any, ...], _Made] = OrderedDict()

    def make(
        self, framework: Framework, source: NDArray[Any], dtype: str, device: str, layout: str, index: int
    ) -> _Made:
        key = (id(source), framework.name, dtype, device, layout, index)
        found = self.kept.get(key)
        if found is not None:
            return found
        array = framework.make(source, dtype, device, layout, index)
        pristine = framework.make(source, dtype, device, "contiguous", index)
        made = _Made(key, source, array, pristine)
        if source.size <= self.largest:
            self.kept[key] = made
            if len(self.kept) > self.room:
                self.kept.popitem(last=False)
        return made

    def discard(self, made: _Made) -> None:
        self.kept.pop(made.key, None)


_ARRAYS = _Arrays()


# Subjects that need no adapter


class DefinitionSubject:
    """The definition itself in float64, rounded once; with the changes of a mistake, that mistake."""

    def __init__(
        self,
        mechanism: Mechanism,
        name: str,
        changes: Mapping[str, Any] | None = None,
        *,
        conventions: Mapping[str, str] | None = None,
        dtypes: Sequence[str] = tuple(FORMATS),
        rounding: bool = True,
    ) -> None:
        self.mechanism, self.name, self.operator = mechanism, name, mechanism.operator
        self.changes, self.rounding = changes or {}, rounding
        self.words = {**mechanism.words, **(conventions or {})}
        names = frozenset({*mechanism.optional, *mechanism.options})
        self.claims = Claims(names=names, dtypes=tuple(dtypes), conventions=self.words)

    def session(self) -> AbstractContextManager[None]:
        return nullcontext()

    def call(self, call: Call) -> Reply:
        overflow = LADDER[call.dtype][0].arithmetic
        values = {**self.words, **call.inputs, **call.options}
        try:
            frame = Frame(self.mechanism, values, changes=self.changes, overflow=overflow)
            frame.check_domain()
            outputs = frame.outputs()
        except Exception as error:  # noqa: BLE001
            return Reply(fault=Fault("raised", f"{type(error).__name__}: {_first_line(error)}", _trace(error)))
        return Reply({name: self._rounded(x, name, call.dtype) for name, x in outputs.items()})

    def _rounded(self, x: Any, name: str, dtype: str) -> NDArray[Any]:
        array = np.asarray(x)
        if not self.rounding or array.dtype.kind != "f":
            return array
        return rounded(array, FORMATS[self.mechanism.dtype_of(name, dtype)])


class ReferenceSubject(DefinitionSubject):
    """The float64 reference of an operator, rounded once."""

    def __init__(self, mechanism: Mechanism) -> None:
        super().__init__(mechanism, "reference")

    def call(self, call: Call) -> Reply:
        try:
            outputs = reference_outputs(self.mechanism, {**self.words, **call.inputs, **call.options})
        except Exception as error:  # noqa: BLE001
            return Reply(fault=Fault("raised", f"{type(error).__name__}: {_first_line(error)}", _trace(error)))
        return Reply({name: self._rounded(x, name, call.dtype) for name, x in outputs.items()})
