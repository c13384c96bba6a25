"""The name of a failure: the known mistake, or two of them, that a subject behaves like.

Candidates are run on calls that the subject has answered: those on which it failed, the scenarios of the mechanism and
its kin, and fresh ones, drawn to tell those candidates apart which are still alike.
A name is given only to what agrees with the subject on every one of them, for a wrong name is worse than none; where
nothing does, what comes nearest is told as that.
The other words of conventions come first: what they explain may well be intended.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace as replaced

from ..cases.plans import plan, scenarios_of
from ..cases.profiles import PROFILES
from ..cases.samples import Sample
from ..errors import SpecError
from ..judging.bench import ANSWERED, Bench
from ..judging.cells import Failure, law_of
from ..judging.judge import judged
from ..judging.trial import Tracing, Trial
from ..mechanisms.library import uncollected
from ..numerics.grades import Grade, looser
from .candidates import Candidate, faulty, resized, stock
from .clock import now
from .conditions import EVERYWHERE, Condition, Literal
from .facts import stated
from .likeness import Likeness, Nearest
from .observations import Observation, Stance
from .phrases import where
from .places import later, places
from .search import Search, cause
from .signatures import Signature
from .steering import EXPLAINED_ENTRIES
from .synthesis import changed_along, edited, plausible, resembling, shown_as
from .variants import from_elsewhere, varied

SURE = 4
"""Cases on which an edit of the definition agrees at least: there are many of them."""
FOREIGN = 2
"""Cases on which a mistake of another definition agrees at least: one may agree by chance."""
CONFINED = 4
"""Cases on which something agrees at least of which elsewhere nothing is said."""
FEWER = (4, 4)
"""Cases beside a wrong one, and fresh ones, asked about before a subject is called what it is elsewhere."""
SECONDS = 2.0
"""CPU time for all that is tried."""
PARTS = 0.25
"""The share of it that is kept for parts of the calls, on which what is known is tried."""
TILES = 0.2
"""The share of it in which functions with other tiles are tried."""
PAIR_SECONDS = 1.5
"""CPU time in which pairs of mistakes are tried, where nothing else fits."""
RESIZED = 3_000
"""Calls of faulty functions with other tiles in one diagnosis."""
USUAL = ("plain", "finite")
"""The literals of parts of the calls on which what is known is tried when most of the time is spent."""
LATE = 0.3
"""CPU time for these, however late it is."""
LATER_SECONDS = 0.4
"""CPU time for candidates that are made at some positions of an axis, and for those from a position on."""
ALIKE = 8
"""Further edits that give the same on every case, beyond which none of them is told."""


def observed(bench: Bench, failure: Failure, seed: int) -> list[Observation]:
    """The calls that a subject has answered: those that failed, and the scenarios of the mechanism and its kin."""
    if bench.mechanism.undetermined:
        return []
    grade = bench.subject.claims.grade(bench.dtype)
    scenarios = _scenarios(bench, (failure.sample, failure.found), grade, seed)
    return [*_failing(bench, failure, grade), *scenarios]


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
    seconds = times * SECONDS
    until = now() + seconds
    if bench.mechanism.undetermined:
        return _by_laws(bench, failure, candidates, grades[0], seed)
    with uncollected():
        return _of_calls(bench, failure, seed, candidates, grades, without, observations, likely, until, seconds)


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
    observations = observed(bench, failure, seed) if observations is None else observations
    again = _as_elsewhere(bench, candidates, observations, grades[0], seed, likely, until) if likely else None
    raising = [*_raising(bench, failure, grades[0])]
    candidates = [c for c in candidates if _breaks(c, raising)]
    found = again or _among_all(bench, failure, candidates, observations, grades, seed, without, until, seconds)
    candidate = found.candidate if isinstance(found, Likeness) else None
    return found if candidate is None or _breaks(candidate, raising) else None


def _among_all(
    bench: Bench,
    failure: Failure,
    candidates: Sequence[Candidate],
    observations: Sequence[Observation],
    grades: Sequence[Grade],
    seed: int,
    without: Collection[str],
    until: float,
    seconds: float,
) -> Likeness | Nearest | None:
    """What agrees on all calls, or else on a part of them."""
    failing = [o for o in observations if o.trial.sample in (failure.sample, failure.found)]
    early = until - PARTS * seconds
    functions = _functions(bench, without)
    found = _named(bench, candidates, functions, observations, grades, seed, without, early, seconds, failing)
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
            again = search.likeness(plainly=True) or (_as_edited(bench, part, search) if search.wrong else None)
            if again is not None and again.agreed >= CONFINED:
                return _confined(again, within)
            continue
        functions = _functions(bench, without) if _settled(within) else iter(())
        again = (
            _named(bench, possible, functions, part, grades, seed, without, early, seconds, (), within)
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
    known = [c for c in candidates if (c.name.partition(".")[2] or c.name) in likely]
    found = Search(bench, known, [], own, grade, seed, until=until, asked=FEWER).likeness() if known else None
    if found is not None:
        return found
    near = from_elsewhere(bench.mechanism, likely)
    found = Search(bench, near, [], own, grade, seed, until=until, asked=FEWER).likeness() if near else None
    if found is not None and found.agreed >= FOREIGN:
        return found
    made = [] if bench.mechanism.by_reference else shown_as(bench, likely)
    found = Search(bench, made, [], own, grade, seed, until=until, asked=FEWER).likeness(alone=True) if made else None
    return found if found is not None and found.agreed >= SURE else None


def _functions(bench: Bench, without: Collection[str]) -> Iterator[Candidate]:
    """The faulty functions, each when it is asked for, for their framework is heavy."""
    return (candidate for candidate in faulty(bench) if candidate.name not in without)


def _settled(condition: Condition) -> bool:
    return any(literal.kind == "settled" for literal in condition.literals)


def _named(
    bench: Bench,
    candidates: Sequence[Candidate],
    functions: Iterable[Candidate],
    observations: Sequence[Observation],
    grades: Sequence[Grade],
    seed: int,
    without: Collection[str],
    until: float,
    seconds: float,
    failing: Sequence[Observation] = (),
    within: Condition = EVERYWHERE,
) -> Likeness | Nearest | None:
    """What fits on all of some observations, the simplest first; at a looser grade it is to show on the `failing`.

    Pairs are tried for so many `seconds` at most.
    """
    search = Search(bench, candidates, functions, observations, grades[0], seed, within, until=until)
    found = search.likeness()
    for grade in grades[1:] if found is None else ():  # what has a mistake may be less precise than it claims as well
        coarse = Search(bench, candidates, [], [o.at(grade) for o in observations], grade, seed, within, until=until)
        found = found or _showing(coarse.likeness(), [o.at(grade) for o in failing])
    return (
        found
        or _from_elsewhere(bench, observations, search, without)
        or _as_edited(bench, observations, search)
        or _in_each_output(bench, candidates, observations, search)
        or _with_other_tiles(bench, observations, search, without)
        or _somewhere(bench, candidates, observations, search)
        or search.prolonged(min(PAIR_SECONDS, seconds)).likeness(pairs=True)
        or search.nearest()
    )


def _from_elsewhere(
    bench: Bench, observations: Sequence[Observation], search: Search, without: Collection[str]
) -> Likeness | None:
    """What is a mistake where the same line stands in another definition, or one with another size."""
    near = resembling((c for c in varied(bench.mechanism) if c.name not in without), search.wrong, until=search.until)
    if not near:
        return None
    found = Search(
        bench, near, [], observations, search.grade, search.seed, search.within, until=search.until
    ).likeness()
    return found if found is not None and found.agreed >= FOREIGN else None


def _with_other_tiles(
    bench: Bench, observations: Sequence[Observation], search: Search, without: Collection[str]
) -> Likeness | None:
    """The faulty function that fits with tiles of another size than it is known with."""
    if search.within.literals:
        return None
    functions = (c for c in resized(bench) if c.name.partition(" with ")[0] not in without)
    until = min(search.until, now() + TILES * SECONDS)
    return Search(bench, [], functions, observations, search.grade, search.seed, until=until, calls=RESIZED).likeness()


def _showing(likeness: Likeness | None, failing: Sequence[Observation]) -> Likeness | None:
    """What is alike, if it shows on the failing calls; else it is another fault than the one to be explained."""
    candidate = None if likeness is None else likeness.candidate
    shows = candidate is None or not failing or any(o.stance(candidate) is not Stance.SILENT for o in failing)
    return likeness if shows else None


def _parts(
    bench: Bench,
    candidates: Sequence[Candidate],
    observations: Sequence[Observation],
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


def _as_edited(bench: Bench, observations: Sequence[Observation], search: Search) -> Likeness | None:
    """The small edit of the definition that agrees on every case, if there is one and few others are like it."""
    wrong = [o for o in observations if not o.right]
    found = (_one_of(bench, near, observations, search) for near in plausible(bench, wrong, search.until))
    return next(filter(None, found), None)


def _in_each_output(
    bench: Bench, candidates: Sequence[Candidate], observations: Sequence[Observation], search: Search
) -> Likeness | None:
    """Mistakes or edits each of which is made in one of several wrong outputs alone, if there is one for each."""
    wrong = [name for name in bench.mechanism.outputs if any(name in o.wrong for o in search.wrong)]
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
    bench: Bench, candidates: Sequence[Candidate], observations: Sequence[Observation], search: Search
) -> Likeness | None:
    """A mistake or an edit that is made at some positions of an axis alone, by where entries are wrong.

    If entries say nothing, those sizes may on which the subject is right: from one of them on a line may be changed.
    Where the time is spent, neither is tried.
    """
    if now() > search.until or search.within.literals or bench.mechanism.by_reference or not search.wrong:
        return None
    own = [o for o in search.wrong if o.mechanism is bench.mechanism]
    found = places(o.strays() for o in own)
    known = [c for c in candidates if not c.words]
    limit = min(search.until, now() + LATER_SECONDS)
    near = resembling([*known, *edited(bench)], search.wrong, found, until=limit) if found else []
    likeness = _one_of(bench, [c for c in near if c.place is not None], observations, search, plainly=True)
    if likeness is not None:
        return likeness
    behind = later(bench.mechanism.sizes, [o.facts for o in search.wrong], [o.facts for o in search.right])
    limit = min(search.until, now() + LATER_SECONDS)
    near = changed_along(bench, [*known, *edited(bench)], search.wrong, behind, limit)
    return _one_of(bench, near, observations, search, plainly=True)


def _one_of(
    bench: Bench, near: Sequence[Candidate], observations: Sequence[Observation], search: Search, plainly: bool = False
) -> Likeness | None:
    """The one of several candidates that agrees on every case, if few others are like it."""
    if not near:
        return None
    own = Search(bench, near, [], observations, search.grade, search.seed, search.within, until=search.until)
    found = own.likeness(plainly=plainly, alone=True)
    return None if found is None or found.agreed < SURE or len(found.others) > ALIKE else found


def _by_laws(
    bench: Bench, failure: Failure, candidates: Sequence[Candidate], grade: Grade, seed: int
) -> Likeness | None:
    """What breaks the very same laws on the same cases, and agrees with the subject where outputs are determined."""
    determined = sorted(_scenarios(bench, (), grade, seed), key=lambda o: o.right)
    if all(observation.right for observation in determined):  # then it is none of those that show there
        candidates = [c for c in candidates if c.words or c.name.startswith(f"{bench.mechanism.name}.")]
    possible = [c for c in candidates if all(o.stance(c) is not Stance.DIFFERS for o in determined)]
    signature = Signature(bench, failure, seed)
    found = [c for c in possible if signature.same(c)] if signature.broken else []
    if not found:
        return None
    others = tuple(other.name for other in found[1:])
    return Likeness((cause(found[0]),), len(signature.broken), others, by_laws=True, candidate=found[0])


def _failing(bench: Bench, failure: Failure, grade: Grade) -> Iterator[Observation]:
    """The calls that the broken law makes of the failing case and that are answered."""
    return (o for o in _made(bench, failure, grade) if o.answered())


def _made(bench: Bench, failure: Failure, grade: Grade) -> Iterator[Observation]:
    """The calls that the broken law makes of the failing case, as it was found and as it was made small."""
    law = law_of(bench.mechanism, failure.law)
    for sample in dict.fromkeys((failure.sample, failure.found)):
        trial = Tracing(bench, sample)
        if law is not None and law.name != "definition":
            with contextlib.suppress(SpecError):
                judged(trial, law, [grade])
        for settled in {(): trial.base, **trial.asked}.values():
            yield Observation(trial, settled, grade)


def _raising(bench: Bench, failure: Failure, grade: Grade) -> Iterator[Observation]:
    """The calls of the failing case on which the subject raises an error, if it does so more often than not."""
    fault = failure.outcome.fault
    if fault is not None and fault.kind == "raised" and bench.faults["raised"] > bench.faults[ANSWERED]:
        yield from (o for o in _made(bench, failure, grade) if o.raises())


def _breaks(candidate: Candidate, raising: Sequence[Observation]) -> bool:
    """Whether a candidate has no result either where the subject raises an error.

    What agrees on few answered calls alone is another fault than the one to be explained.
    """
    return all(o.version(candidate) is None for o in raising)


def _scenarios(bench: Bench, apart_from: Sequence[Sample], grade: Grade, seed: int) -> Iterator[Observation]:
    """The scenarios of the mechanism and its kin that the subject answers, the smallest first.

    Of what is sparing with shapes they are those of the mechanism alone.
    """
    m, claims = bench.mechanism, bench.subject.claims
    scenarios: Iterable[Sample] = scenarios_of(m, claims, seed=seed, dtype=bench.dtype)
    if claims.sparing:
        scenarios = plan(m, claims, PROFILES["quick"], seed, bench.dtype).scenarios
    for sample in sorted(scenarios, key=lambda sample: sample.entries):
        if bench.faults["hung"] or bench.deadly:
            return
        if sample.entries <= EXPLAINED_ENTRIES and sample not in apart_from:
            trial = Trial(replaced(bench, mechanism=sample.mechanism), sample)
            observation = Observation(trial, trial.base, grade)
            if observation.answered():
                yield observation
