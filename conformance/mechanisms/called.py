"""Results of operators that definitions call, reused for the same arguments at the same precision.

A mechanism that is built on others calls them with equal arguments again and again: for every mistake that does not
reach them, for every law, and for every further step of a loop. Only small calls are kept, the last ones.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..numerics.grades import GRADES, Grade
from ..numerics.numbers import Number
from ..numerics.parts import absent
from ..numerics.products import entrywise

ROOM = 32 << 20
"""Bytes of all results that are kept."""
SMALL = 1 << 17
"""Bytes of the arguments of a call, or of its result, beyond which it is not kept."""
OVERHEAD = 500
"""Bytes of an entry beside its arrays."""
_SINGLE = frozenset((bool, int, float, str, type(None)))


@dataclass(frozen=True, slots=True)
class Answer:
    """What an operator gave, the conventions that it asked for, and the work that was charged for it."""

    result: Any
    asked: frozenset[str]
    work: int

    @property
    def nbytes(self) -> int:
        return OVERHEAD + getattr(self.result, "nbytes", 0)


class Called(OrderedDict[bytes, Answer]):
    """The last calls of the operators of a library, by `key_of`."""

    held = 0
    """The bytes of all answers."""

    def put(self, key: bytes, answer: Answer) -> None:
        """Keep an answer in the place of those that were not asked for longest."""
        if answer.nbytes > SMALL:
            return
        self[key] = answer
        self.held += answer.nbytes
        while self.held > ROOM:
            _, oldest = self.popitem(last=False)
            self.held -= oldest.nbytes


def key_of(name: str, grade: Grade | None, dtype: str, arguments: Mapping[str, Any]) -> bytes | None:
    """The same for calls that give the same, to the bit; None for a call that is not kept."""
    found = hashlib.blake2b(digest_size=20)
    head: list[Any] = [name, grade and grade.name, dtype, entrywise()]
    size = 0
    for argument, x in arguments.items():
        head.append(argument)
        if type(x) in _SINGLE:
            head.append(x)
            head.append(type(x))
            continue
        parts = _parts(x)
        if parts is None:
            return None
        for part in parts:
            if type(part) is not np.ndarray:
                head.append(part)
                continue
            size += part.nbytes
            if size > SMALL or part.dtype.hasobject:
                return None
            head += (part.dtype.char, part.shape, part.strides)  # how it lies decides how its entries are added up
            found.update(part.tobytes())
    if grade is not None and GRADES.get(grade.name) is not grade:
        return None
    found.update(repr(head).encode())
    return found.digest()


def _parts(x: Any) -> Iterator[Any] | None:
    """What an array or a number with errors is made of; None for anything else."""
    if type(x) is np.ndarray:
        return iter((x,))
    if type(x) is Number and GRADES.get(x.grade.name) is x.grade:
        errors = (part if absent(part) else np.asarray(part) for part in (x.worst, x.variance, x.shared))
        return iter((x.value, *errors, x.grade.name, x.held))
    return None
