"""Whether a failure is a known finding: its law, its call and its result match.

A law goes on after such a failure, so that a further fault is found behind the one that is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cases.samples import Sample
from ..errors import Error
from ..language.expressions import Expression
from ..language.scopes import Scope, Values
from ..mechanisms.definition import sizes_of
from ..mechanisms.mechanism import Law, Mechanism
from ..numerics import budget
from ..numerics.grades import Grade
from ..numerics.truths import truth
from .bench import Bench
from .judge import Outcome, judged
from .trial import Tracing


@dataclass(frozen=True, slots=True)
class Mark:
    """By what the failures of a finding are recognized on a mechanism."""

    finding: str
    laws: frozenset[str]
    """As the cells of the mechanism have them."""
    when: Expression | None = None
    """What holds of a call that fails, over its sizes, inputs and options."""
    shows: str = ""
    """What is said of such a failure, in part."""

    def met(self, mechanism: Mechanism, values: Mapping[str, Any], dtype: str) -> bool:
        """Whether a call with these values is one that the finding is about."""
        if self.when is None:
            return True
        try:
            with np.errstate(all="ignore"), budget.metered():
                found = {**values, **sizes_of(mechanism, values)}
                return truth(self.when(Values(found, dtype))).sure
        except (Error, ArithmeticError, KeyError, TypeError, ValueError):  # of such shapes it has nothing to say
            return False


def scope_of(mechanism: Mechanism) -> Scope:
    """What a condition on calls may speak of: sizes, inputs, options, and the words of options."""
    words = {word: option for option, own in mechanism.vocabulary.items() for word in own}
    return Scope(frozenset({*mechanism.sizes, *mechanism.inputs, *mechanism.options}), words)


def recognized(
    marks: Sequence[Mark],
    bench: Bench,
    name: str,
    outcome: Outcome,
    sample: Sample,
    law: Law | None = None,
    grades: Sequence[Grade] = (),
) -> str:
    """The finding that a failure belongs to; nothing if it is not known.

    `name` is what fails on a sample, and `law` the law of that name, if it is one: all calls that it makes are looked
    at then, in place of the one that the sample is.
    """
    own = [mark for mark in marks if name in mark.laws and mark.shows in outcome.says]
    if not own or all(mark.when is None for mark in own):
        return own[0].finding if own else ""
    calls = [*_calls(bench, sample, law, grades)]
    met = (mark for mark in own if any(mark.met(bench.mechanism, values, bench.dtype) for values in calls))
    return next((mark.finding for mark in met), "")


def _calls(bench: Bench, sample: Sample, law: Law | None, grades: Sequence[Grade]) -> Iterator[Mapping[str, Any]]:
    """The values of all calls that a law makes of a sample."""
    yield sample.values
    if law is not None and law.name != "definition":
        traced = Tracing(bench, sample)
        judged(traced, law, grades)
        yield from (settled.values for settled in traced.asked.values() if settled.key)
