"""Whether a plain function is read at all: one whose parameters mean something else is no wrong implementation."""

from __future__ import annotations

from ..errors import TargetError, label_of
from ..execution.faults import Fault
from ..mechanisms.parameters import readings
from ..subjects.places import placed
from ..subjects.subject import REFUSING, AdapterSubject
from ..subjects.taken import in_a_line
from .bench import Bench
from .fits import giving
from .settling import Declined
from .trial import Faulted, Trial

NO_ARRAYS = ("function", "method", "type", "module", "str", "bool", "tuple", "dict")
"""The types of what is no array, and none that is in the place of one."""
OTHERWISE = (*(f"returned a {kind}" for kind in NO_ARRAYS), "returned None, and no ")
"""How it is said of a function that it returns what no function returns that computes something, or several."""
UNPACKING = ("ValueError: not enough values to unpack", "ValueError: too many values to unpack")
"""How the errors of a function begin that takes its arguments for arrays of other axes, or for several."""


def check_read(subject: AdapterSubject, device: str) -> None:
    """Raise `TargetError` for a function that gives no result for a first case, which is not what it is called for.

    That is one of which places alone say what it takes, and that raises an error on each of them; one that returns
    what is no array; and one that takes its arguments for other arrays, where the operator has one layout.
    Any other that raises errors is wrong, as one is that is in another layout than its faults let see.
    """
    m, adapter = subject.mechanism, subject.adapter
    if not adapter.guessed:
        return
    found = _first_faults(subject, device)
    if not found:
        return
    by_place, says, why = _by_place(subject), found[0].says, ""
    if by_place and all(fault.kind in REFUSING for fault in found):
        taken = ", ".join(f"`{name}` for {own}" for name, own in by_place.items())
        why = f"by their places alone it takes {taken}, and each first call raises an error ({says})"
        why += f"; {in_a_line(m, next(iter(by_place)))}"
    elif all(fault.says.startswith(OTHERWISE) for fault in found):
        why = f"each first call {says}; name what computes it"
    elif all(fault.says.startswith(UNPACKING) for fault in found) and not m.layouts:
        why = f"each first call raises an error ({says}), as where another shape or number of arrays is meant; "
        why += "say what to pass with --like, or wrap the function"
    if why:
        raise TargetError(f"{label_of(adapter.name, adapter.place)}: {why}")


def _by_place(subject: AdapterSubject) -> dict[str, str]:
    """The parameters that give inputs by their places alone, as no name and no reading says what they are."""
    read = {name for one in readings(subject.mechanism) for several in one.parameters for name in several}
    by_place = placed(subject.adapter.function, subject.mechanism)
    return {name: own for name, own in by_place.items() if name not in read}


def _first_faults(subject: AdapterSubject, device: str) -> list[Fault]:
    """What comes of the first cases, but for those that are refused; nothing where one of them has a result."""
    m, dtype, found = subject.mechanism, subject.claims.dtypes[0], list[Fault]()
    bench = Bench(subject, m, dtype, device, m.words)
    with subject.session():
        for sample in giving(subject, m, dtype, ()):
            trial = Trial(bench, sample)
            try:
                trial.reply(trial.base)
                return []
            except Declined:
                continue
            except Faulted as error:
                found.append(error.fault)
    return found
