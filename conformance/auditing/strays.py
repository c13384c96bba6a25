"""Whether a known mistake is right on cases outside its scope.

What a mistake is about, its changed lines say. An option, or an input that may be left out, is looked at in two ways.
Where a change asks whether it is there, and the line that it replaces does not ask, the mistake is about it being there
or about it being absent: it is right in one of the two.
Where a change leaves out one that the line uses, it is either about that one alone, and right without it, or about
something else: then a case that is right without it is right with it as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..cases.samples import Sample
from ..errors import SpecError
from ..language.syntax import parse
from ..mechanisms.definition import Frame, reached
from ..mechanisms.mechanism import Mechanism, Mistake

STRAY_ENTRIES = 4_000
"""Entries of a case beyond which mistakes are not looked at on it."""
NEAR = 1e-9
"""The share of the largest entry by which outputs differ that are told apart."""


def strays(mechanism: Mechanism, samples: Sequence[Sample]) -> Iterator[str]:
    """Of every mistake that is wrong on a case that it should not affect, a sentence."""
    right = _Right(mechanism)
    for mistake in mechanism.mistakes.values():
        asked, dropped = asked_for(mechanism, mistake), left_out(mechanism, mistake)
        cases = _Cases(right, mistake, samples)
        if asked and (label := cases.wrong_either_way(asked)):
            yield (
                f"the mistake {mistake.name} asks for {_listed(asked)}, and is wrong with and without, as on {label}: "
                "let the other branch be what the line is otherwise"
            )
        if dropped and (label := cases.wrong_by_leaving_out(dropped)):
            yield (
                f"the mistake {mistake.name} also leaves out {_listed(dropped)}, and is wrong on {label}, "
                "which does not touch what it is about: let the changed line use it as the definition does"
            )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names)


# What the changed lines say


def asked_for(mechanism: Mechanism, mistake: Mistake) -> tuple[str, ...]:
    """The names that a change asks about, and that the lines which it replaces do not use."""
    asked = {name for line in mistake.change.values() for name in _conditions(line.text)}
    return tuple(n for n in _absent(mechanism) if n in asked and n not in _used(mechanism, mistake))


def left_out(mechanism: Mechanism, mistake: Mistake) -> tuple[str, ...]:
    """The names that the replaced lines use, and the change does not, nor any line as it was."""
    change = mistake.change
    if any(name in line.uses for name, line in change.items()):
        return ()
    kept = {name for line in change.values() for name in line.uses}
    return tuple(n for n in _absent(mechanism) if n in _used(mechanism, mistake) and n not in kept and n not in change)


def _absent(mechanism: Mechanism) -> list[str]:
    """The options that are off or none by default, and the inputs that may be left out, by their default."""
    options = [n for n in mechanism.options if n in mechanism.defaults and mechanism.defaults[n] in (None, False, True)]
    return [
        *(n for n in options if type(mechanism.defaults[n]) in (bool, type(None))),
        *(n for n in mechanism.optional if n in mechanism.defaults),
    ]


def _used(mechanism: Mechanism, mistake: Mistake) -> set[str]:
    """What the replaced lines use; an option that is replaced itself is used by that."""
    lines = [mechanism.definition[name] for name in mistake.change if name in mechanism.definition]
    return {name for line in lines for name in line.uses} | set(mistake.change)


def _conditions(text: str) -> Iterator[str]:
    """The names that an expression asks about: compared with `none`, asked whether they are single, or booleans."""
    for node in ast.walk(parse(text)):
        match node:
            case ast.Compare(left=ast.Name(one), comparators=[ast.Name(other)]) if "none" in (one, other):
                yield other if one == "none" else one
            case ast.Call(func=ast.Name("single"), args=[ast.Name(one)]):
                yield one
            case ast.IfExp(test=ast.Name(one)) | ast.UnaryOp(op=ast.Not(), operand=ast.Name(one)):
                yield one
            case ast.BoolOp(values=values):
                yield from (value.id for value in values if isinstance(value, ast.Name))


# Where a mistake is wrong


class _Right:
    """The definition on cases, and on the same ones without some of what is given: once for all mistakes."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        self._frames: dict[tuple[str, tuple[str, ...]], Frame | None] = {}

    def on(self, sample: Sample, names: Sequence[str]) -> Frame | None:
        """The definition on a sample without the names; None where it refuses the call."""
        given = tuple(name for name in names if self.given(sample, name))
        key = (sample.key, given)
        if key not in self._frames:
            self._frames[key] = self._frame(sample, given)
        return self._frames[key]

    def given(self, sample: Sample, name: str) -> bool:
        x = sample.values[name]
        return isinstance(x, np.ndarray) or x != self.mechanism.defaults[name]

    def _frame(self, sample: Sample, names: Sequence[str]) -> Frame | None:
        try:
            frame = Frame(self.mechanism, {**sample.values, **{n: self.mechanism.defaults[n] for n in names}})
            frame.check_domain()
            frame.outputs()
        except (SpecError, ValueError, TypeError, IndexError, ArithmeticError):
            return None
        return frame


