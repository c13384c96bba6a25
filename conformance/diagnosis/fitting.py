"""What fits on all of some calls that a subject has answered, the simplest first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace as replaced

from ..judging.bench import Bench
from ..numerics.grades import Grade
from .candidates import Candidate, resized
from .clock import now
from .conditions import EVERYWHERE, Condition
from .likeness import Likeness, Nearest
from .observations import Observation, Stance
from .places import later, places
from .search import Search
from .synthesis import changed_along, close_by, edited, plausible, resembling, smallest
from .variants import varied

SURE = 4
"""Cases on which an edit of the definition agrees at least: there are many of them."""
FOREIGN = 2
"""Cases on which a mistake of another definition agrees at least: one may agree by chance."""
SECONDS = 2.0
"""CPU time for all that is tried."""
EDITED = 0.6
"""The share of it in which edits are tried, however late it is: most of them are told from a subject in no time."""
TILES = 0.2
"""The share of it in which functions with other tiles are tried."""
PAIR_SECONDS = 1.5
"""CPU time in which pairs of mistakes are tried, where nothing else fits."""
RESIZED = 3_000
"""Calls of faulty functions with other tiles in one diagnosis."""
LATER_SECONDS = 0.4
"""CPU time for candidates that are made at some positions of an axis, for those from a position on, and for edits that
are made under a condition."""
ALIKE = 8
"""Further edits that give the same on every case, beyond which none of them is told."""


def named(
    bench: Bench,
    candidates: Sequence[Candidate],
    functions: Iterable[Candidate],
    observations: list[Observation],
    grades: Sequence[Grade],
    seed: int,
    without: Collection[str],
    until: float,
    seconds: float,
    failing: Sequence[Observation] = (),
    within: Condition = EVERYWHERE,
) -> Likeness | Nearest | None:
    """What fits on all of some observations, the simplest first; at a looser grade it is to show on the `failing`.

    What is known is tried first as far as it comes near on the smallest cases, and the rest behind edits, which have a
    share of the time however late it is.
    Pairs are tried for so many `seconds` at most.
    """
    likely = close_by(candidates, [o for o in observations if not o.right]) if now() < until else candidates
    search = Search(bench, likely, functions, observations, grades[0], seed, within, until=until, known=candidates)
    found = search.likeness()
    for grade in grades[1:] if found is None else ():  # what has a mistake may be less precise than it claims as well
        own = [o.at(grade) for o in observations]
        coarse = Search(bench, likely, [], own, grade, seed, within, until=until, known=candidates)
        roughly = _showing(coarse.likeness(), [o.at(grade) for o in failing])
        if roughly is not None:  # what agrees as precisely as the subject is claimed to be explains more
            return as_edited(bench, observations, search, plainly=True) or roughly
    found = found or _by_an_untold_word(bench, candidates, observations, search)
    found = found or _from_elsewhere(bench, observations, search, without)
    ahead = search if within.literals else search.prolonged(EDITED * seconds)
    found = found or as_edited(bench, observations, ahead)
    if found is not None:
        return found
    search = Search(bench, candidates, [], observations, grades[0], seed, within, until=until)
    return (
        search.likeness()
        or _in_each_output(bench, candidates, observations, search)
        or _with_other_tiles(bench, observations, search, without)
        or _somewhere(bench, candidates, observations, search)
        or search.prolonged(min(PAIR_SECONDS, seconds)).likeness(pairs=True)
        or search.nearest()
    )


def _by_an_untold_word(
    bench: Bench, candidates: Sequence[Candidate], observations: list[Observation], search: Search
) -> Likeness | None:
    """A mistake that fits by another word of a convention that a line which it reads asks for, and no call tells.

    Which key the first query sees is such a word for what is causal without being asked.
    """
    wrong, lines = search.asking.wrong, bench.mechanism.definition
    few = smallest(wrong)
    words = [c for c in candidates if c.words and not any(o.matters(name) for o in few for name in c.words)]

    def asked_for(candidate: Candidate) -> set[str]:
        read = {name for x in candidate.changes.values() for name in x.uses}
        return read.union(*(lines[name].uses for name in read & lines.keys()))

    pairs = [c.joined(w) for w in words for c in candidates if c.joins(w) and w.words.keys() & asked_for(c)]
    own = search.prolonged(LATER_SECONDS)
    return _one_of(bench, resembling(pairs, wrong, until=own.until), observations, own, plainly=True)


def _from_elsewhere(
    bench: Bench, observations: list[Observation], search: Search, without: Collection[str]
) -> Likeness | None:
    """What is a mistake where the same line stands in another definition, or one with another size."""
    near = resembling(
        (c for c in varied(bench.mechanism) if c.name not in without), search.asking.wrong, until=search.until
    )
    if not near:
        return None
    found = Search(
        bench, near, [], observations, search.asking.grade, search.asking.seed, search.within, until=search.until
    ).likeness()
    return found if found is not None and found.agreed >= FOREIGN else None


def _with_other_tiles(
    bench: Bench, observations: list[Observation], search: Search, without: Collection[str]
) -> Likeness | None:
    """The faulty function that fits with tiles of another size than it is known with."""
    if search.within.literals:
        return None
    functions = (c for c in resized(bench) if c.name.partition(" with ")[0] not in without)
    until = min(search.until, now() + TILES * SECONDS)
    return Search(
        bench, [], functions, observations, search.asking.grade, search.asking.seed, until=until, calls=RESIZED
    ).likeness()


def _showing(likeness: Likeness | None, failing: Sequence[Observation]) -> Likeness | None:
    """What is alike, if it shows on the failing calls; else it is another fault than the one to be explained."""
    candidate = None if likeness is None else likeness.candidate
    shows = candidate is None or not failing or any(o.stance(candidate) is not Stance.SILENT for o in failing)
    return likeness if shows else None


def as_edited(bench: Bench, observations: list[Observation], search: Search, plainly: bool = False) -> Likeness | None:
    """The small edit of the definition that agrees on every case, if there is one and few others are like it.

    Those that are made everywhere come first, for to look for a condition takes as long as to try all edits; `plainly`,
    there are no others.
    """
    wrong, tried = [o for o in observations if not o.right], list[list[Candidate]]()
    for near in plausible(bench, wrong, search.until):
        found = _one_of(bench, near, observations, search, plainly=True)
        if found is not None:
            return found
        tried.append(near)
    if plainly:
        return None
    later = search.prolonged(LATER_SECONDS)
    return next(filter(None, (_one_of(bench, near, observations, later) for near in tried)), None)


def _in_each_output(
    bench: Bench, candidates: Sequence[Candidate], observations: list[Observation], search: Search
) -> Likeness | None:
    """Mistakes or edits each of which is made in one of several wrong outputs alone, if there is one for each."""
    wrong = [name for name in bench.mechanism.outputs if any(name in o.wrong for o in search.asking.wrong)]
    if now() > search.until or search.within.literals or bench.mechanism.by_reference or len(wrong) < 2:
        return None
    found: dict[str, Likeness] = {}
    for name in wrong:
        own = [Observation(o.trial, o.settled, o.grade, (name,)) for o in observations if name in o.names]
        known = (c for c in (*candidates, *edited(bench)) if not c.words)
        near = resembling(known, [o for o in own if not o.right], until=search.until)
        likeness = _one_of(bench, near, own, search, plainly=True)
        if likeness is None:
            return None
        found[name] = likeness
    each = {name: likeness.candidate for name, likeness in found.items() if likeness.candidate is not None}
    made = [(name, cause) for name, likeness in found.items() for cause in likeness.causes]
    causes = tuple(replaced(cause, name=f"{cause.name} in {name}") for name, cause in made)
    lines = [replaced(one, line=f"{one.line} in {name}") for name, x in found.items() for one in x.changed]
    changed = tuple(lines) if all(likeness.changed for likeness in found.values()) else ()
    both = Candidate(" and ".join(cause.name for cause in causes), causes[0].says, each=each, changed=changed)
    agreed = sum(o.stance(both) is Stance.AGREES for o in observations)
    fits = all(o.stance(both) is not Stance.DIFFERS for o in observations)
    return Likeness(causes, agreed, changed=changed, candidate=both) if fits and agreed >= SURE else None


def _somewhere(
    bench: Bench, candidates: Sequence[Candidate], observations: list[Observation], search: Search
) -> Likeness | None:
    """A mistake or an edit that is made at some positions of an axis alone, by where entries are wrong.

    If entries say nothing, those sizes may on which the subject is right: from one of them on a line may be changed.
    Where the time is spent, neither is tried.
    """
    if now() > search.until or search.within.literals or bench.mechanism.by_reference or not search.asking.wrong:
        return None
    own = [o for o in search.asking.wrong if o.mechanism is bench.mechanism]
    found = places(o.strays() for o in own)
    known = [c for c in candidates if not c.words]
    limit = min(search.until, now() + LATER_SECONDS)
    near = resembling([*known, *edited(bench)], search.asking.wrong, found, until=limit) if found else []
    likeness = _one_of(bench, [c for c in near if c.place is not None], observations, search, plainly=True)
    if likeness is not None:
        return likeness
    behind = later(
        bench.mechanism.sizes, [o.facts for o in search.asking.wrong], [o.facts for o in search.asking.right]
    )
    limit = min(search.until, now() + LATER_SECONDS)
    near = changed_along(bench, [*known, *edited(bench)], search.asking.wrong, behind, limit)
    return _one_of(bench, near, observations, search, plainly=True)


def _one_of(
    bench: Bench, near: Sequence[Candidate], observations: list[Observation], search: Search, plainly: bool = False
) -> Likeness | None:
    """The one of several candidates that agrees on every case, if few others are like it."""
    if not near:
        return None
    own = Search(
        bench, near, [], observations, search.asking.grade, search.asking.seed, search.within, until=search.until
    )
    found = own.likeness(plainly=plainly, alone=True)
    return None if found is None or found.agreed < SURE or len(found.others) > ALIKE else found
