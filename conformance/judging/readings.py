"""How a plain function reads parameters that its operator has otherwise, or has not, as first calls show it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress

from ..cases.plans import plan, scenarios_of
from ..cases.profiles import PROFILES
from ..errors import TargetError
from ..mechanisms.signatures import ENOUGH, signature_named
from ..mechanisms.stated import is_stated
from ..subjects.places import called_as_inputs
from ..subjects.readings import LACKING, Way, begun, line_of, unsaid, ways
from ..subjects.subject import AdapterSubject
from .fits import fits_of, giving, right_and_nearly, share_of_right
from .layouts import answers, enough, is_read_right, lay_out, right_answers, share_of_answers
from .smallest import calls_of


def find_readings(subject: AdapterSubject, device: str) -> list[str]:
    """What parameters are found to be, in words; the subject is called so from now on.

    What an operator has is read as the operator has it wherever that is right, and a known interface is kept where it
    is. Where no way is right, it is the one by which the most answers are, so that a fault is seen as what it is; of a
    function that is wrong without the parameter as well, nothing is found.
    """
    known = ways(subject.adapter, subject.mechanism) if subject.adapter.guessed else []
    if not known:
        return []
    lay_out(subject, subject.mechanism, subject.claims.dtypes[0], device)
    other = subject.adapter.like and not is_stated(subject.adapter.like)
    says = _instead(subject, device, known) if other else _among(subject, device, known)
    if says:
        subject.laid_out = subject.observed_layout  # which a wrong way may have hidden
    return says


def last_resorts(subject: AdapterSubject) -> Iterator[str]:
    """The interfaces by which a plain function may be called that gives no results by any other."""
    begun_by = begun(subject.adapter, subject.mechanism)
    for way in ways(subject.adapter, subject.mechanism):
        if way.reading.last_resort:
            before = [other for other in begun_by if not _overlap(other, way)]
            yield line_of(subject.adapter, subject.mechanism, [*before, way])


def _among(subject: AdapterSubject, device: str, known: Sequence[Way]) -> list[str]:
    """What parameters of a function are found to be that is called as its operator is, or by a line."""
    taken, says = begun(subject.adapter, subject.mechanism), list[str]()
    left = [*_alternatives(way for way in known if not way.reading.refusing)]
    for _ in range(2):  # what no call shows at first, others may lead to
        unread = list[list[Way]]()
        for alike in left:
            further = [way for way in alike if not _is_said(way, taken)]
            found = _one_of(subject, taken, further, device) if further else None
            if found is None:
                unread.append(alike)
                continue
            taken, said = found
            says += said
        left = unread
        if not (says and left):
            break
    says = says or _together(subject, taken, left, device)
    return [*says, *_unrefused(subject, taken, [way for way in known if way.reading.refusing], device)]


def _is_said(way: Way, taken: Iterable[Way]) -> bool:
    """Whether what a way says of options alone is what parameters show already."""
    shown = {name for other in taken if other.parameters for name in other.fixed}
    return way.kind == "options" and not way.reading.returns and bool(way.fixed) and {*way.fixed} <= shown


def _unrefused(subject: AdapterSubject, taken: Sequence[Way], known: Iterable[Way], device: str) -> list[str]:
    """What parameters are found to be of a function that refuses some calls as it is called, and the fewest by that."""
    m, dtype, own, says = subject.mechanism, subject.claims.dtypes[0], subject.adapter.like, list[str]()
    best, fewest = own, 1.0
    for way in known:
        if "refused" not in fits_of(subject, m, giving(subject, m, dtype, way.shown), dtype, device):
            break
        before = [other for other in taken if not _overlap(way, other)]
        if not _right(subject, [*before, way], way.shown, device, always=way.asked)[1]:
            continue
        like, cases = subject.adapter.like, [*giving(subject, m, dtype, way.shown)]
        by_it = fits_of(subject, m, cases, dtype, device).count("refused")
        subject.take_as(own)
        before_it = fits_of(subject, m, cases, dtype, device).count("refused")
        if by_it < before_it and by_it / len(cases) < fewest:
            best, fewest, says = like, by_it / len(cases), [f"{way.says}, as first calls show"]
    if best != own:
        subject.take_as(best)
    return says


def _together(
    subject: AdapterSubject, taken: Sequence[Way], several: Sequence[Sequence[Way]], device: str
) -> list[str]:
    """What parameters are found to be of which no way alone is right, one way of each that a function asks for."""
    groups = [alike for alike in several if alike[0].asked or alike[0].kind == "options"]
    if len(groups) < 2 or math.prod(map(len, groups)) > MOST:
        return []
    for some in itertools.product(*groups):
        before = [way for way in taken if not any(_overlap(way, other) for other in some)]
        shown = frozenset[str]().union(*(way.shown for way in some))
        if _right(subject, [*before, *some], shown, device)[1]:
            return [f"{way.says}, as first calls show" for way in some]
    return []


MOST = 100
"""Ways to read several parameters together that are tried, and cases by which an option is told."""


def _one_of(
    subject: AdapterSubject, taken: Sequence[Way], alike: Sequence[Way], device: str
) -> tuple[list[Way], list[str]] | None:
    """The ways by which a function is called where some were taken before, one of those alike among them, and words.

    None where no call shows which.
    """
    before = [way for way in taken if not _overlap(way, alike[0])]
    first = [way for way in taken if _overlap(way, alike[0])]
    if not first and alike[0].in_place and not _changes(subject, device):
        return None  # what it is passed is the same after the call
    known = {*subject.claims.names, *called_as_inputs(subject.adapter.function, subject.mechanism)}
    unread = alike[0].parameters and not first and not {*alike[0].parameters} & known
    own = [] if unread else [first]
    further = [[way] for way in alike if way not in first]
    if any(way.reading.last_resort for way in alike) and _answers(subject, device):
        further = [some for some in further if not some[0].reading.last_resort]
    open_ = first and alike[0].kind not in ("parameters", LACKING) and not any(way.chosen for way in first)
    without = [[]] if open_ else []
    some = _first_right(subject, before, [*own, *further, *without], alike, device)
    choices = [each for each in further if each[0].is_choice]
    if choices and some is not None and (some == first or some in choices):
        some = _closest(subject, before, [*own, *choices], some, device)
    written = [each for each in further if each[0].in_place and some is not None and each != some]
    if written and not any(way.in_place for way in some or ()) and _changes(subject, device):
        some = _first_right(subject, before, written, alike, device) or some
    how = "as first calls show"
    if some is None:
        some, how = _nearest(subject, before, [*own, *further], alike[0].shown, device), "as most first calls show"
        some = None if some == first else some
    if some is None and (first or any(way.asked for way in alike)):
        some, how = _answered(subject, before, own, further, device), "as the shapes of first results show"
    return None if some is None else ([*before, *some], [f"{way.says}, {how}" for way in some])


def _first_right(
    subject: AdapterSubject, before: Sequence[Way], several: Sequence[Sequence[Way]], alike: Sequence[Way], device: str
) -> Sequence[Way] | None:
    """The first ways by which a function is right, or what it is called by where that makes more answers right.

    It is called so from now on.
    """
    own, always, most, kept = subject.adapter.like, any(way.asked for way in alike), 0, None
    for some in several:
        shown = alike[0].shown.union(*(way.shown for way in some))
        right, suffice = _right(subject, [*before, *some], shown, device, always=always)
        if suffice and right > most:
            return some
        if right and line_of(subject.adapter, subject.mechanism, [*before, *some]) == own:
            most, kept = right, some
    return kept


def _closest(
    subject: AdapterSubject,
    before: Sequence[Way],
    several: Sequence[Sequence[Way]],
    first: Sequence[Way],
    device: str,
) -> Sequence[Way]:
    """The value of an option by which the most cases are right, of those between which few calls do not decide.

    Values may be as near to each other as GELU and its approximation are, so that the precision that is claimed counts
    before any looser one.
    It is the `first` one if by none of them these are right. The subject is called so from now on.
    """
    m, dtype, best, most = subject.mechanism, subject.claims.dtypes[0], first, (-1, -1)
    right = [some for some in several if _right(subject, [*before, *some], (), device)[1]] or [first]
    lines = [(some, line_of(subject.adapter, m, [*before, *some])) for some in right]
    for some, like in lines if len(lines) > 1 else ():
        subject.take_as(like)
        planned = plan(m, subject.claims, PROFILES["quick"], 0, dtype)
        cases = itertools.islice((sample for block in planned.blocks() for sample in block), MOST)
        count = right_and_nearly(subject, m, cases, dtype, device)
        if count > most:
            best, most = some, count
    best = best if len(lines) > 1 else right[0]
    subject.take_as(next(like for some, like in lines if some is best))
    return best


def _changes(subject: AdapterSubject, device: str) -> bool:
    """Whether a function changes its inputs, as it is called, or answers none of the first cases."""
    scenarios = scenarios_of(subject.mechanism, subject.claims, seed=0, dtype=subject.claims.dtypes[0])
    with subject.session():
        replies = [subject.call(call) for call in calls_of(subject, itertools.islice(scenarios, FEW), device)]
    answered = [reply for reply in replies if reply.fault is None]
    broken = {breach.contract for reply in answered for breach in reply.breaches}
    return not answered or "inputs_unchanged" in broken


FEW = 3
"""First cases that show whether a function changes its inputs."""


def _nearest(
    subject: AdapterSubject, before: Sequence[Way], several: Sequence[Sequence[Way]], shown: frozenset[str], device: str
) -> Sequence[Way] | None:
    """The ways by which the most answers are right, if these are some; the subject is called so from now on.

    What it is called by is kept where half of the answers are right.
    """
    own, best, most = subject.adapter.like, None, LEAST
    if not shown or not is_read_right(subject, subject.mechanism, subject.claims.dtypes[0], device):
        return None
    lines = [(some, line_of(subject.adapter, subject.mechanism, [*before, *some])) for some in several]
    for some, like in lines:
        if unsaid(subject.adapter, subject.mechanism, like):
            continue
        subject.take_as(like)
        given = shown | {name for way in some for name in way.shown}
        share = share_of_right(subject, subject.mechanism, subject.claims.dtypes[0], device, given)
        if share > most:
            best, most = (some, like), share
        if like == own and share >= HALF:
            break
    subject.take_as(best[1] if best else own)
    return best[0] if best else None


def _answered(
    subject: AdapterSubject,
    before: Sequence[Way],
    own: Sequence[Sequence[Way]],
    further: Sequence[Sequence[Way]],
    device: str,
) -> Sequence[Way] | None:
    """The first ways by which a function gives results for all cases; it is called so from now on.

    Where it gives none by its own ways, and none for all cases by any, they are those by which it gives the most.
    """
    like, best, most = subject.adapter.like, None, 0.0
    for some in (*own, *further):
        line = line_of(subject.adapter, subject.mechanism, [*before, *some])
        if unsaid(subject.adapter, subject.mechanism, line):
            continue
        subject.take_as(line)
        share = share_of_answers(subject, subject.mechanism, subject.claims.dtypes[0], device)
        if share == 1:
            return None if some in own else some
        if some in own and share:
            most = 1.0
        elif share > most:
            best, most = (some, line), share
    subject.take_as(best[1] if best else like)
    return best[0] if best else None


def _answers(subject: AdapterSubject, device: str) -> bool:
    """Whether a function gives results, as it is called."""
    return answers(subject, subject.mechanism, subject.claims.dtypes[0], device)


LEAST = 0.25
"""The share of answers that may be right by chance."""
HALF = 0.5
"""The share of right answers with which a fault is none of how a parameter is read."""


def _instead(subject: AdapterSubject, device: str, known: Sequence[Way]) -> list[str]:
    """The same of a function that has a known interface by its parameters, where by that all of it is wrong.

    Or all of it on calls that give what some way reads otherwise. One that gives no results by that is called in a way
    by which it gives some, right or not.
    """
    own, shown = subject.adapter.like, {way.shown: None for way in known if way.parameters and way.shown}
    right = _is_right(subject, shown, device)
    if right and not any(way.kind == "number" for way in known):
        return []
    if _is_known(subject, own):
        known = [way for way in known if way.parameters or way.kind == "number"]
        if not known or (not right and _is_whole(subject, own) and _is_right_at_times(subject, device)):
            return []
    share = 1.0 if right else share_of_answers(subject, subject.mechanism, subject.claims.dtypes[0], device)
    like = line_of(subject.adapter, subject.mechanism, begun(subject.adapter, subject.mechanism))
    if like and unsaid(subject.adapter, subject.mechanism, like):
        return []
    with suppress(TargetError):  # who takes everything by name has no such form
        subject.take_as(like)
        says = _among(subject, device, known)
        if (says or not right) and _is_right(subject, shown, device):
            return says
        if share < 1 and (says or not share) and _answers(subject, device):
            return says  # so that a fault is seen as what it is
    subject.take_as(own)
    return []


def _is_right(subject: AdapterSubject, several: Iterable[frozenset[str]], device: str) -> bool:
    """Whether a function is right on first cases, and not wrong on those that give one of some inputs and options."""
    right = is_read_right(subject, subject.mechanism, subject.claims.dtypes[0], device)
    return right and not any(_is_wrong(subject, shown, device) for shown in several)


def _is_wrong(subject: AdapterSubject, shown: frozenset[str], device: str) -> bool:
    """Whether a function gives a wrong answer, or no right one, to first cases that give what is to be shown."""
    m, dtype = subject.mechanism, subject.claims.dtypes[0]
    if is_read_right(subject, m, dtype, device, shown):
        return False
    fits = fits_of(subject, m, giving(subject, m, dtype, shown), dtype, device)
    return "shaped" in fits or (bool(fits) and "right" not in fits)


def _is_known(subject: AdapterSubject, like: str) -> bool:
    """Whether a function has the name of its known interface and half of its parameters: so it is what that says."""
    has, of = _parameters(subject, like)
    return subject.adapter.name in signature_named(like).names and has >= ENOUGH * of


def _is_whole(subject: AdapterSubject, like: str) -> bool:
    """Whether a function has all parameters of its known interface: so it is that, right or not."""
    has, of = _parameters(subject, like)
    return of == has >= WHOLE


def _parameters(subject: AdapterSubject, like: str) -> tuple[int, int]:
    """How many parameters of a known interface that are passed something a function has, and of how many."""
    taken = subject.form.taken
    return len(taken.passed) - len(taken.left) if taken else 0, len(signature_named(like).mapped)


def _is_right_at_times(subject: AdapterSubject, device: str) -> bool:
    """Whether more of the first cases that give an option or an optional input are right than may be by chance."""
    m, dtype = subject.mechanism, subject.claims.dtypes[0]
    return share_of_right(subject, m, dtype, device, subject.claims.names) > LEAST


WHOLE = 4
"""Parameters that tell an interface where a function has all of them."""


def _alternatives(known: Iterable[Way]) -> Iterator[list[Way]]:
    """The ways of the same parameters, in their order."""
    left = [*known]
    while left:
        alike = [way for way in left if way is left[0] or _overlap(way, left[0])]
        left = [way for way in left if way not in alike]
        yield alike


def _overlap(one: Way, other: Way) -> bool:
    """Whether two ways are of the same parameters, or of none and say the same kind of thing."""
    alike = not one.parameters and one.kind == other.kind
    return alike or bool({*one.parameters} & {*other.parameters})


def _right(
    subject: AdapterSubject, some: Sequence[Way], shown: Collection[str], device: str, *, always: bool = False
) -> tuple[int, bool]:
    """How many answers of a function that is read in some ways are right, if none is wrong, and whether these suffice.

    It is called so from now on if so. What it is passed `always` has to be right on calls that lack it as well.
    """
    own, like = subject.adapter.like, line_of(subject.adapter, subject.mechanism, some)
    if unsaid(subject.adapter, subject.mechanism, like):
        return 0, False
    m, dtype = subject.mechanism, subject.claims.dtypes[0]
    if like != own:
        subject.take_as(like)
    right, cases = right_answers(subject, m, dtype, device, shown)
    suffice = enough(right, cases, shown)
    if suffice and always and shown and not is_read_right(subject, m, dtype, device):
        right, suffice = 0, False
    if not suffice and like != own:
        subject.take_as(own)
    return right, suffice
