"""The audit of all mechanisms.

* Definition, reference and examples agree, under every word of every convention.
* Every known mistake is refuted, in every dtype; and put into the definition, it is noticed by the reference.
* Every known mistake is right on cases that do not touch what it is about.
* Every law refutes a known mistake, unless it is marked as a contract, and every law is reached by some case.
* A subject that declares one word of a convention and follows another is refuted.
* Functions that are wrong in ways which no changed line of a definition expresses are refuted, in each of their dtypes.
* Correct implementations that compute in other ways pass, and hardly ever because a bound is too wide to say anything.

That a law refutes a mistake is decided in float64 and with slack, so that no law is credited with a mistake that merely
left an error budget.
"""

from __future__ import annotations

import gc
import itertools
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from ..mechanisms.evidence import write
from ..mechanisms.library import Library
from ..mechanisms.loader import NONE, Specs, mechanism_named
from ..subjects.targets import families
from .correct import audited_controls, controls
from .faulty import audited_faults, faults_of
from .mechanism import audited_mechanism
from .parts import Part


def audited(names: Sequence[str] = (), *, deep: bool = False, workers: int = 1, specs: Specs = NONE) -> Iterator[Part]:
    """The audit, part by part: the mechanisms, then every correct variant, then every fault.

    Unknown mechanisms are a `UsageError`.
    """
    known = specs.library()
    wanted = wanted_of(known, names)
    correct, wrong = controls(known, wanted), faults_of(known, wanted)
    if workers == 1:
        for name in wanted:
            yield audited_mechanism(known[name])
        for own in correct.values():
            yield from audited_controls(own, wanted, specs, deep=deep)
        for own in wrong.values():
            yield from audited_faults(own, specs)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _settle, (specs,)) as pool:
        # what takes longest goes first; what shares its cases and bounds goes to one process
        operators = sorted(correct, key=lambda operator: -len(correct[operator]))
        checked = {o: pool.submit(audited_controls, correct[o], wanted, specs, deep=deep) for o in operators}
        mechanisms = sorted(wanted, key=lambda name: -len(known[name].mistakes))
        parts = {name: pool.submit(_part, name, specs) for name in mechanisms}
        refuted = [pool.submit(audited_faults, own, specs) for own in wrong.values()]
        for name in wanted:
            yield parts[name].result()
        for operator in correct:
            yield from checked[operator].result()
        for parts_of_operator in refuted:
            yield from parts_of_operator.result()


def derive(names: Sequence[str] = (), *, workers: int = 1, specs: Specs = NONE) -> Iterator[Part]:
    """The mechanisms alone, and what their scenarios show of their mistakes written beside their specifications."""
    known = specs.library()
    wanted = wanted_of(known, names)
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _settle, (specs,)) as pool:
        for part in pool.map(_part, wanted, itertools.repeat(specs)):
            if part.evidence is not None:
                write(known[part.name], part.evidence)
            yield part


def wanted_of(known: Library, names: Sequence[str]) -> tuple[str, ...]:
    """The mechanisms that were named; where none was, those of further folders, or all of them."""
    return tuple(mechanism_named(name, known).name for name in names) or tuple(known.files if known.folders else known)


def _settle(specs: Specs) -> None:
    """Load what stays as long as a worker does, and have its garbage looked for less often, and not in that."""
    specs.library()
    families("controls")
    gc.freeze()
    gc.set_threshold(20_000)


def _part(name: str, specs: Specs) -> Part:
    return audited_mechanism(specs.library()[name])
