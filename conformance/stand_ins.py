"""Subjects that need no adapter: the definition, with or without a mistake, and the float64 reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .calling import Call, Reply, raised
from .claims import Claims
from .definition import Frame, reference_outputs
from .formats import FORMATS, KINDS, rounded
from .grades import LADDER
from .mechanism import Mechanism


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
        options = {name: self.mechanism.meant(name, x) for name, x in call.options.items()}
        values = {**self.words, **call.inputs, **options}
        try:
            frame = Frame(self.mechanism, values, changes=self.changes, overflow=overflow)
            frame.check_domain()
            outputs = frame.outputs()
        except Exception as error:
            return Reply(fault=raised(error))
        return Reply({name: self._rounded(x, name, call.dtype) for name, x in outputs.items()})

    def _rounded(self, x: Any, name: str, dtype: str) -> NDArray[Any]:
        array = np.asarray(x)
        own = self.mechanism.dtype_of(name, dtype)
        if array.dtype.kind == "f" and own in KINDS and np.all(np.isfinite(array)):
            return array.astype(np.int64)
        if not self.rounding or array.dtype.kind != "f" or own in KINDS:
            return array
        return rounded(array, FORMATS[own])


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
