"""Which word of each convention a subject follows: the declared one, or the one that its outputs show.

A convention is identified on cases that tell its words apart, one convention at a time, first on cases that no other
open convention affects; then the words found are confirmed together.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np

from ..cases.plans import scenarios_of
from ..cases.samples import Sample
from ..errors import SpecError
from ..mechanisms.mechanism import Mechanism
from ..numerics.grades import FP64, looser
from ..numerics.numbers import Number, value
from ..subjects.gradients import GradientSubject
from ..subjects.subject import Subject
from .bench import Bench
from .judge import is_right
from .layouts import lay_out
from .settling import Declined
from .trial import Faulted, Trial

How = Literal["declared", "observed", "unexplained", "untold"]
NEAR = 1 / 16
"""Two outputs are told apart by this share of the largest entry, which no rounding amounts to."""
CLOSER = 16
"""How many times as close as another a word is that is followed, if both explain all cases."""
ENOUGH = 3
"""Telling cases that are looked at for each convention."""
WORD_ENTRIES = 20_000
"""Entries beyond which a sample is too large to be looked at several times."""
OPEN = "open"
"""The word that leaves the order of equal entries open."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The word of one convention, how it is known, and on how many telling cases it agreed."""

    convention: str
    word: str
    how: How
    agreed: int = 0
    cases: int = 0
    told_by: tuple[str, ...] = ()
    """The cases that tell its words apart, and that the subject has answered."""
    followed: tuple[tuple[str, tuple[str, ...]], ...] = field(default=(), compare=False)
    """Of what no word explains: the words that alone explain some of the cases, and these cases."""

    @property
    def mixed(self) -> str:
        """Which cases follow which word, where several words are followed; no declaration fixes that."""
        if len(self.followed) < 2:
            return ""
        return "; ".join(f"{word} on {', '.join(labels)}" for word, labels in self.followed)

    @property
    def shown(self) -> bool:
        return self.how in ("observed", "unexplained")


def identify(
    subject: Subject, operator: Mechanism, dtype: str, device: str, seed: int = 0, *, blind: bool = False
) -> dict[str, Finding]:
    """The conventions of an operator as the subject follows them; `blind` to what it declares, and on all cases."""
    lay_out(subject, operator, dtype, device)
    words = {} if blind else {**_of_forward(subject, operator, dtype, device), **subject.claims.conventions}
    declared = operator.declared(words)
    found = {name: Finding(name, word, "declared") for name, word in declared.items()}
    open_ = [name for name in operator.conventions if name not in found]
    if not open_:
        return found
    known, faults = words_of(operator, found), Counter[str]()
    trials = [
        Trial(Bench(subject, sample.mechanism, dtype, device, known, faults), sample)
        for sample in scenarios_of(operator, subject.claims, seed=seed, dtype=dtype)
        if sample.entries <= WORD_ENTRIES
    ]
    while open_:
        telling: dict[str, list[Trial]] = {}
        for name in open_:
            telling[name] = _telling(trials, name, open_, known)
            if len(telling[name]) == ENOUGH:
                break
        name = max(telling, key=lambda n: len(telling[n]))
        cases = telling[name]
        if not cases:  # what is left is told by no case, or only together
            cases = next(filter(None, (_affected(trials, n, known, ENOUGH) for n in open_)), [])
            name = next((n for n in open_ if any(_affects(t, n, known) for t in cases)), name)
        found[name] = _judged(name, operator, cases, known)
        known[name] = found[name].word
        open_.remove(name)
    enough = len(trials) if blind else 2 * ENOUGH
    confirmed = {name: _confirmed(finding, trials, known, enough) for name, finding in found.items()}
    confirmed = {name: _left_open(finding, operator, trials, known) for name, finding in confirmed.items()}
    known = words_of(operator, confirmed)
    grounded = {name: _grounded(finding, operator, trials, known) for name, finding in confirmed.items()}
    return {name: _by_word(finding, operator, trials, known) for name, finding in grounded.items()}


def _of_forward(subject: Subject, operator: Mechanism, dtype: str, device: str) -> dict[str, str]:
    """Of gradients: the words of the function itself, of conventions that mean the same to both."""
    if not isinstance(subject, GradientSubject):
        return {}
    own = subject.forward.mechanism
    found = identified(subject.forward, own, dtype, device)
    alike = [name for name in found if own.conventions[name].keys() == operator.conventions.get(name, {}).keys()]
    return {name: found[name].word for name in alike if found[name].how in ("declared", "observed")}


class Findings(WeakKeyDictionary[Subject, dict[tuple[str, ...], dict[str, Finding]]]):
    """What was found of the subjects of a library."""


def identified(subject: Subject, operator: Mechanism, dtype: str, device: str) -> dict[str, Finding]:
    """The conventions of a subject, found once."""
    found, key = operator.kept(Findings).setdefault(subject, {}), (operator.name, dtype, device)
    if key not in found:
        found[key] = identify(subject, operator, dtype, device)
    return found[key]


def words_of(mechanism: Mechanism, found: Mapping[str, Finding]) -> dict[str, str]:
    """The words of all conventions, as far as they were found; the first ones otherwise."""
    return {**mechanism.words, **{name: finding.word for name, finding in found.items()}}


