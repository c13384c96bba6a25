"""Whether a plain function is read at all: one whose parameters mean something else is no wrong implementation."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from ..cases.applicability import undeclared
from ..cases.plans import plan
from ..cases.profiles import PROFILES
from ..errors import TargetError, label_of
from ..execution.faults import Fault
from ..mechanisms.layouts import layout_of, pattern
from ..mechanisms.parameters import readings
from ..mechanisms.stated import is_stated
from ..subjects.places import placed
from ..subjects.subject import REFUSING, AdapterSubject
from ..subjects.taken import in_a_line
from .bench import Bench
from .first_case import FirstCase
from .settling import Declined
from .trial import Faulted, Trial

NO_ARRAYS = ("function", "method", "type", "module", "str", "bool", "tuple", "dict")
"""The types of what is no array, and none that is in the place of one."""
OTHERWISE = (*(f"returned a {kind}" for kind in NO_ARRAYS), "returned None, and no ")
"""How it is said of a function that it returns what no function returns that computes something, or several."""
AXES = re.compile(
    r"^ValueError: (?:not enough|too many) values to unpack \(expected (\d+)|not equal to len\(dims\) = (\d+)"
)
"""What errors say of a function that takes its arguments for arrays of so many axes, or for so many arrays."""
OTHERS = re.compile(r"'NoneType'|^TypeError: unhashable")
"""What errors say of a function that asks for what it is not passed, or for numbers where it is passed rows."""
MORE_AXES = re.compile(r"^IndexError: too many indices for (?:tensor|array)")
"""What errors say of a function that takes its arguments for arrays of more axes."""
SHAPE = re.compile(r"\[([\d, ]*)\]")
"""A shape as faults tell it."""
LOOKED_AT = 16
"""First cases that all fail alike where other arrays are meant."""
FEW = 4
"""First cases that all fail where places alone say what a function takes."""


def check_read(subject: AdapterSubject, device: str) -> None:
    """Raise `TargetError` for a function that gives no result for a first case, which is not what it is called for.

    That is one of which places alone say what it takes, and that raises an error on each of them; one that returns
    what is no array, or an array with other axes than the output has; and one whose errors say that it takes its
    arguments for arrays of so many axes as give a result in no layout, or asks for more of them.
    Any other that raises errors is wrong, as one is that is in another layout than its faults let see.
    """
    m, adapter = subject.mechanism, subject.adapter
    if not adapter.guessed or undeclared(m, subject.claims) is not None:
        return
    by_place = _by_place(subject)
    found = _first_faults(subject, device, FEW if by_place else LOOKED_AT)
    says, why = found[0].says if found else "", ""
    if not found:
        if shapes := _of_other_axes(subject, device):
            why = f"in each first call {shapes}, which has other axes; name what computes it, or wrap the function"
    elif by_place and all(fault.kind in REFUSING for fault in found):
        taken = ", ".join(f"`{name}` for {own}" for name, own in by_place.items())
        why = f"by their places alone it takes {taken}, and each first call raises an error ({says})"
        why += f"; {in_a_line(m, next(iter(by_place)))}"
    elif all(fault.says.startswith(OTHERWISE) for fault in found):
        why = f"each first call {says}; name what computes it"
    elif _ask_for_others(found, subject, device):
        why = f"each first call raises an error ({says}), as where other arrays are meant; "
        why += "say what to pass with --like, or wrap the function"
    if why:
        raise TargetError(f"{label_of(adapter.name, adapter.place)}: {why}")


def _of_other_axes(subject: AdapterSubject, device: str) -> str:
    """What shape a result has whose axes are always more or fewer than an output's, in the words of a first call.

    Nothing where one result has as many, where a function goes by the name of a known interface, or where the output is
    one number, of which functions return the parts.
    """
    if subject.form.taken is not None and not is_stated(subject.adapter.like):
        return ""
    asked, says = FirstCase(subject, device), ""
    for sample in itertools.islice(asked.plain, LOOKED_AT):
        fault = asked.fault_of(sample, subject.mechanism.outputs[:1])
        shapes = SHAPE.findall(fault.says) if fault and fault.kind == "misshapen" else []
        if fault is False or len({shape.count(",") for shape in shapes}) == 1 or "" in shapes:
            return ""
        says = says or (fault.says if fault and shapes else "")
    return says


def _ask_for_others(faults: Sequence[Fault], subject: AdapterSubject, device: str) -> bool:
    """Whether all of some errors say that other arrays are meant: more, or of so many axes as are read in no layout."""
    if not all(_is_of_others(fault.says) for fault in faults):
        return False
    if subject.is_known:
        return True  # its interface says which axes its arrays have
    asked = (AXES.search(fault.says) for fault in faults)
    counts = {int(found[1] or found[2]) for found in asked if found is not None}
    more = any(MORE_AXES.search(fault.says) for fault in faults)
    layouts = (name for name, axes in _axes_in_layouts(subject).items() if axes in counts or more)
    return not any(_is_read_in(layout, subject, device) for layout in layouts)


def _axes_in_layouts(subject: AdapterSubject) -> dict[str, int]:
    """The layouts of the arrays of a subject, each with the number of axes that the first array has in it."""
    m, stacks = subject.mechanism, subject.form.layout.stacks
    alike = [x for x in (layout_of(m.layouts, name) for name in m.layouts) if x.stacks == stacks]
    return {x.name: len(pattern(x.text(m.required[0])).axes) for x in alike}


def _is_read_in(layout: str, subject: AdapterSubject, device: str) -> bool:
    """Whether a function takes first cases in a layout for what they are: none of its errors says the same of that.

    So it is where it has room for none of them.
    """
    own, observed = subject.form.layout.name, subject.observed_layout
    subject.read_as(layout)
    try:
        found = _first_faults(subject, device, LOOKED_AT)
    finally:
        subject.read_as(own, observed=observed)
    return not found or not all(_is_of_others(fault.says) for fault in found)


def _is_of_others(says: str) -> bool:
    """Whether an error is one of a function that asks for more than it is passed, or for arrays of other axes."""
    return any(one.search(says) is not None for one in (AXES, OTHERS, MORE_AXES))


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