class _Cases:
    """The definition and a mistake on cases, and on the same ones without some of what is given."""

    def __init__(self, right: _Right, mistake: Mistake, samples: Sequence[Sample]) -> None:
        self.right, self.mistake = right, mistake
        self.reached = reached(right.mechanism, mistake.change)
        self.samples = [sample for sample in samples if sample.entries <= STRAY_ENTRIES]

    def wrong_either_way(self, names: Sequence[str]) -> str:
        """A case on which a mistake is wrong without any of the names, if there is one whichever of them are given."""
        verdicts: dict[tuple[bool, ...], str] = {}
        for sample in self.samples:
            for left_out in ((), names):
                pattern = tuple(name not in left_out and self.right.given(sample, name) for name in names)
                if not verdicts.get(pattern):
                    wrong = self.wrong(sample, left_out)
                    if wrong is not None:
                        verdicts[pattern] = sample.case.label if wrong else verdicts.get(pattern, "")
        absent = (False,) * len(names)
        return verdicts.get(absent, "") if len(verdicts) > 1 and all(verdicts.values()) else ""

    def wrong_by_leaving_out(self, names: Sequence[str]) -> str:
        """A case on which a mistake is wrong by leaving out the names, though elsewhere it is wrong without them."""
        found, elsewhere = "", False
        for sample in self.samples:
            if any(self.right.given(sample, name) for name in names):
                bare = self.wrong(sample, names)
                elsewhere = elsewhere or bool(bare)
                if not found and bare is False and self.wrong(sample):
                    found = sample.case.label
            else:
                elsewhere = elsewhere or bool(self.wrong(sample))
            if found and elsewhere:
                return found
        return ""

    def wrong(self, sample: Sample, names: Sequence[str] = ()) -> bool | None:
        """Whether a mistake gives something else than the definition on a sample without the names.

        None where the definition refuses the call.
        """
        right = self.right.on(sample, names)
        if right is None:
            return None
        change = self.mistake.change
        try:
            given = Frame(
                right.mechanism, right.values, changes=change, unchanged=right, reached=self.reached
            ).outputs()
        except (SpecError, ValueError, TypeError, IndexError, ArithmeticError):
            return True
        return not all(_near(given[name], x) for name, x in right.outputs().items())


def _near(x: Any, exact: Any) -> bool:
    x, exact = np.asarray(x, float), np.asarray(exact, float)
    if x.shape != exact.shape:
        return False
    with np.errstate(all="ignore"):
        scale = np.max(np.abs(np.where(np.isfinite(exact), exact, 0.0)), initial=0.0)
        return bool(np.all((x == exact) | (np.abs(x - exact) <= NEAR * scale) | np.isnan(exact)))
