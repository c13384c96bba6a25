"""Which vectors refute which known mistakes, by how much, and the fewest vectors that suffice."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..diagnosis.candidates import Candidate, stock
from ..execution.calling import Reply
from ..judging.bench import Bench
from ..language.expressions import Expression
from ..subjects.stand_ins import DefinitionSubject, Unchanged
from .relation import RESULT, Relation, replies
from .vector import REFUTED, Vector

CLEAR = 2.0
"""The error in units of the bound from which on rounding does not hide a mistake."""
ROOM = 1 << 16
"""Bytes of a vector that weigh as much as the vector itself, where few are chosen."""
LARGE = 1 << 17
"""Bytes of a vector from which on a small set states no more of its outputs than show something."""

Shown = Mapping[str, float]
"""For outputs by name the error in units of the bound, where it is above 1."""


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """A vector, with the mistakes and the other words of conventions that it refutes."""

    vector: Vector | Relation
    shows: Mapping[str, Shown] = field(default_factory=dict)

    def clear(self, candidate: str, output: str) -> bool:
        """Whether a candidate is wrong in an output beyond doubt."""
        return self.shows.get(candidate, {}).get(output, 0.0) >= CLEAR


def candidates(bench: Bench) -> list[Candidate]:
    """Other words of the conventions, and the known mistakes of a mechanism, of its operator and of its kin."""
    return [*stock(bench)]


def owned(bench: Bench, known: Sequence[Candidate]) -> frozenset[str]:
    """The candidates that a small set is to refute: the mechanism's own mistakes, and other words."""
    m = bench.mechanism
    own = {_lines(mistake.change) for mistake in m.mistakes.values()}
    named = {m.address(name) for name in m.mistakes}
    return frozenset(c.name for c in known if c.words or c.name in named or _lines(c.changes) in own)


def _lines(change: Mapping[str, Expression]) -> frozenset[tuple[str, str]]:
    return frozenset((line, expression.text) for line, expression in change.items())


class Telling:
    """Candidates as functions from calls to replies, made once for all vectors and relations of a bench."""

    def __init__(self, bench: Bench, known: Sequence[Candidate]) -> None:
        unchanged = Unchanged()
        self._wrong = [(candidate, _wrong(bench, candidate, unchanged)) for candidate in known]

    def told(self, vector: Vector | Relation, names: Collection[str] | None = None) -> Told:
        """What a vector refutes of the candidates, or of those of some names."""
        shows, known = dict[str, Shown](), dict[int, tuple[Reply, Shown]]()
        for candidate, wrong in self._wrong:
            if names is not None and candidate.name not in names:
                continue
            if candidate.words.keys() - vector.conventions.keys():
                continue  # a word that is not asked for changes nothing
            shown = _shown(vector, wrong, known) if isinstance(vector, Vector) else _broken(vector, wrong)
            if shown:
                shows[candidate.name] = shown
        return Told(vector, shows)


def _wrong(bench: Bench, candidate: Candidate, unchanged: Unchanged) -> DefinitionSubject:
    """A candidate; the definition on the calls of a vector is shared by `unchanged`."""
    words = {**bench.words, **candidate.words}
    return DefinitionSubject(
        bench.mechanism,
        candidate.name,
        candidate.changes,
        conventions=words,
        dtypes=(bench.dtype,),
        unchanged=unchanged,
    )


def _shown(vector: Vector, wrong: DefinitionSubject, known: dict[int, tuple[Reply, Shown]]) -> Shown:
    """The outputs of a candidate that are beyond their bounds; of one reply, as most give, it is found once."""
    with np.errstate(all="ignore"):
        reply = wrong.call(vector.call)
    if reply.fault is not None:
        return dict.fromkeys(vector.outputs, np.inf)
    if id(reply) not in known:
        found = {name: output.excess(reply.outputs[name]) for name, output in vector.outputs.items()}
        known[id(reply)] = (reply, {name: excess for name, excess in found.items() if excess > REFUTED})
    return known[id(reply)][1]


def _broken(relation: Relation, wrong: DefinitionSubject) -> Shown:
    with np.errstate(all="ignore"):
        outputs = replies(relation, wrong.call)
    excess = np.inf if outputs is None else relation.excess(outputs)
    return {RESULT: excess} if excess > REFUTED else {}


def fewest(vectors: Sequence[Told], names: Collection[str]) -> list[Told]:
    """The fewest vectors that together refute each of these candidates which any of them refutes, in their own order.

    A candidate is to be refuted beyond doubt where that is possible, and in the first output where that shows it.
    Greedily: the next vector is that which refutes most further ones, of two alike the smaller; in the end those go
    that the others have made superfluous.
    """
    needed = [*_needed(vectors, names).values()]
    wanting, chosen = list(needed), list[int]()
    while wanting:
        worth = [
            sum(index in telling for telling in wanting) / (1 + told.vector.nbytes / ROOM)
            for index, told in enumerate(vectors)
        ]
        best = int(np.argmax(worth))
        chosen.append(best)
        wanting = [telling for telling in wanting if best not in telling]
    for index in tuple(chosen):
        others = set(chosen) - {index}
        if all(telling & others for telling in needed):
            chosen.remove(index)
    return [vectors[index] for index in sorted(chosen)]


def _needed(vectors: Sequence[Told], names: Collection[str]) -> dict[str, set[int]]:
    """For each candidate that some vector refutes, those of which one is to be chosen."""
    found: dict[str, set[int]] = {}
    for name in dict.fromkeys(name for told in vectors for name in told.shows if name in names):
        outputs = list(dict.fromkeys(output for told in vectors for output in told.vector.outputs))
        sure = ({i for i, told in enumerate(vectors) if told.clear(name, output)} for output in outputs)
        anyhow = {i for i, told in enumerate(vectors) if name in told.shows}
        found[name] = next(filter(None, sure), anyhow)
    return found


def slim(kept: Sequence[Told], names: Collection[str]) -> list[Told]:
    """The same vectors; of large ones only the main output, and those in which alone a candidate shows."""
    return [_slim(told, [other for other in kept if other is not told], names) for told in kept]


def _slim(told: Told, others: Sequence[Told], names: Collection[str]) -> Told:
    vector = told.vector
    if not isinstance(vector, Vector) or vector.nbytes <= LARGE:
        return told
    main, *further = vector.outputs
    alone = {name for name in told.shows if name in names and not any(name in other.shows for other in others)}
    needed = {main, *(one for one in further for name in alone if told.clear(name, one) and not told.clear(name, main))}
    outputs = {name: output for name, output in vector.outputs.items() if name in needed}
    shows = {name: {o: x for o, x in shown.items() if o in needed} for name, shown in told.shows.items()}
    return Told(replace(vector, outputs=outputs), {name: shown for name, shown in shows.items() if shown})
