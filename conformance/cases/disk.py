"""The part of a sample's cache that is kept between runs: values and bounds of the definition, for any subject.

An entry of the store is found by the inputs themselves, the specification with all that it calls, and the code that
evaluates it, so that it is right for as long as it is found. What cannot be written exactly is computed again.
"""

from __future__ import annotations

import functools
import hashlib
import platform
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from ..data.store import Store, code_of, digest
from ..mechanisms.mechanism import Mechanism, reached_from
from ..numerics.grades import GRADES
from ..numerics.numbers import Number
from .samples import Case, Sample

STORE = Store("values", 256 << 20)
OUTCOMES = ("outcome", "score", "differing", "refused")
"""The kinds of cached things that follow from values, which a later run needs only where results are others."""
KINDS = ("exact", "bound", *OUTCOMES)
"""The kinds of cached things that are kept."""
CODE = ("data", "numerics", "language", "mechanisms", "cases", "judging", "reference")
"""The packages on which a value depends."""


def restore(sample: Sample) -> None:
    """Put what earlier runs have computed from a sample into its cache: outcomes at once, values when one is needed."""
    if not lasts(sample.mechanism):
        return
    key = key_of(sample)
    sample.cache.restore(dict(_entries(_outcomes(key))), later=lambda: dict(_entries(key)))


def save(samples: Iterable[Sample]) -> None:
    """Keep what was computed from samples for later runs."""
    for sample in samples:
        if len(sample.cache) == sample.cache.looked_at and not sample.cache.renewed:
            continue
        sample.cache.looked_at = len(sample.cache)
        kept = [(key, x) for key, x in sample.cache.items() if lasting(key)]
        outcomes = {key: x for key, x in kept if any(part in OUTCOMES for part in key[:2])}
        values = {key: x for key, x in kept if key not in outcomes}
        if not lasts(sample.mechanism):
            continue
        if len(values) > sample.cache.saved:
            sample.cache.saved = len(values)
            STORE.put(key_of(sample), _written(values.items()))
        if len(outcomes) > sample.cache.outcomes or sample.cache.renewed:
            sample.cache.outcomes, sample.cache.renewed = len(outcomes), False
            STORE.put(_outcomes(key_of(sample)), _written(outcomes.items()))


def lasting(key: Any) -> bool:
    """Whether something of that key is kept between runs."""
    return type(key) is tuple and any(part in KINDS for part in key[:2])


def key_of(sample: Sample) -> str:
    """The key of a sample: another one if anything differs of which its values are made."""
    content = hashlib.blake2b(digest_size=20)
    for name, x in sorted(sample.values.items()):
        array = isinstance(x, np.ndarray)
        content.update(repr((name, x.dtype.str, x.shape, x.strides) if array else (name, type(x).__name__, x)).encode())
        content.update(np.ascontiguousarray(x).data if array else b"")
    return digest(code(), fingerprint(sample.mechanism), sample.dtype, content.digest())


def _outcomes(key: str) -> str:
    """The key of the outcomes of a sample, which are apart from its values."""
    return digest(key, "outcomes")


def key_of_draws(mechanism: Mechanism, asked: str) -> str:
    """The key of cases that were drawn as it was asked for."""
    return digest(code(), fingerprint(mechanism), "draws", asked)


def kept_cases(key: str) -> list[Case]:
    """The cases that an earlier run has drawn; none where none are kept."""
    return [Case(**parts) for _, parts in _entries(key)]


def keep_cases(key: str, cases: Sequence[Case]) -> None:
    """Keep cases for later runs, unless one of them holds what cannot be written."""
    parts = [{f.name: getattr(case, f.name) for f in fields(case)} for case in cases]
    with suppress(UnwritableError):
        STORE.put(key, _joined([_entry(case.label, x) for case, x in zip(cases, parts, strict=True)]))


@functools.cache
def code() -> str:
    """The version of the code, and of what computes for it."""
    return digest(machine(), *(code_of(f"attnspec.{name}") for name in CODE))


