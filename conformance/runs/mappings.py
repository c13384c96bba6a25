"""How a mapping of the weights of a class fares: its declaration is called on cases and judged."""

from __future__ import annotations

import itertools
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cases.plans import plan
from ..cases.profiles import PROFILES
from ..cases.samples import Sample
from ..errors import Error
from ..execution.dotted import named
from ..execution.supervisor import Supervisor
from ..execution.survey import Survey
from ..judging.bench import Bench
from ..judging.judge import Kind, definition_law, judged
from ..judging.trial import Declined, Faulted, Trial
from ..mechanisms.definition import Frame
from ..mechanisms.library import Library
from ..mechanisms.mechanism import Assignments, Mechanism
from ..numerics import budget
from ..numerics.grades import looser
from ..subjects.candidate import Candidate
from ..subjects.handed import helpers
from ..subjects.proposals import roles
from ..subjects.subject import AdapterSubject
from ..subjects.targets import resolve

CASES, ALL = 8, 64
"""Cases on which a candidate is tried, and those on which candidates are that are right in all of them."""
WRONG = 2
"""Cases that are wrong after which it is not tried further."""
OFTEN = 0.5
"""The share of cases beyond which one that is right in them computes its operator, and is wrong in the others."""
NEAR = 1e-3
"""How near outputs come to a known mistake, as a share of the largest: far beyond what rounding leaves."""
DTYPE = "float32"


@dataclass(frozen=True, slots=True)
class Score:
    """How a candidate has fared, under the words of conventions."""

    candidate: Candidate
    words: Mapping[str, str]
    held: int
    tried: int
    says: str = ""

    @property
    def holds(self) -> bool:
        return 0 < self.tried == self.held

    @property
    def share(self) -> float:
        """The share of cases in which it is right."""
        return self.held / max(self.tried, 1)


@dataclass(frozen=True, slots=True)
class Class:
    """A class of a file that is taken for an operator, and with what it is tried."""

    path: Path
    name: str
    operator: str
    supervised: Supervisor
    known: Library

    def survey(self) -> Survey:
        """What its own process sees of it."""
        return self.supervised.surveyed(self.path, self.name, roles(self.operator))

    @property
    def imported(self) -> tuple[str, str]:
        """The folder in which its module is found, and what imports it under the name of its file."""
        path = self.path.resolve()
        own = named(path)
        if own is None or not own.required:
            return str(path.parent), f"import {path.stem}"
        return own.folder, f"import {own.name} as {path.stem}"

    @property
    def output(self) -> str:
        """The name of the first output of its operator."""
        return next(iter(self.known[self.operator].outputs))


def scored(
    kind: Class,
    found: Sequence[Candidate],
    *,
    option: str = "",
    words: Mapping[str, str] | None = None,
    changed: bool = False,
    cases: int = CASES,
) -> list[Score]:
    """How candidates fare; where words are to be `changed`, under one other word of a convention at a time, too.

    On more cases than a few, they are judged by the precision that is claimed alone, which tells epsilons apart.
    """
    with _subjects(kind, found) as subjects:
        return [
            score
            for candidate, subject in subjects
            for score in _scores(candidate, subject, option, words or {}, changed, cases)
        ]


