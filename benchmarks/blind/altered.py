"""Definitions with an edit that is drawn at random, made everywhere or under a condition."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import numpy as np

from attnspec.diagnosis.candidates import Candidate
from attnspec.diagnosis.conditional import conditioned
from attnspec.diagnosis.conditions import Condition, Literal
from attnspec.diagnosis.facts import Facts
from attnspec.diagnosis.synthesis import edited
from attnspec.errors import SpecError
from attnspec.execution.calling import Call
from attnspec.judging.bench import Bench
from attnspec.language.expressions import Expression
from attnspec.mechanisms.definition import Frame, sizes_of
from attnspec.mechanisms.mechanism import Mechanism
from attnspec.subjects.stand_ins import DefinitionSubject


class Altered(DefinitionSubject):
    """The definition with an edit, where its condition holds; it refuses what the definition refuses, and no more."""

    def __init__(self, mechanism: Mechanism, candidate: Candidate) -> None:
        super().__init__(mechanism, candidate.name, candidate.changes)
        self.where, self._moves_domain = candidate.where, False

    def frame(self, call: Call, changes: Any, unchanged: Frame | None = None) -> Frame:
        plain = super().frame(call, {}, unchanged)
        made = self.where is None or self.where.holds(facts_of(self.mechanism, call))
        return super().frame(call, changes, plain) if made else plain


def facts_of(m: Mechanism, call: Call) -> Facts:
    """What is known of a call."""
    values = {**m.defaults, **call.options, **call.inputs}
    options = {name: values.get(name) for name in m.options if not isinstance(values.get(name), np.ndarray)}
    unusual = {name: None if name in m.defaults and x == m.defaults[name] else x for name, x in options.items()}
    given = {name: isinstance(values.get(name), np.ndarray) for name in m.optional}
    sizes = {axis: 1 for axes in m.shapes.values() for axis in axes if axis is not None} | sizes_of(m, values)
    return Facts(sizes, unusual, m.defaults, given, {}, "contiguous", "")


def altered(bench: Bench, count: int, seed: int, *, conditional: bool) -> Iterator[tuple[str, Candidate]]:
    """Edits of a definition, each with a key; each under a condition, or all everywhere; others for each seed.

    They are the same ones on every machine, and most of them stay where there are more kinds of edits.
    """
    m = bench.mechanism
    drawn = f"{seed} " if seed else ""
    names = {sha256(f"{drawn}{m.name} {conditional} {edit.name}".encode()).hexdigest(): edit for edit in edited(bench)}
    keyed = (one for one in sorted(names.items(), key=lambda one: one[0]) if compiles(one[1]))
    possible = list(literals(m))
    for key, edit in itertools.islice(keyed, count if possible or not conditional else 0):
        condition = Condition((random.Random(key).choice(possible),)) if conditional else None
        yield key[:8], edit if condition is None else conditioned(edit, condition)


def compiles(edit: Candidate) -> bool:
    """Whether what an edit changes a definition to is a definition."""
    try:
        return all(Expression(change.text, change.scope) for change in edit.changes.values())
    except SpecError:
        return False


def literals(m: Mechanism) -> Iterator[Literal]:
    """What may be the condition."""
    yield from (Literal("set", name) for name in m.options if name in m.defaults)
    for name in m.optional:
        yield Literal("given", name)
        yield Literal("absent", name)
    for name in dict.fromkeys(axis for axes in m.shapes.values() for axis in axes if axis is not None):
        yield Literal("from", name, 3)
        yield Literal("up to", name, 1)
        yield Literal("remainder", name, (2, 1, 1))
