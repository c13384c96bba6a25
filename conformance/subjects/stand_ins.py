"""Subjects without an adapter: the definition, with or without a mistake, and the float64 reference."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..execution.calling import Call, Reply
from ..execution.faults import raised
from ..mechanisms.definition import Frame, reached
from ..mechanisms.mechanism import Mechanism
from ..mechanisms.references import reference_outputs
from ..numerics import budget
from ..numerics.codes import stored_as
from ..numerics.formats import FORMATS, KINDS
from ..numerics.grades import LADDER
from .claims import Claims


@dataclass(frozen=True, slots=True)
class Lines:
    """The definition on one call: its lines, and the reply that they make."""

    frame: Frame
    reply: Reply
    call: Call


class Unchanged:
    """The definition on the last calls, shared by subjects that change some of its lines and round alike."""

    def __init__(self, room: int = 32, largest: int = 60_000) -> None:
        """`largest` is the number of entries of a call that is kept."""
        self.room, self.largest = room, largest
        self._kept: OrderedDict[tuple[Any, ...], Lines] = OrderedDict()
        self._claims: list[Claims] = []

    def claims(self, claims: Claims) -> Claims:
        """The claims of a subject; of those that are equal always the same ones, so that calls are shared as well."""
        if claims not in self._claims:
            self._claims.append(claims)
        return self._claims[self._claims.index(claims)]

    def on(self, subject: DefinitionSubject, call: Call) -> Lines | None:
        """The lines on a call; None where the definition refuses it, or where it is too large."""
        key = (id(call), *subject.words.values())  # kept lines keep their call alive
        if key not in self._kept:
            if sum(x.size for x in call.inputs.values()) > self.largest:
                return None
            try:
                frame = subject.frame(call, {}, beside=self._beside(call))
                self._kept[key] = Lines(frame, subject.reply(frame, call), call)
            except Exception:
                return None
            if len(self._kept) > self.room:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def _beside(self, call: Call) -> Frame | None:
        """The lines on the last call of the same dtype that has an input in common: those of a law have most."""
        for lines in reversed(self._kept.values()):
            known = lines.call
            if known.dtype == call.dtype and any(x is known.inputs.get(name) for name, x in call.inputs.items()):
                return lines.frame.unchanged or lines.frame
        return None


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
        unchanged: Unchanged | None = None,
    ) -> None:
        """With `unchanged`, only those lines are computed that a change reaches."""
        self.mechanism, self.name, self.operator = mechanism, name, mechanism.operator
        self.changes, self.rounding, self.unchanged = changes or {}, rounding, unchanged
        self._reached = reached(mechanism, self.changes)
        domain = mechanism.domain.values()
        self._moves_domain = any(condition.uses & self._reached for condition in domain)
        self.words = {**mechanism.words, **(conventions or {})}
        names = frozenset({*mechanism.optional, *mechanism.options})
        claims = Claims(names=names, dtypes=tuple(dtypes), conventions=self.words)
        self.claims = claims if unchanged is None else unchanged.claims(claims)

    def session(self) -> AbstractContextManager[None]:
        return nullcontext()

    def call(self, call: Call) -> Reply:
        try:
            lines = self.unchanged.on(self, call) if self.unchanged is not None else None
            if lines is None:
                return self.reply(self.frame(call, self.changes), call)
            frame, same = self.frame(call, self.changes, lines.frame), lines.reply
            if not differs(frame, lines.frame):
                return same
            reply = self.reply(frame, call)
            known = {n: same.outputs[n] if identical(x, same.outputs[n]) else x for n, x in reply.outputs.items()}
            return same if all(x is same.outputs[name] for name, x in known.items()) else Reply(known)
        except Exception as error:  # whose trace would lead through the code of the suite alone
            return Reply(fault=raised(error, traced=False))

    def frame(
        self,
        call: Call,
        changes: Mapping[str, Any],
        unchanged: Frame | None = None,
        *,
        beside: Frame | None = None,
    ) -> Frame:
        """The definition on a call, or a `SpecError` outside its domain.

        With `beside`, lines are taken from another call of the same dtype, without changes in either.
        """
        overflow, values = LADDER[call.dtype][0].arithmetic, {}
        if unchanged is None:
            options = {name: self.mechanism.meant(name, x) for name, x in call.options.items()}
            values = {**self.words, **self.claims.fixed, **call.inputs, **options}
        frame = (
            Frame(
                self.mechanism, values, changes=changes, overflow=overflow, unchanged=unchanged, reached=self._reached
            )
            if beside is None
            else beside.on(values)
        )
        if unchanged is None or self._moves_domain:
            frame.check_domain()
        return frame

    def reply(self, frame: Frame, call: Call) -> Reply:
        return Reply({name: self._rounded(x, name, call.dtype) for name, x in frame.outputs().items()})

    def _rounded(self, x: Any, name: str, dtype: str) -> NDArray[Any]:
        array = np.asarray(x)
        own = self.mechanism.dtype_of(name, dtype)
        if array.dtype.kind == "f" and own in KINDS and np.all(np.isfinite(array)):
            return array.astype(np.int64)
        if not self.rounding or array.dtype.kind != "f" or own in KINDS:
            return array
        return stored_as(array, own)


class ReferenceSubject(DefinitionSubject):
    """The float64 reference of an operator, rounded once."""

    def __init__(self, mechanism: Mechanism) -> None:
        super().__init__(mechanism, "reference")

    def call(self, call: Call) -> Reply:
        try:
            outputs = reference_outputs(self.mechanism, {**self.words, **call.inputs, **call.options})
        except Exception as error:
            return Reply(fault=raised(error))
        return Reply({name: self._rounded(x, name, call.dtype) for name, x in outputs.items()})


def differs(frame: Frame, unchanged: Frame) -> bool:
    """Whether the changes of a frame give any line another value than it has without them."""
    own = [name for name in frame.changes if "." not in name]
    if len(own) < len(frame.changes):  # a change of an operator that is called
        return True
    try:
        with np.errstate(all="ignore"), budget.metered():
            return not all(identical(frame[name], unchanged[name]) for name in own)
    except Exception:  # perhaps on a line that no output asks for
        return True


def identical(x: Any, y: Any) -> bool:
    """Whether two values of a line are the same to the bit."""
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
    return type(x) is type(y) and repr(x) == repr(y)
