"""Whether a plain function is read at all: one whose parameters mean something else is no wrong implementation."""

from __future__ import annotations

from ..errors import TargetError
from ..mechanisms.parameters import readings
from ..subjects.forms import in_a_line
from ..subjects.renaming import placed
from ..subjects.subject import REFUSING, AdapterSubject
from .bench import Bench
from .fits import giving
from .settling import Declined
from .trial import Faulted, Trial


def check_read(subject: AdapterSubject, device: str) -> None:
    """Raise `TargetError` for a function that raises an error on each first case, where places alone say what it takes.

    Where the names of its parameters say so, it is wrong.
    """
    m, adapter = subject.mechanism, subject.adapter
    by_place = placed(adapter.function, m) if adapter.guessed else {}
    read = {name for one in readings(m) for several in one.parameters for name in several}
    by_place = {name: own for name, own in by_place.items() if name not in read}
    if not by_place:
        return
    dtype, says = subject.claims.dtypes[0], ""
    bench = Bench(subject, m, dtype, device, m.words)
    with subject.session():
        for sample in giving(subject, m, dtype, ()):
            trial = Trial(bench, sample)
            try:
                trial.reply(trial.base)
                return
            except Declined:
                continue
            except Faulted as error:
                if error.fault.kind not in REFUSING:
                    return
                says = says or error.fault.says
    if says:
        taken = ", ".join(f"`{name}` for {own}" for name, own in by_place.items())
        why = f"by their places alone it takes {taken}, and each first call raises an error ({says})"
        raise TargetError(f"{adapter.place or adapter.name}: {why}; {in_a_line(m, next(iter(by_place)))}")
