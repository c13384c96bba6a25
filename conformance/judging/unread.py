"""Whether a plain function is read at all: one whose parameters mean something else is no wrong implementation."""

from __future__ import annotations

import itertools

from ..cases.plans import plan
from ..cases.profiles import PROFILES
from ..errors import TargetError, label_of
from ..execution.faults import Fault
from ..mechanisms.parameters import readings
from ..subjects.places import placed
from ..subjects.subject import REFUSING, AdapterSubject
from ..subjects.taken import in_a_line
from .bench import Bench
from .settling import Declined
from .trial import Faulted, Trial

NO_ARRAYS = ("function", "method", "type", "module", "str", "bool", "tuple", "dict")
"""The types of what is no array, and none that is in the place of one."""
OTHERWISE = (*(f"returned a {kind}" for kind in NO_ARRAYS), "returned None, and no ")
"""How it is said of a function that it returns what no function returns that computes something, or several."""
LOOKED_AT = 16
"""First cases that all give no result where a function is not read."""
FEW = 4
"""The same where places alone say what it takes."""
AS_MEANT = ", as where other arrays are meant; say what to pass with --like, or wrap the function"


def check_read(subject: AdapterSubject, device: str) -> None:
    """Raise `TargetError` for a function without a result for any first case: it is called as it is not meant to be.

    That is one that raises an error on each of them, and one that returns what is no array.
    One that ends its process, takes too long, or has results of other shapes is wrong.
    """
    m, adapter = subject.mechanism, subject.adapter
    if not adapter.guessed:
        return
    by_place, why = _by_place(subject), ""
    found = _first_faults(subject, device, FEW if by_place else LOOKED_AT)
    if not found:
        return
    says = found[0].says
    if all(fault.kind in REFUSING for fault in found):
        taken = ", ".join(f"`{name}` for {own}" for name, own in by_place.items())
        why = f"by their places alone it takes {taken}, and " if by_place else ""
        why += f"each first call raises an error ({says})"
        why += f"; {in_a_line(m, next(iter(by_place)))}" if by_place else AS_MEANT
    elif all(fault.says.startswith(OTHERWISE) for fault in found):
        why = f"each first call {says}; name what computes it"
    if why:
        raise TargetError(f"{label_of(adapter.name, adapter.place)}: {why}")


def _by_place(subject: AdapterSubject) -> dict[str, str]:
    """The parameters that give inputs by their places alone, as no name and no reading says what they are."""
    read = {name for one in readings(subject.mechanism) for several in one.parameters for name in several}
    by_place = placed(subject.adapter.function, subject.mechanism)
    return {name: own for name, own in by_place.items() if name not in read}


def _first_faults(subject: AdapterSubject, device: str, most: int) -> list[Fault]:
    """What comes of the first cases, but for those that are refused; nothing where one of them has a result."""
    m, dtype, found = subject.mechanism, subject.claims.dtypes[0], list[Fault]()
    bench = Bench(subject, m, dtype, device, m.words)
    with subject.session():
        for sample in itertools.islice(plan(m, subject.claims, PROFILES["quick"], 0, dtype).one_by_one(), most):
            trial = Trial(bench, sample)
            try:
                trial.reply(trial.base)
                return []
            except Declined:
                continue
            except Faulted as error:
                found.append(error.fault)
    return found
