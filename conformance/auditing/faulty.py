"""Faulty functions, with mistakes that no changed line of a definition can express: each must be refuted."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence

from ..cases.drawing import unkept
from ..cases.profiles import PROFILES
from ..judging.cells import LARGE, Request
from ..judging.engine import run
from ..mechanisms.library import Library
from ..mechanisms.loader import NONE, Specs
from ..subjects.registered import faults
from ..subjects.targets import subject
from .parts import Part

SLIPS = ("raised", "returned")
"""What a fault of the suite's own code looks like, and what is wrong on purpose seldom does."""


def faults_of(known: Library, mechanisms: Collection[str]) -> dict[str, list[str]]:
    """The functions that are wrong on purpose, of the operators of some mechanisms, by operator."""
    operators, found = {known.operator_of(name) for name in mechanisms}, dict[str, list[str]]()
    for name, adapter in faults().items():
        if adapter.operator in operators:
            found.setdefault(adapter.operator, []).append(name)
    return found


def audited_faults(names: Sequence[str], specs: Specs = NONE) -> list[Part]:
    """Several faults of one operator."""
    with unkept():
        return [audited_fault(name, specs) for name in names]


def audited_fault(name: str, specs: Specs = NONE) -> Part:
    """A function that is wrong on purpose, which the quick profile refutes in each of its dtypes.

    It is tried on all mechanisms of its operator until one refutes it, for a fault may be one of options together.
    One of the sizes of production is tried on the large case that is to show it.
    One that raises an error is refuted by its own slip, and not by a law, unless `RAISING` of its module has its name.
    """
    adapter, part = faults()[name], Part(name)
    known = specs.library()
    one, own = subject(adapter, known=known), known.of(adapter.operator)
    shown: Mapping[str, str] = getattr(sys.modules[adapter.module], "SHOWN", {})
    law = shown.get(name.partition(":")[2], "")
    raising = name.partition(":")[2] in getattr(sys.modules[adapter.module], "RAISING", ())
    laws = frozenset({law if law.startswith("contract.") else f"{LARGE}{law}"}) if law else None
    profile = PROFILES["serving" if law else "quick"]
    for dtype in adapter.dtypes:
        checks = 0
        for mechanism in own:
            result = run(Request(one, mechanism, dtype, profile, laws=laws, first=True))
            checks += sum(cell.cases for cell in result.cells)
            refuting = next((cell for cell in result.cells if cell.bad and cell.level == "must"), None)
            if refuting is not None:
                case = f" on {refuting.failure.sample.case.label}" if refuting.failure else ""
                part.notes.append(f"{dtype}: {refuting.address}{case} after {checks} checks")
                fault = refuting.failure.outcome.fault if refuting.failure else None
                if fault is not None and fault.kind in SLIPS and not raising:
                    says = "raises an error, which is no refutation; mend it, or name it in RAISING of its module"
                    part.faults.append(f"{adapter.summary} In {dtype} it {says}: {fault.says}")
                break
        else:
            part.faults.append(f"{adapter.summary} Nothing refutes it in {dtype}, after {checks} checks.")
    return part