def explained(
    subject: Subject, operator: Mechanism, dtype: str, device: str, convention: str, known: Mapping[str, str]
) -> list[tuple[Sample, set[str]]]:
    """The cases that tell the words of a convention, the others being as known, with the words that explain each."""
    found = []
    for sample in scenarios_of(operator, subject.claims, seed=0, dtype=dtype):
        trial = Trial(Bench(subject, sample.mechanism, dtype, device, known), sample)
        if sample.entries <= WORD_ENTRIES and _affects(trial, convention, known):
            shares = {word: _explains(trial, convention, word, known) for word in operator.conventions[convention]}
            if None not in shares.values():
                found.append((sample, {word for word, share in shares.items() if share == 1.0}))
    return found


def _bounded(trial: Trial, words: Mapping[str, str]) -> dict[str, Number]:
    """The definition under other words, with what it leaves unspecified marked by an infinite bound."""
    return {n: x if isinstance(x, Number) else Number(x) for n, x in trial.frames.version(words, FP64).items()}


def _affects(trial: Trial, name: str, known: Mapping[str, str]) -> bool:
    """Whether the words of a convention give different outputs on a case, the others being as known."""
    return bool(_differing(trial, name, known))


def _affected(trials: Sequence[Trial], name: str, known: Mapping[str, str], most: int) -> list[Trial]:
    """The first of some cases that a convention affects."""
    return [*itertools.islice((trial for trial in trials if _affects(trial, name, known)), most)]


def _differing(trial: Trial, name: str, known: Mapping[str, str]) -> dict[str, Any]:
    """Where the words of a convention differ on a case, by output."""
    key = ("differing", trial.mechanism.name, name, tuple(sorted((n, w) for n, w in known.items() if n != name)))
    if key not in trial.sample.cache:
        trial.sample.cache[key] = _find_differing(trial, name, known)
    return trial.sample.cache[key]


def _find_differing(trial: Trial, name: str, known: Mapping[str, str]) -> dict[str, Any]:
    words = [{**known, name: word} for word in trial.mechanism.conventions[name]]
    if not _apart(trial, [trial.frames.version(one) for one in words]):
        return {}  # which is told without bounds, in a fraction of the time
    return _apart(trial, [{n: x.value for n, x in _bounded(trial, one).items()} for one in words])


