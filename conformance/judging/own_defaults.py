"""Options that a plain function has by a default of its own, where calls of its operator may do without.

A soft cap or a limit that is a number by default is that number in every call that leaves it out: this is seen where
the function is wrong without it and right if told the number. Every case has the option then, with that number where it
would have none.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from dataclasses import replace

from ..cases.samples import Sample, fitting
from ..subjects.renaming import numbered
from ..subjects.subject import AdapterSubject
from .first_case import FirstCase
from .fits import fits_of

LOOKED_AT = 20
"""Cases without an option that are looked at."""


def own_defaults(subject: AdapterSubject, device: str) -> Iterator[tuple[str, str, float]]:
    """The parameters without which a function never is, each with its option and with its number by default."""
    for name, (option, number) in _numbers(subject).items():
        asked = FirstCase(subject, device)
        lacking = (case for case in asked.some if case.values.get(option, 0) is None)
        if _is_never_without(subject, [*itertools.islice(lacking, LOOKED_AT)], option, number, device):
            yield name, option, number


def _is_never_without(subject: AdapterSubject, cases: list[Sample], option: str, number: float, device: str) -> bool:
    """Whether a function is wrong on a case without an option, and right on it with a number, or right on no case."""
    m, right = subject.mechanism, False
    for case in cases:
        if fits_of(subject, m, [case], case.dtype, device) == ["right"]:
            right = True
            continue
        given = replace(case.case, fixed={**case.case.fixed, option: number})
        made = fitting(m, given, case.dtype, subject.claims)
        if made is not None and fits_of(subject, m, [made], case.dtype, device) == ["right"]:
            return True
    return bool(cases) and not right


def _numbers(subject: AdapterSubject) -> dict[str, tuple[str, float]]:
    """The parameters that are a number by default, each with its option, which calls may lack, and that number."""
    m, taken = subject.mechanism, subject.form.taken
    passed = {name: how.texts for name, how in taken.passed.items()} if taken else {}
    scales, found = numbered(subject.adapter.function), dict[str, tuple[str, float]]()
    for name, parameter in inspect.signature(subject.adapter.function).parameters.items():
        texts = passed.get(name, (name,) if taken is None else ())
        option = texts[0] if len(texts) == 1 else ""
        open_ = option in m.options and m.defaults.get(option, 0) is None and name not in scales
        if open_ and type(parameter.default) in (int, float) and parameter.default > 0:  # none is zero, or minus one
            found[name] = option, parameter.default
    return found
