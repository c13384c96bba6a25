"""The simplest condition that separates the calls on which a subject is wrong from those on which it is right.

A condition is a conjunction of a few literals: a size from a number on, an option that is given, two sizes that differ.
It holds on every wrong case.
Of such conditions the cheapest is taken, by a cost for each literal and for each right case on which it holds too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from .facts import Facts

MODULI = (2, 4, 8, 16, 32, 64, 128)
MOST = 3
"""Literals of a condition."""
EXCEPTION = 0.8
"""The cost of a right case on which a condition holds."""
TOGETHER = 0.5
"""The cost of a further literal beside its own."""
SHARE = 0.25
"""The share of right cases among those on which a condition holds, beyond which it separates nothing."""
KEPT = 48
"""Literals that conjunctions are made of."""
BITS = 4.0
"""What a unit of the cost of a condition comes to where cases are wrong by chance."""
NUMBER = 3.0
"""Bits that the number in a threshold takes besides, for it is chosen among several."""
GAIN = 2.0
"""Bits by which such a condition has to be better than none."""


@dataclass(frozen=True, slots=True)
class Literal:
    """One thing that holds of a call or does not."""

    kind: str
    name: str
    value: Any = None
    """A number, a word, a layout, another size; for remainders a modulus and the first and last of them."""
    cost: float = 1.0

    def holds(self, facts: Facts) -> bool:
        return _HOLDS[self.kind](self, facts)

    @property
    def key(self) -> tuple[Any, ...]:
        return self.kind, self.name, self.value


CHOICES = ("given", "absent", "set", "usual")
"""The kinds of literals about what a caller chooses to give."""
OPPOSITE = {"given": "absent", "absent": "given", "set": "usual", "usual": "set", "some": "none"}


def opposite(literal: Literal) -> Literal | None:
    """What holds where a literal does not, if there is a word for it."""
    if literal.kind in ("from", "up to"):
        kind, step = ("up to", -1) if literal.kind == "from" else ("from", 1)
        return replace(literal, kind=kind, value=literal.value + step)
    kind = OPPOSITE.get(literal.kind)
    value = not literal.value if isinstance(literal.value, bool) else literal.value
    return None if kind is None else replace(literal, kind=kind, value=value)


@dataclass(frozen=True, slots=True)
class Condition:
    """A conjunction; one of no literals always holds."""

    literals: tuple[Literal, ...] = ()

    def holds(self, facts: Facts) -> bool:
        return all(literal.holds(facts) for literal in self.literals)

    @property
    def cost(self) -> float:
        return sum(literal.cost for literal in self.literals) + TOGETHER * max(len(self.literals) - 1, 0)

    @property
    def key(self) -> frozenset[tuple[Any, ...]]:
        return frozenset(literal.key for literal in self.literals)


EVERYWHERE = Condition()


def _size(literal: Literal, facts: Facts) -> int:
    return facts.sizes.get(literal.name, -1)


def _between(literal: Literal, facts: Facts) -> bool:
    modulus, first, last = literal.value
    return literal.name in facts.sizes and first <= facts.sizes[literal.name] % modulus <= last


def _ratio(literal: Literal, facts: Facts) -> int:
    """How many times as large one size is as another; zero where that is no whole number."""
    first, second = _size(literal, facts), facts.sizes.get(literal.value, -1)
    return first // second if second > 0 and first % second == 0 else 0


def _of_two(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


_HOLDS: Mapping[str, Any] = {
    "given": lambda one, facts: facts.given.get(one.name, False),
    "set": lambda one, facts: facts.options.get(one.name) is not None,
    "equal": lambda one, facts: facts.options.get(one.name) == one.value,
    "at least": lambda one, facts: _number(facts.options.get(one.name)) and facts.options[one.name] >= one.value,
    "below": lambda one, facts: _number(facts.options.get(one.name)) and facts.options[one.name] < one.value,
    "at most": lambda one, facts: _number(facts.options.get(one.name)) and facts.options[one.name] <= one.value,
    "absent": lambda one, facts: not facts.given.get(one.name, False),
    "usual": lambda one, facts: facts.options.get(one.name) is None,
    "scattered": lambda one, facts: facts.memory.get(one.name, "contiguous") != "contiguous",
    "memory": lambda one, facts: facts.memory.get(one.name) == one.value,
    "layout": lambda one, facts: facts.layout == one.value,
    "less": lambda one, facts: _size(one, facts) < facts.sizes.get(one.value, -1),
    "same": lambda one, facts: one.name in facts.sizes and _size(one, facts) == facts.sizes.get(one.value),
    "other": lambda one, facts: one.value in facts.sizes and _size(one, facts) not in (-1, facts.sizes[one.value]),
    "power": lambda one, facts: _of_two(_ratio(one, facts)),
    "unpowered": lambda one, facts: _ratio(one, facts) > 0 and not _of_two(_ratio(one, facts)),
    "not": lambda one, facts: _size(one, facts) not in (-1, one.value),
    "from": lambda one, facts: _size(one, facts) >= one.value,
    "up to": lambda one, facts: 0 <= _size(one, facts) <= one.value,
    "remainder": _between,
    "axes": lambda one, facts: facts.axes.get(one.name) == one.value,
    "plain": lambda one, facts: one.name not in facts.axes,
    "shared": lambda one, facts: (one.name, one.value) in facts.shared,
    "apart": lambda one, facts: (one.name, one.value) in facts.apart,
    "some": lambda one, facts: (one.name, one.value) in facts.counted,
    "none": lambda one, facts: (one.name, one.value) not in facts.counted,
    "finite": lambda one, facts: facts.finite,
    "settled": lambda one, facts: not facts.matters(one.name),
    "regime": lambda one, facts: facts.regime == one.value,
}
"""Whether a literal holds, by its kind, in the order in which they are told: what is given first, sizes later."""


ORDER = tuple(_HOLDS)


def _number(x: Any) -> TypeGuard[float]:
    return isinstance(x, int | float) and not isinstance(x, bool)


def literals(wrong: Sequence[Facts]) -> Iterator[Literal]:
    """The literals that hold on all of some cases, each as narrow as they allow."""
    first = wrong[0]
    yield from (one for one in _simple(first) if all(one.holds(facts) for facts in wrong))
    for name in first.sizes:
        found = [facts.sizes[name] for facts in wrong if name in facts.sizes]
        if len(found) == len(wrong):
            yield from _sized(name, found)
    for name in first.options:
        values: list[Any] = [facts.options.get(name) for facts in wrong]
        if all(map(_number, values)) and min(values) > 0:
            yield Literal("at least", name, min(values), 1.5)
    for name, other in itertools.permutations(first.sizes, 2):
        alike = name.rpartition("_")[2] == other.rpartition("_")[2]
        pairs = [("less", 1.2)] if alike else []
        pairs += [("unpowered", 1.4), ("power", 2.4)] if (name, other) in first.multiples else []
        if name < other:
            pairs += [("same", 1.2 if alike else 3.0), ("other", 1.3 if alike else 3.0)]
        for kind, cost in pairs:
            one = Literal(kind, name, other, cost)
            if all(one.holds(facts) for facts in wrong):
                yield one


def _simple(facts: Facts) -> Iterator[Literal]:
    """The literals without a number that hold on one case."""
    for name, given in facts.given.items():
        yield Literal("given", name) if given else Literal("absent", name, cost=1.3)
    for name, x in facts.options.items():
        yield from _chosen(name, x, facts.usual.get(name))
    for number, (name, memory) in enumerate(facts.memory.items()):
        if memory != "contiguous":
            yield Literal("scattered", name, cost=1.1 + 0.01 * number)
            yield Literal("memory", name, memory, 1.6 + 0.01 * number)
    for name, axes in facts.axes.items():
        yield Literal("axes", name, axes, 1.5)
    yield from (Literal("shared", name, axis, 1.5) for name, axis in sorted(facts.shared))
    yield from (Literal("apart", name, axis, 1.5) for name, axis in sorted(facts.apart))
    for name, what in sorted(facts.counted):  # that two rows differ says more than that their sums do
        yield Literal("some", name, what, 1.25 if what.startswith("not ") else 1.6)
    if facts.layout != "contiguous":
        yield Literal("layout", "layout", facts.layout, 1.7)
    if facts.regime:
        yield Literal("regime", "regime", facts.regime, 2.5)


def _chosen(name: str, x: Any, usual: Any) -> Iterator[Literal]:
    """The literals of an option; of words this one comes first, for its tests try the others."""
    if x is None:
        yield Literal("usual", name, usual if isinstance(usual, bool) else None, 1.3)
    elif isinstance(x, str):
        yield Literal("equal", name, x)
        yield Literal("set", name)
    else:
        yield Literal("set", name, x if isinstance(x, bool) else None)
    if _number(x):
        yield Literal("equal", name, x, 2.0)
        if x < 0:
            yield Literal("below", name, 0, 1.5)
        if x <= 0:
            yield Literal("at most", name, 0, 1.6)


def _sized(name: str, found: Sequence[int]) -> Iterator[Literal]:
    low, high = min(found), max(found)
    if low > 1:
        yield Literal("from", name, low, 1.6)
    yield Literal("up to", name, high, 1.1 if high == 1 else 1.8)
    yield from (Literal("not", name, n, 2.2) for n in MODULI if low < n < high and n not in found)
    for number, modulus in enumerate(MODULI):
        remainders = {n % modulus for n in found}
        least, most = min(remainders), max(remainders)
        if remainders == {0}:
            yield Literal("remainder", name, (modulus, 0, 0), 2.0 + 0.1 * number)
        elif 0 not in remainders and high > modulus:  # of smaller numbers a remainder says no more than a threshold
            yield Literal("remainder", name, (modulus, 1, modulus - 1), 2.0 + 0.1 * number)
            edge = (least == 1 or most == modulus - 1) and 4 * (most - least + 1) <= modulus
            if modulus > 2 and (edge or least == most):
                yield Literal("remainder", name, (modulus, least, most), 2.4 + 0.1 * number)


def _interval(chosen: Sequence[Literal]) -> bool:
    """Whether a size has both a least and a greatest value, which is rather where the cases happen to lie."""
    bounded = [literal.name for literal in chosen if literal.kind in ("from", "up to")]
    return len(bounded) > len(set(bounded))


@dataclass(frozen=True, slots=True)
class Fit:
    """A condition, and how many right cases it holds on."""

    condition: Condition
    exceptions: int
    score: float
    partly: bool = False
    """Whether it depends on the entries of arrays too on which of such cases the subject is wrong."""


def fitting(
    wrong: Sequence[Facts],
    right: Sequence[Facts],
    *,
    most: int = MOST,
    exact: bool = False,
    without: Collection[tuple[Any, ...]] = (),
) -> Fit | None:
    """The cheapest condition that holds on every wrong case and, but for few, on no right one.

    An `exact` one holds on no right case, and is None where none separates.
    Else one is taken outside of which all cases are right, though by their entries some inside are right as well, if it
    says more than its words cost.
    Literals whose keys are in `without` are left out.
    """
    if not wrong:
        return None
    known = [one for one in literals(wrong) if one.key not in without]
    allowed = 0 if exact else int(SHARE * len(wrong) / (1 - SHARE))
    best = _best(*_held(known, right), allowed, most)
    if exact or (best is not None and len(best.condition.literals) < MOST):
        return best
    same = {
        facts.same for facts in wrong
    }  # of such calls, right or wrong, nothing that is known tells one from another
    apart = [facts for facts in right if facts.same not in same]
    held, every = _held([one for one in known if _plain(one)], apart)
    if best is None and (found := _best(held, every, allowed, most)) is not None:
        return replace(found, partly=True)
    numbers = [one for one in known if _plain(one) or one.kind == "from" or _counts(one)]
    likely = _likely(*_held(numbers, apart), len(wrong), most)
    if best is None or likely is None:
        return best or likely
    whole = BITS * best.condition.cost + _bits(len(wrong), best.exceptions)
    return likely if likely.score < whole else best  # so many words are rather what a few cases happen to share


def others_fitting(
    condition: Condition, wrong: Sequence[Facts], right: Sequence[Facts], without: Collection[tuple[Any, ...]] = ()
) -> Iterator[Condition]:
    """The conditions with one literal exchanged that hold on every wrong case and on no right one either."""
    known = [one for one in literals(wrong) if one.key not in without]
    for left_out in condition.literals:
        kept = Condition(tuple(one for one in condition.literals if one is not left_out))
        near = [facts for facts in right if kept.holds(facts)]
        for one in known:
            if one not in condition.literals and not any(one.holds(facts) for facts in near):
                yield Condition((*kept.literals, one))


def _held(known: Sequence[Literal], right: Sequence[Facts]) -> tuple[dict[int, Literal], int]:
    """The literals by the right cases on which they hold, the cheapest of those alike, as bits; and all such bits."""
    every = (1 << len(right)) - 1
    held: dict[int, Literal] = {}
    for literal in known:
        bits = sum(1 << index for index, facts in enumerate(right) if literal.holds(facts))
        if bits != every and (bits not in held or literal.cost < held[bits].cost):
            held[bits] = literal
    order = sorted(held, key=lambda bits: bits.bit_count() * EXCEPTION + held[bits].cost)[:KEPT]
    return {bits: held[bits] for bits in order}, every


def _plain(literal: Literal) -> bool:
    """Whether a literal may be a cause; a size up to a number is rather where cases lie on which entries tell."""
    plain = (literal.kind == "up to" and literal.value == 1) or (literal.kind == "from" and literal.value == 2)
    return plain or literal.kind not in ("up to", "from", "not", "remainder", "at least", "below", "at most", "regime")


def _counts(literal: Literal) -> bool:
    """Whether an option has to be as large as a whole number; a fraction is rather where cases lie."""
    return literal.kind == "at least" and isinstance(literal.value, int)


def _best(held: Mapping[int, Literal], every: int, allowed: int, most: int) -> Fit | None:
    """The cheapest conjunction that holds on no more right cases than are `allowed`."""
    best: Fit | None = None
    for count in range(most + 1):
        if best is not None and best.score <= count + TOGETHER * max(count - 1, 0):  # no literal costs less than one
            break
        for condition, exceptions in _conjunctions(held, every, count):
            if exceptions <= allowed:
                score = condition.cost + EXCEPTION * exceptions
                if best is None or score < best.score:
                    best = Fit(ordered(condition), exceptions, score)
    return best


def _likely(held: Mapping[int, Literal], every: int, wrong: int, most: int) -> Fit | None:
    """The conjunction by which it takes least to say which cases are wrong."""
    best: Fit | None = None
    least = _bits(wrong, every.bit_count()) - GAIN
    for count in range(1, most + 1):
        for condition, exceptions in _conjunctions(held, every, count):
            numbers = sum(not _plain(literal) for literal in condition.literals)
            score = BITS * condition.cost + NUMBER * numbers + _bits(wrong, exceptions)
            if score < least:
                best, least = Fit(ordered(condition), exceptions, score, partly=True), score
    return best


def _conjunctions(held: Mapping[int, Literal], every: int, count: int) -> Iterator[tuple[Condition, int]]:
    """The conjunctions of so many literals, and on how many right cases each holds."""
    for chosen in itertools.combinations(held, count):
        bits = every
        for part in chosen:
            bits &= part
        literals = tuple(held[part] for part in chosen)
        if not _interval(literals):
            yield Condition(literals), bits.bit_count()


def ordered(condition: Condition) -> Condition:
    """A condition with its literals in the order in which they are told."""
    return Condition(tuple(sorted(condition.literals, key=lambda one: ORDER.index(one.kind))))


def _bits(wrong: int, right: int) -> float:
    """What it takes to say which of some cases are wrong."""
    return math.log2(math.comb(wrong + right, wrong))