@contextmanager
def _subjects(kind: Class, found: Sequence[Candidate]) -> Iterator[list[tuple[Candidate, AdapterSubject]]]:
    """Candidates with what can be called of each, for as long as their file is there."""
    with tempfile.TemporaryDirectory(prefix="attnspec-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = Path(folder, f"{kind.path.stem}_candidates.py")
        texts = [candidate.text(f"candidate_{at}") for at, candidate in enumerate(found)]
        place, importing = kind.imported
        start = f"import sys\n\nsys.path.insert(0, {place!r})\n"
        file.write_text("\n\n".join([start + head(importing, texts), *texts]) + "\n", "utf-8")
        subjects = resolve(str(file), supervisor=kind.supervised, known=kind.known)
        yield [
            (candidate, subject)
            for candidate, subject in zip(found, subjects, strict=True)
            if isinstance(subject, AdapterSubject)
        ]


def _scores(
    candidate: Candidate,
    subject: AdapterSubject,
    option: str,
    known: Mapping[str, str],
    changed: bool,
    cases: int,
) -> Iterator[Score]:
    with subject.session():
        for words in (known, *(_others(subject.mechanism.stating) if changed else ())):
            score = _score(candidate, subject, words, option, cases)
            yield score
            if score.holds:
                break


def _others(operator: Mechanism) -> list[dict[str, str]]:
    """Each word of a convention that is not the first."""
    return [{c: word} for c, words in operator.conventions.items() for word in words if word != operator.words[c]]


def _score(
    candidate: Candidate,
    subject: AdapterSubject,
    words: Mapping[str, str],
    option: str,
    cases: int,
    wrong: int = WRONG,
) -> Score:
    operator, bench = subject.mechanism.stating, _bench(subject, words)
    claimed = subject.claims.grade(DTYPE)
    held = tried = 0
    says = ""
    for sample in _samples(subject, option):
        trial = Trial(bench, sample)
        grades = looser(DTYPE, claimed) if cases == CASES else (claimed,)
        outcome = judged(trial, definition_law(operator), grades, weighed=False)
        if outcome.kind is Kind.VACUOUS:  # of many steps, such as a model, a looser precision says nothing
            outcome = judged(trial, definition_law(operator), (claimed,), weighed=False)
        if outcome.fault is not None:
            says = says or outcome.fault.says.removeprefix("MappingError: ")
        if outcome.kind not in (Kind.HELD, Kind.REFUTED, Kind.FAULTED):
            continue
        tried, held = tried + 1, held + (outcome.kind is Kind.HELD)
        if tried - held >= wrong or tried >= cases:
            break
    return Score(candidate, words, held, tried, says)


def _samples(subject: AdapterSubject, option: str) -> Iterator[Sample]:
    """Cases, among them those alone in which an option is given."""
    operator = subject.mechanism.stating
    default = operator.defaults.get(option)
    for sample in plan(operator, subject.claims, PROFILES["quick"], 0, DTYPE).one_by_one():
        if not option or not np.array_equal(np.asarray(sample.values[option], object), np.asarray(default, object)):
            yield sample


def recognised(kind: Class, nearest: Score, scores: Sequence[Score]) -> tuple[Score, bool]:
    """The mapping by which a class is judged that is right under none, and whether it computes its operator at all.

    It is the nearest, if that is right in many cases, or in none as it returns something else in each call, or one
    under which all cases are wrong as a known mistake is.
    """
    others = [score.candidate for score in scores if score.candidate is not nearest.candidate]
    with _subjects(kind, [nearest.candidate, *others]) as subjects:
        for candidate, subject in subjects:
            with subject.session():
                if candidate is nearest.candidate:
                    if _wavers(subject, nearest.words):
                        return nearest, True
                    whole = _score(candidate, subject, nearest.words, "", ALL, ALL)
                    if whole.share > OFTEN:
                        return whole, True
                for words in (nearest.words, *_others(subject.mechanism.stating)):
                    if _mistaken(subject, words):
                        return replace(nearest, candidate=candidate, words=words), True
    return nearest, False


def mistaken(kind: Class, tried: Sequence[Score], option: str) -> Score | None:
    """The first of some candidates of which all cases that give an option are wrong as a known mistake is."""
    with _subjects(kind, [score.candidate for score in tried]) as subjects:
        for score, (_, subject) in zip(tried, subjects, strict=True):
            with subject.session():
                for words in (score.words, *_others(subject.mechanism.stating)):
                    if _mistaken(subject, words, option):
                        return replace(score, words=words)
    return None


def _wavers(subject: AdapterSubject, words: Mapping[str, str]) -> bool:
    """Whether two calls of one case differ by far, as where something is dropped at random."""
    bench, output = _bench(subject, words), next(iter(subject.mechanism.stating.outputs))
    for sample in itertools.islice(_samples(subject, ""), CASES):
        try:
            first, second = (
                np.asarray(t.observed(output, t.base)) for t in (Trial(bench, sample), Trial(bench, sample))
            )
        except (Declined, Faulted):
            return False
        if not np.allclose(first, second, NEAR, NEAR * np.abs(first).max(initial=0), equal_nan=True):
            return True
    return False


def _bench(subject: AdapterSubject, words: Mapping[str, str]) -> Bench:
    stating = subject.mechanism.stating
    return Bench(subject, stating, DTYPE, "cpu", {**stating.words, **words})


def _mistaken(subject: AdapterSubject, words: Mapping[str, str], option: str = "") -> bool:
    """Whether all first outputs are those of one known mistake, and not all those of the definition.

    Of an option, only the cases that give it are looked at.
    """
    stating, bench = subject.mechanism.stating, _bench(subject, words)
    output, left, wrong = next(iter(stating.outputs)), [*stating.mistakes.values()], False
    for sample in itertools.islice(_samples(subject, option), CASES):
        trial = Trial(bench, sample)
        try:
            y = trial.observed(output, trial.base)
        except (Declined, Faulted):
            return False
        values = {**trial.base.values, **bench.words}
        left = [one for one in left if _near(y, stating, values, one.change, output)]
        wrong = wrong or not _near(y, stating, values, {}, output)
    return wrong and bool(left)


def _near(y: NDArray[Any], mechanism: Mechanism, values: Mapping[str, Any], change: Assignments, output: str) -> bool:
    """Whether an output is that of the definition with a change, or NaN and infinite where that is."""
    try:
        with np.errstate(all="ignore"), budget.metered():
            x = np.asarray(Frame(mechanism, values, changes=change).outputs()[output])
    except (Error, ArithmeticError, ValueError):
        return False
    return x.shape == y.shape and np.allclose(
        x, y, NEAR, NEAR * np.abs(x).max(initial=0, where=np.isfinite(x)), equal_nan=True
    )


def head(importing: str, texts: Sequence[str]) -> str:
    """The imports of a file of such declarations, among them that of their class."""
    namespace = "from types import SimpleNamespace\n\n" if any("SimpleNamespace(" in text for text in texts) else ""
    flax = "from flax import nnx\n" if any("nnx." in text for text in texts) else ""
    own = list(dict.fromkeys(one for text in texts for one in helpers(text)))
    torch = "import torch\n" if own else ""
    return "\n\n".join([f"{namespace}{importing}\n{torch}{flax}\nimport attnspec", *own])