def machine() -> str:
    """What computes, with its version."""
    features = np._core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]
    return repr((np.__version__, platform.python_version(), platform.machine(), sorted(features.items())))


def fingerprint(mechanism: Mechanism) -> str:
    """Of the specification of a mechanism, and of all that it calls."""
    return " ".join(f"{m.name}:{m.digest}" for m in _with_called(mechanism))


def lasts(mechanism: Mechanism) -> bool:
    """Whether its values are kept: not those of a reference in a file of the user, which may read any other."""
    return not any(m.by_reference and m.library and m.operator in m.library.references for m in _with_called(mechanism))


def _with_called(mechanism: Mechanism) -> list[Mechanism]:
    return reached_from([mechanism], lambda m: map(m.beside, m.calls))


# Entries


class UnwritableError(Exception):
    """A value that cannot be written so that the same is read."""


def _written(entries: Iterable[tuple[Any, Any]]) -> bytes:
    """As many of the entries as can be written."""
    found = []
    for key, x in entries:
        with suppress(UnwritableError):
            found.append(_entry(key, x))
    return _joined(found)


def _joined(entries: Sequence[bytes]) -> bytes:
    return msgpack.Packer().pack_array_header(len(entries)) + b"".join(entries)


def _entry(key: Any, x: Any) -> bytes:
    """An entry as it is written, or an `UnwritableError`."""
    try:
        return bytes(msgpack.packb([key, _plain(x)]) or b"")
    except (TypeError, ValueError, OverflowError) as error:
        raise UnwritableError from error


def _entries(key: str) -> Sequence[tuple[Any, Any]]:
    """The entries that are kept under a key."""
    raw = STORE.get(key)
    if raw is None:
        return ()
    try:
        return [(name, _valued(x)) for name, x in msgpack.unpackb(raw, use_list=False, strict_map_key=False)]
    except Exception:
        STORE.drop(key)
        return ()


def _plain(x: Any) -> Any:
    """A value in plain data; what has more than one part is a list that begins with a letter for its kind."""
    kind = type(x)
    if kind in (bool, int, float, str, bytes) or x is None:
        return x
    if kind is np.ndarray:
        return _array(x)
    if issubclass(kind, np.generic):
        return ["s", x.dtype.str, x.tobytes()]
    if kind is Number and GRADES.get(x.grade.name) == x.grade:
        return ["n", *map(_plain, (x.value, x.worst, x.variance, x.shared)), x.grade.name, x.held]
    if kind is tuple:
        return ["t", *map(_plain, x)]
    if kind is dict:
        return {_named(name): _plain(y) for name, y in x.items()}
    raise UnwritableError


def _named(name: Any) -> str:
    if type(name) is not str:
        raise UnwritableError
    return name


def _array(x: NDArray[Any]) -> Any:
    """An array that fills its memory, its axes in any order: how it lies there decides how its entries are added up."""
    dense = x.transpose(sorted(range(x.ndim), key=lambda axis: -x.strides[axis]))
    if x.dtype.hasobject or not dense.flags.c_contiguous:
        raise UnwritableError
    return ["a", x.dtype.str, x.shape, x.strides, dense.tobytes()]


def _valued(x: Any) -> Any:
    if type(x) is dict:
        return {name: _valued(y) for name, y in x.items()}
    return _KINDS[x[0]](*x[1:]) if type(x) is tuple else x


def _array_of(dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], data: bytes) -> Any:
    return np.ndarray(shape, dtype, data, 0, strides)


def _number_of(value: Any, worst: Any, variance: Any, shared: Any, grade: str, held: bool) -> Number:
    return Number(*map(_valued, (value, worst, variance, shared)), grade=GRADES[grade], held=held)


_KINDS = {
    "a": _array_of,
    "s": lambda dtype, data: np.frombuffer(data, dtype)[0],
    "n": _number_of,
    "t": lambda *parts: tuple(map(_valued, parts)),
}
