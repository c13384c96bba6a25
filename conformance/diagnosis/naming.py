"""The name of a failure: the known mistake, or two of them, that a subject behaves like.

Candidates are run on calls that the subject has answered: those on which it failed, the scenarios of the mechanism and
its kin, and fresh ones, drawn to tell those candidates apart which are still alike.
A name is given only to what agrees with the subject on every one of them, for a wrong name is worse than none; where
nothing does, what comes nearest is told as that.
The other words of conventions come first: what they explain may well be intended.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace as replaced

from ..cases.plans import plan
from ..cases.profiles import PROFILES
from ..cases.samples import Sample
from ..judging.bench import Bench
from ..judging.cells import Failure
from ..mechanisms.library import uncollected
from ..numerics.grades import Grade, looser
from . import fitting
from .answered import observed, raising
from .candidates import Candidate, anywhere, faulty, stock
from .clock import now
from .conditions import Condition, Literal
from .facts import facts_of, stated
from .fitting import FOREIGN, SURE, as_edited, named
from .likeness import Likeness, Nearest
from .observations import Observation, Stance
from .phrases import where
from .rivals import called, closer, outlasting
from .rounding import directed, narrowed
from .search import Search, cause
from .signatures import Signature
from .synthesis import shown_as
from .variants import from_elsewhere, is_foreign

CONFINED = 4
"""Cases on which something agrees at least of which elsewhere nothing is said."""
FITS = 2
"""How often something is sought that fits on calls without random outputs and breaks the same laws on others."""
UNTRIED = 6
"""Cases with smaller sizes than all on which something agrees, on which it is tried whether it breaks the same laws."""
PARTS = 0.25
"""The share of the CPU time that is kept for parts of the calls, on which what is known is tried."""
USUAL = ("plain", "finite")
"""The literals of parts of the calls on which what is known is tried when most of the time is spent."""
TILE = 8
"""The size beyond which there may be a second tile."""
LATE = 0.3
"""CPU time for these, however late it is."""


def diagnose(
    bench: Bench,
    failure: Failure,
    seed: int,
    *,
    without: Collection[str] = (),
    observations: Sequence[Observation] | None = None,
    times: float = 1.0,
    likely: Collection[str] = (),
) -> Likeness | Nearest | None:
    """What the subject behaves like, or comes nearest to, by what was `observed`.

    Candidates named by `without` are taken for unknown.
    It takes so many `times` as long as usual at most; what takes longer still was found in time, and is confirmed.
    What is `likely`, as it was named elsewhere, is tried before all others, and told if it agrees on every case; these
    are names without a mechanism.
    """
    candidates = [candidate for candidate in stock(bench) if candidate.name not in without]
    grades = looser(bench.dtype, bench.subject.claims.grade(bench.dtype))
    seconds = times * fitting.SECONDS
    until = now() + seconds
    with uncollected():
        if bench.mechanism.undetermined and bench.mechanism.stochastic:
            known = [*(observed(bench, failure, seed) if observations is None else observations)]

            def fit(unlike: Collection[str]) -> Likeness | Nearest | None:
                own = [candidate for candidate in candidates if candidate.name not in unlike]
                return _of_calls(bench, failure, seed, own, grades, unlike, known, (), until, seconds)

            lawful = _fit_by_laws(bench, failure, fit, without, known, seed)
            return lawful or _by_laws(bench, failure, candidates, known, seed)
        known, of_precision = observations or (), failure.law == "contract.precision"
        rounding = directed(known) or (narrowed(known, bench.dtype) if of_precision else None)
        if rounding is not None:
            return rounding
        found = _of_calls(bench, failure, seed, candidates, grades, without, observations, likely, until, seconds)
        if of_precision or isinstance(found, Likeness):
            return found
        return narrowed(known, bench.dtype) or found


def _of_calls(
    bench: Bench,
    failure: Failure,
    seed: int,
    candidates: Sequence[Candidate],
    grades: Sequence[Grade],
    without: Collection[str],
    observations: Sequence[Observation] | None,
    likely: Collection[str],
    until: float,
    seconds: float,
) -> Likeness | Nearest | None:
    """What fits on what was observed."""
    observations = [*(observed(bench, failure, seed) if observations is None else observations)]
    again = _as_elsewhere(bench, candidates, observations, grades[0], seed, likely, until) if likely else None
    errors = [*raising(bench, failure, grades[0])]
    candidates = [c for c in candidates if _breaks(c, errors)]
    found = again or _among_all(bench, failure, candidates, observations, grades, seed, without, until, seconds)
    if not isinstance(found, Likeness):
        return found
    if again is None:  # else it was told from its rivals there
        found = outlasting(bench, closer(bench, found, observations, grades[0], seed), observations, grades[0], seed)
    if found is None or _is_one_of_many(bench, found):
        return None
    return found if found.candidate is None or _breaks(found.candidate, errors) else None


def _is_one_of_many(bench: Bench, likeness: Likeness) -> bool:
    """Whether a mistake of another operator agrees on few cases, as edits of the definition do as well."""
    few = likeness.agreed < SURE and any(one.changed for one in likeness.alike)
    return few and is_foreign(bench.mechanism, likeness.name)


def _among_all(
    bench: Bench,
    failure: Failure,
    candidates: Sequence[Candidate],
    observations: list[Observation],
    grades: Sequence[Grade],
    seed: int,
    without: Collection[str],
    until: float,
    seconds: float,
) -> Likeness | Nearest | None:
    """What agrees on all calls, or else on a part of them."""
    failing = [o for o in observations if o.trial.sample in (failure.sample, failure.found)]
    early = until - PARTS * seconds
    functions = _functions(bench, without, _of_tiles(observations))
    found = named(bench, candidates, functions, observations, grades, seed, without, early, seconds, failing)
    parts = _parts(bench, candidates, observations, grades[0], seed, early)
    for within in () if isinstance(found, Likeness) else parts:
        late = now() > early
        if now() > until + LATE or (late and any(literal.kind not in USUAL for literal in within.literals)):
            break
        part = [o for o in observations if within.holds(o.facts)]
        possible = [
            c for c in candidates if not any(x.kind == "settled" and x.name in c.words for x in within.literals)
        ]
        if late:
            search = Search(bench, possible, [], part, grades[0], seed, within, until=until + LATE)
            again = search.likeness(plainly=True) or (as_edited(bench, part, search) if search.asking.wrong else None)
            if again is not None and again.agreed >= CONFINED:
                return _confined(again, within)
            continue
        functions = _functions(bench, without) if _settled(within) else iter(())
        again = (
            named(bench, possible, functions, part, grades, seed, without, early, seconds, (), within)
            if any(not o.right for o in part)
            else None
        )
        if isinstance(again, Likeness) and again.agreed >= CONFINED:
            return _confined(again, within)
    return found


def _as_elsewhere(
    bench: Bench,
    candidates: Sequence[Candidate],
    observations: Sequence[Observation],
    grade: Grade,
    seed: int,
    likely: Collection[str],
    until: float,
) -> Likeness | None:
    """What was named of the subject elsewhere, if it agrees on the cases of the mechanism itself.

    Those of its kin, and many fresh ones, were looked at where it was named first.
    """
    own = [o for o in observations if o.mechanism is bench.mechanism]

    def found_among(some: Sequence[Candidate], alone: bool = False) -> Likeness | None:
        if not some:
            return None
        return Search(bench, some, [], own, grade, seed, until=until, elsewhere=True).likeness(alone=alone)

    for known in ([c for c in candidates if anywhere(c.name) in likely], _pairs(candidates, likely)):
        found = found_among(known)
        if found is not None:
            return found
    found = found_among(from_elsewhere(bench.mechanism, likely))
    if found is not None and found.agreed >= FOREIGN:
        return found
    found = found_among([] if bench.mechanism.by_reference else shown_as(bench, likely), alone=True)
    return found if found is not None and found.agreed >= SURE else None


def _pairs(candidates: Sequence[Candidate], names: Collection[str]) -> list[Candidate]:
    """Those two of the candidates at once that go by one of the names."""
    named = (name.split(" and ") for name in names)
    each = [
        [[c for c in candidates if anywhere(c.name) == part] for part in parts] for parts in named if len(parts) == 2
    ]
    return [a.joined(b) for one in each for a, b in itertools.product(*one) if a.joins(b)]


def _functions(bench: Bench, without: Collection[str], tiled: bool = False) -> Iterator[Candidate]:
    """The faulty functions, each when it is asked for; those of tiles first on request."""
    return (candidate for candidate in faulty(bench, tiled) if candidate.name not in without)


def _of_tiles(observations: Sequence[Observation]) -> bool:
    """Whether a subject is right wherever all sizes are within a tile, and wrong on several cases beyond."""
    wrong = [o for o in observations if not o.right]
    return len(wrong) > 1 and all(max(o.facts.sizes.values(), default=0) > TILE for o in wrong)


def _settled(condition: Condition) -> bool:
    return any(literal.kind == "settled" for literal in condition.literals)


def _parts(
    bench: Bench,
    candidates: Sequence[Candidate],
    observations: list[Observation],
    grade: Grade,
    seed: int,
    until: float,
) -> Iterator[Condition]:
    """The parts of all calls on which something simpler may be wrong than elsewhere.

    They are arrays of the usual number of axes and with finite entries; where no convention makes a difference, as it
    does for rows without keys, of which a mistake may well leave something else; then where a mistake agrees that
    elsewhere does not. These two are looked for `until` a time of the clock of searches.
    """
    usual = []
    unusual = {name for o in observations for name in o.facts.axes}
    shapes = {name: stated(bench.mechanism, name) for name in bench.mechanism.optional}
    for stating in (dict(itertools.islice(bench.mechanism.shapes.items(), 1)), shapes):
        usual += [Literal("plain", name, len(axes)) for name, axes in stating.items() if name in unusual]
    if any(not o.facts.finite for o in observations):
        usual.append(Literal("finite", "inputs"))
    yield from (Condition((one,)) for one in usual)
    if len(usual) > 1:
        yield Condition(tuple(usual))
    if now() > until:
        return
    wrong = [o for o in observations if not o.right]
    disputed = [name for name in bench.mechanism.conventions if any(o.matters(name) for o in wrong)]
    if disputed:
        yield Condition(tuple(Literal("settled", name) for name in disputed))
    yield from Search(bench, candidates, [], observations, grade, seed, until=until).parts()


def _confined(likeness: Likeness, within: Condition) -> Likeness:
    """What is alike where a condition holds, and of which elsewhere nothing is said."""
    first, *rest = likeness.causes
    words = f" {'and' if ' where ' in first.name else 'where'} {where(within)}"
    candidate = likeness.candidate
    if candidate is not None:
        candidate = replaced(candidate, name=candidate.name + words, within=within)
    says = f"{first.says} Elsewhere it is wrong in another way."
    causes = (replaced(first, name=first.name + words, says=says, convention="", word=""), *rest)
    return replaced(likeness, causes=causes, candidate=candidate)


def _fit_by_laws(
    bench: Bench,
    failure: Failure,
    fit: Callable[[Collection[str]], Likeness | Nearest | None],
    without: Collection[str],
    observations: Sequence[Observation],
    seed: int,
) -> Likeness | None:
    """What fits on calls whose outputs do not depend on random numbers and breaks the very same laws on others.

    Where what fits first does not, it is sought once more without that.
    """
    unlike = set(without)
    for _ in range(FITS if any(not o.right for o in observations) else 0):
        found = fit(unlike)
        if not isinstance(found, Likeness):
            return None
        lawful = _by_laws_too(bench, failure, found, observations, seed)
        if lawful is not None:
            return lawful
        unlike |= {found.name, *found.others}
    return None


def _by_laws_too(
    bench: Bench, failure: Failure, found: Likeness, observations: Sequence[Observation], seed: int
) -> Likeness | None:
    """What fits on such calls if it breaks the very same laws on others, or what is alike on those calls and does."""
    candidate = found.candidate
    if candidate is None:
        return None
    signature = Signature(bench, failure, seed, _untried(bench, candidate, observations, seed))
    same = [*filter(signature.same, (candidate, *found.alike))]
    if not same:
        return None
    likeness = found if same[0] is candidate else called(found, same[0])
    return replaced(likeness, others=tuple(one.name for one in same[1:]), alike=tuple(same[1:]))


def _untried(bench: Bench, candidate: Candidate, observations: Sequence[Observation], seed: int) -> list[Sample]:
    """Cases with a size that is smaller than on all on which a candidate agrees: it may be made under that."""
    least: dict[str, int] = {}
    for o in observations:
        for name, n in o.facts.sizes.items() if o.stance(candidate) is Stance.AGREES else ():
            least[name] = min(n, least.get(name, n))
    drawn = plan(bench.mechanism, bench.subject.claims, PROFILES["quick"], seed, bench.dtype).pairs
    small = sorted(drawn, key=lambda sample: sample.entries)
    smaller = (
        s for s in small if any(n < least.get(x, 0) for x, n in facts_of(s).sizes.items() if least.get(x, 0) > 2)
    )
    return [*itertools.islice(smaller, UNTRIED)]


def _by_laws(
    bench: Bench, failure: Failure, candidates: Sequence[Candidate], observations: Sequence[Observation], seed: int
) -> Likeness | None:
    """What breaks the very same laws on the same cases, and agrees with the subject where outputs are determined."""
    determined = sorted(observations, key=lambda o: o.right)
    if all(o.right for o in determined):  # then it is none of those that show there; nor where nothing may show
        own = f"{bench.mechanism.name}."
        candidates = [c for c in candidates if (c.words and determined) or c.name.startswith(own)]
    possible = [c for c in candidates if all(o.stance(c) is not Stance.DIFFERS for o in determined)]
    signature = Signature(bench, failure, seed)
    same = filter(signature.same, possible) if signature.broken else ()
    found = [*itertools.islice(same, 2 + fitting.ALIKE)]
    if not 0 < len(found) <= 1 + fitting.ALIKE:  # many break them: these laws tell little
        return None
    others = tuple(other.name for other in found[1:])
    return Likeness((cause(found[0]),), len(signature.broken), others, by_laws=True, candidate=found[0])


def _breaks(candidate: Candidate, raising: Sequence[Observation]) -> bool:
    """Whether a candidate has no result either where the subject raises an error.

    What agrees on few answered calls alone is another fault than the one to be explained.
    """
    return all(o.version(candidate) is None for o in raising)