def _apart(trial: Trial, versions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Where versions of the outputs differ, of those outputs that differ at all."""
    found = {}
    for output in trial.mechanism.outputs:
        first, *others = (version[output] for version in versions)
        others = [other for other in others if other is not first]  # as it is where no word is asked for
        apart = np.zeros(np.shape(first), bool)
        for other in others:
            apart = apart | ~_near(first, other)
        if output not in trial.mechanism.random and apart.any():
            found[output] = apart
    return found


def _near(x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        scale = np.max(np.abs(np.where(np.isfinite(x), x, 0.0)), initial=0.0)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        return same | (np.abs(x - y) <= NEAR * scale)


def _telling(trials: Sequence[Trial], name: str, open_: Sequence[str], known: Mapping[str, str]) -> list[Trial]:
    """The first cases that one open convention affects and no other does, of those that the subject takes."""
    found = []
    for trial in trials:
        if trial.bench.deadly:
            break
        alone = _affects(trial, name, known) and not any(_affects(trial, n, known) for n in open_ if n != name)
        if alone and trial.answered:
            found.append(trial)
            if len(found) == ENOUGH:
                break
    return found


def _judged(name: str, operator: Mechanism, cases: Sequence[Trial], known: Mapping[str, str]) -> Finding:
    """The first word that explains every telling case, unless another is far closer; or the one that explains most."""
    words = list(operator.conventions[name])
    scores = {word: [_explains(trial, name, word, known) for trial in cases] for word in words}
    told = {word: [share for share in shares if share is not None] for word, shares in scores.items()}
    count = len(next(iter(told.values())))
    if not count:
        return Finding(name, words[0], "untold")
    fitting = [word for word in words if all(share == 1.0 for share in told[word])]
    if fitting:
        far = {word: _distance(cases, name, word, known) for word in fitting} if fitting[1:] else {fitting[0]: 0.0}
        closest = next(word for word in fitting if not CLOSER * min(far.values()) < far[word] < np.inf)
        return Finding(name, closest, "observed", count, count)
    best = max(words, key=lambda word: (sum(told[word]), -words.index(word)))
    if 2 * sum(told[best]) < count:  # what entries a word explains then, it does by chance
        best = words[0]
    return Finding(name, best, "unexplained", sum(share == 1.0 for share in told[best]), count)


def _explains(trial: Trial, name: str, word: str, known: Mapping[str, str]) -> float | None:
    """The share of the entries in question that a word explains; None where the subject does not answer."""
    version = _bounded(trial, {**known, name: word})
    right = wrong = 0
    for output, apart in _differing(trial, name, known).items():
        try:
            y = trial.reply(trial.base).outputs.get(output)
        except (Declined, Faulted, SpecError):
            return None
        expected = version[output]
        if y is None or y.shape != expected.shape:
            continue
        found, radius = value(trial.frames.normal(output, y)), expected.full(np.asarray(expected.radius))
        with np.errstate(invalid="ignore"):
            within = np.isinf(radius) | (np.abs(found - expected.value) <= radius)  # as where a comparison is undecided
        fits = (_near(expected.value, found) | within)[apart]
        right, wrong = right + int(fits.sum()), wrong + int((~fits).sum())
    return right / (right + wrong) if right + wrong else None


def _distance(trials: Sequence[Trial], name: str, word: str, known: Mapping[str, str]) -> float:
    """How far outputs are from a word that explains them, at most; infinite where it leaves all of them open."""
    found: list[float] = []
    for trial in (trial for trial in trials if trial.answered):
        version = _bounded(trial, {**known, name: word})
        for output, apart in _differing(trial, name, known).items():
            y = trial.reply(trial.base).outputs.get(output)
            expected = version[output]
            if y is None or y.shape != expected.shape:
                continue
            with np.errstate(all="ignore"):
                gap = np.abs(expected.value - value(trial.frames.normal(output, y)))
            decided = apart & np.isfinite(gap) & np.isfinite(expected.full(np.asarray(expected.radius)))
            found += [float(np.max(gap[decided]))] if decided.any() else []
    return max(found, default=np.inf)


def _confirmed(finding: Finding, trials: Sequence[Trial], known: Mapping[str, str], enough: int) -> Finding:
    """The finding, once more with the words of all other conventions as they were found, on as many cases.

    Of what no word explains, cases do not count on which the results are within the bounds of the dtype.
    """
    name, word = finding.convention, finding.word
    if finding.how not in ("observed", "unexplained"):
        return finding
    cases = _affected(trials, name, known, enough)
    shares = [_explains(trial, name, word, known) for trial in cases]
    told = [(trial, share) for trial, share in zip(cases, shares, strict=True) if share is not None]
    if any(share != 1.0 for _, share in told):
        told = [(trial, share) for trial, share in told if share == 1.0 or not _is_bounded(trial, name, word, known)]
    agreed = sum(share == 1.0 for _, share in told)
    how: How = "untold" if not told else "observed" if agreed == len(told) else "unexplained"
    labels = tuple(trial.sample.case.label for trial, _ in told)
    return replace(finding, how=how, agreed=agreed, cases=len(told), told_by=labels)


def _left_open(finding: Finding, operator: Mechanism, trials: Sequence[Trial], known: Mapping[str, str]) -> Finding:
    """The finding, or the word that leaves an order open, if that alone explains all cases.

    An order of equal entries that is the first one's in short rows may be any in long ones.
    """
    name = finding.convention
    if not finding.shown or finding.word == OPEN or OPEN not in operator.conventions[name]:
        return finding
    cases = _affected(trials, name, known, len(trials))
    for word in (finding.word, OPEN):
        shares = [share for trial in cases if (share := _explains(trial, name, word, known)) is not None]
        if shares and all(share == 1.0 for share in shares):
            own = replace(finding, word=word, how="observed", agreed=len(shares), cases=len(shares))
            return finding if word == finding.word else own
    return finding


def _is_bounded(trial: Trial, name: str, word: str, known: Mapping[str, str]) -> bool:
    """Whether results are as a word has them within the bounds of the dtype, which may hide what words differ in."""
    subject, dtype = trial.bench.subject, trial.bench.dtype
    worded = Trial(replace(trial.bench, words={**known, name: word}), trial.sample)
    worded.replies = trial.replies
    grade = looser(dtype, subject.claims.grade(dtype))[-1]
    with suppress(Declined, Faulted):  # the call may be refused, and an output misshapen
        return all(is_right(worded, output, grade) for output in _differing(trial, name, known))
    return False


def _grounded(finding: Finding, operator: Mechanism, trials: Sequence[Trial], known: Mapping[str, str]) -> Finding:
    """A finding that no word explains, by the first word unless one case at least is right by the word found.

    What is wrong in other entries too may look like another word by chance, as heads in reverse order do where they are
    two.
    """
    name, first = finding.convention, next(iter(operator.conventions[finding.convention]))
    if finding.how != "unexplained" or finding.word == first:
        return finding
    cases = _affected(trials, name, known, 2 * ENOUGH)
    if any(_is_bounded(trial, name, finding.word, known) for trial in cases):
        return finding
    return replace(finding, word=first, agreed=sum(_explains(trial, name, first, known) == 1.0 for trial in cases))


def _by_word(finding: Finding, operator: Mechanism, trials: Sequence[Trial], known: Mapping[str, str]) -> Finding:
    """A finding that no word explains, with the cases that one word alone explains."""
    if finding.how != "unexplained":
        return finding
    name, found = finding.convention, dict[str, list[str]]()
    for trial in _affected(trials, name, known, 2 * ENOUGH):
        words = [word for word in operator.conventions[name] if _explains(trial, name, word, known) == 1.0]
        if len(words) == 1:
            found.setdefault(words[0], []).append(trial.sample.case.label)
    return replace(finding, followed=tuple((word, tuple(labels)) for word, labels in found.items()))
