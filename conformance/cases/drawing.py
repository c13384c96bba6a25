"""Samples drawn from cases, shared while they are in use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakValueDictionary

from ..errors import SpecError
from ..mechanisms.mechanism import Mechanism
from ..numerics.streams import digest
from ..subjects.claims import Claims
from .disk import restore, save
from .samples import Case, Picker, Sample, Unfit


def seed_of(seed: int, *key: object) -> int:
    """The seed of one case of a run."""
    return digest(seed, *key, size=4)


class Samples(WeakValueDictionary[tuple[Any, ...], Sample]):
    """The samples of a library that are in use."""


def drawn(mechanism: Mechanism, case: Case, claims: Claims, dtype: str, picker: Picker | None = None) -> Sample | None:
    """A sample of a case that is still to be settled, or None where it is unfit or, under limits and ties, impossible.

    Where nothing but the case decides, plans of other claims that have it share it, and what was computed from it.
    """
    key = (mechanism.name, mechanism.digest, dtype, case.label, case.key, claims.bounds)
    samples = mechanism.kept(Samples)
    if picker is None and key in samples:
        return samples[key]
    try:
        sample = Sample(mechanism, case, dtype, claims=claims, picker=picker)
        if picker is not None:  # what it has picked is settled now
            key = (mechanism.name, mechanism.digest, dtype, case.label, sample.case.key, claims.bounds)
        if key not in samples and not _ALONE.get():
            restore(sample)
        return samples.setdefault(key, sample)
    except Unfit:
        return None
    except SpecError:
        if not (claims.limits or claims.ties):
            raise
        return None


_ALONE: ContextVar[bool] = ContextVar("alone", default=False)


def keep(mechanism: Mechanism) -> None:
    """Keep for later runs what was computed from the samples of its library."""
    if not _ALONE.get():
        save([*mechanism.kept(Samples).values()])


@contextmanager
def unkept() -> Iterator[None]:
    """Have the runs of the body keep nothing for later ones, and find nothing of earlier ones.

    What many runs in a row have in common stays in memory, and of small samples it takes as long to read as to compute.
    """
    outer = _ALONE.set(True)
    try:
        yield
    finally:
        _ALONE.reset(outer)
