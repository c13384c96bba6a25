"""The declaration of a class with weights: a mapping proposed from names and shapes, and tested on calls."""

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
from ..errors import Error, UsageError
from ..execution.dotted import named
from ..execution.supervisor import Supervisor
from ..execution.survey import Survey
from ..judging.bench import Bench
from ..judging.judge import Kind, definition_law, judged
from ..judging.trial import Declined, Faulted, Trial
from ..mechanisms.definition import Frame
from ..mechanisms.library import Library
from ..mechanisms.mechanism import Mechanism, Mistake
from ..numerics import budget
from ..numerics.grades import looser
from ..subjects.handed import helpers
from ..subjects.kinds import KINDS
from ..subjects.proposals import Candidate, candidates, extensions, guessed_by_order, roles
from ..subjects.subject import AdapterSubject
from ..subjects.targets import resolve

CASES, ALL = 8, 64
"""Cases on which a candidate is tried, and those on which candidates are that are right in all of them."""
WRONG = 2
"""Cases that are wrong after which it is not tried further."""
OFTEN = 0.25
"""The share of cases beyond which one that is right in them computes its operator, and is wrong in the others."""
NEAR = 1e-3
"""How near outputs come to a known mistake, as a share of the largest: far beyond what rounding leaves."""
DTYPE = "float32"
SEVERAL = {"the module returned ": "0", "returned an output ": ""}
"""What a fault says where a class returns more than its output, and where that is; by name where nothing is said."""
NAMES = {
    "multi_head": ("attention", "mha", "gqa", "mqa", "attn"),
    "swiglu": ("swiglu", "feedforward", "mlp", "ffn"),
    "rms_norm": ("rmsnorm",),
    "layer_norm": ("layernorm",),
    "transformer_block": ("block", "decoderlayer", "transformerlayer"),
    "decoder": ("transformer", "gpt", "llama", "languagemodel", "causallm"),
}
"""What the names of classes say."""


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


@dataclass(frozen=True, slots=True)
class Mapped:
    """A class with the mapping of its weights that agrees best with its operator."""

    name: str
    score: Score
    doubts: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """What its call takes beside, and why it is left out."""
    recognised: bool = True
    """Whether it computes its operator: it is right in many cases, or wrong in all as a known mistake is.

    One that does neither may compute something else, such as attention with positions of its own.
    """

    @property
    def says(self) -> str:
        """What it is taken for, and how often that is right."""
        best, count = self.score, len(self.score.candidate.weights)
        several = f"{count} weight{'s' * (count != 1)}"
        operator = best.candidate.operator
        return f"{self.name} is treated as {operator}: {several}, right in {best.held} of {best.tried} cases"

    def text(self, variable: str) -> str:
        """Its declaration, with what is doubtful as remarks."""
        return _written(self.score, variable, [*(f"uncertain: {doubt}" for doubt in self.doubts), *self.left])


def mapped(kind: Class, survey: Survey) -> Mapped:
    """The mapping of a class; a `UsageError` where its parameters are not those of the operator."""
    found = candidates(kind.operator, survey)
    scores = scored(kind, found)
    for says, place in SEVERAL.items():
        if any(score.says.startswith(says) for score in scores):
            scores = scored(kind, [replace(one, returns=place or repr(kind.output)) for one in found])
    if not any(score.holds for score in scores):
        changed = scored(kind, [_best(scores).candidate], changed=True)
        words = next((score.words for score in changed if score.holds), {})
        scores = [*scores, *changed] if not words else scored(kind, [score.candidate for score in scores], words=words)
    holding = _parted(kind, [score for score in scores if score.holds])
    best, recognised = (holding[0], True) if holding else _recognised(kind, _nearest(kind, scores), scores)
    doubts = _doubts(best, holding, len(found))
    if guessed_by_order(kind.operator, survey):
        doubts.append("the names of parameters say nothing: their order is assumed to be queries, keys, values, output")
    best, left = _extended(kind, best, survey) if holding else (best, [])
    return Mapped(kind.name, best, tuple(doubts), tuple(left), recognised)


def operator_of(name: str) -> str:
    """The operator that the name of a class says."""
    low = name.lower().replace("_", "")
    for operator in KINDS:
        if any(word in low for word in (operator.replace("_", ""), *NAMES[operator])):
            return operator
    raise UsageError(
        f"the name {name!r} does not say which operator it is; add --operator (with weights: {', '.join(KINDS)})"
    )


def _best(scores: Sequence[Score]) -> Score:
    return max(scores, key=lambda score: score.share)


def _parted(kind: Class, holding: list[Score]) -> list[Score]:
    """Those that hold; where they differ in what is fixed, such as an epsilon, those that hold of all cases."""
    told = {tuple(score.candidate.fixed.items()) for score in holding}
    if len(told) < 2:
        return holding
    further = scored(kind, [score.candidate for score in holding], words=holding[0].words, cases=ALL)
    return [one for one in further if one.holds] or holding


def _nearest(kind: Class, scores: Sequence[Score]) -> Score:
    """Where none holds, the one that is right in most cases; what may be fixed, such as an epsilon, by all cases."""
    best = _best(scores)
    alike = {str(s.candidate.fixed): s.candidate for s in scores if s.candidate.weights == best.candidate.weights}
    if len(alike) < 2:
        return best
    return _best(scored(kind, [*alike.values()], words=best.words, cases=ALL))


def _doubts(best: Score, holding: Sequence[Score], count: int) -> list[str]:
    if not holding:
        says = f" ({best.says})" if best.says else ": attnspec check shows where it is wrong"
        several = f"none of {count} mappings agrees" if count > 1 else "the mapping does not agree"
        return [f"{several} with the definition; this one is right in {best.held} of {best.tried} cases{says}"]
    others = [one for one in holding[1:] if one.candidate.weights != best.candidate.weights]
    found = []
    for other in others[:1]:
        name = next(n for n, text in other.candidate.weights.items() if text != best.candidate.weights[n])
        found.append(
            f"{len(others) + 1} mappings agree with the definition; {name} may be {other.candidate.weights[name]!r}"
        )
    if any(one.candidate.fixed != best.candidate.fixed for one in holding if one not in others):
        found.append(f"the cases do not tell fixed={best.candidate.fixed} from others")
    return found


def _extended(kind: Class, best: Score, survey: Survey) -> tuple[Score, list[str]]:
    """The best with those masks and flags that its call takes as the operator has them, and what is left out."""
    left = []
    for name, wider in extensions(best.candidate, survey):
        merged = replace(
            best.candidate,
            options={**best.candidate.options, **wider.options},
            keywords={key: x for key, x in best.candidate.keywords.items() if key != name},
        )
        option = next(key for key, x in wider.options.items() if x == f'"{name}"')
        found = scored(kind, [merged], option=option, changed=True)
        score = _best(found)
        if score.holds:
            words = {**best.words, **{c: w for c, w in score.words.items() if score is not found[0]}}
            best = replace(best, candidate=merged, words=words)
        else:
            left.append(f"{name} is left out: passed as {option}, it is right in {score.held} of {score.tried} cases")
    return best, left


# Trying


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
    operator = subject.mechanism.stating
    others = [{c: word} for c, words in operator.conventions.items() for word in words if word != operator.words[c]]
    with subject.session():
        for words in (known, *(others if changed else ())):
            score = _score(candidate, subject, words, option, cases)
            yield score
            if score.holds:
                break


def _score(
    candidate: Candidate,
    subject: AdapterSubject,
    words: Mapping[str, str],
    option: str,
    cases: int,
    wrong: int = WRONG,
) -> Score:
    operator = subject.mechanism.stating
    bench = Bench(subject, operator, DTYPE, "cpu", {**operator.words, **words})
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


# Recognising


def _recognised(kind: Class, nearest: Score, scores: Sequence[Score]) -> tuple[Score, bool]:
    """The mapping by which a class is judged that is right under none, and whether it computes its operator at all.

    It is the nearest, if that is right in many cases, or one under which all cases are wrong as a known mistake is.
    """
    others = [score.candidate for score in scores if score.candidate is not nearest.candidate]
    with _subjects(kind, [nearest.candidate, *others]) as subjects:
        for candidate, subject in subjects:
            with subject.session():
                if candidate is nearest.candidate:
                    whole = _score(candidate, subject, nearest.words, "", ALL, ALL)
                    if whole.share > OFTEN:
                        return whole, True
                if _mistaken(subject, nearest.words):
                    return replace(nearest, candidate=candidate), True
    return nearest, False


def _mistaken(subject: AdapterSubject, words: Mapping[str, str]) -> bool:
    """Whether all first outputs are those of one known mistake."""
    stating = subject.mechanism.stating
    bench = Bench(subject, stating, DTYPE, "cpu", {**stating.words, **words})
    output, left = next(iter(stating.outputs)), [*stating.mistakes.values()]
    for sample in itertools.islice(_samples(subject, ""), CASES):
        trial = Trial(bench, sample)
        try:
            y = trial.observed(output, trial.base)
        except (Declined, Faulted):
            return False
        values = {**trial.base.values, **bench.words}
        left = [one for one in left if _near(y, stating, values, one, output)]
    return bool(left)


def _near(y: NDArray[Any], mechanism: Mechanism, values: Mapping[str, Any], mistake: Mistake, output: str) -> bool:
    """Whether an output is that of a mistake, or NaN and infinite where that is."""
    try:
        with np.errstate(all="ignore"), budget.metered():
            x = np.asarray(Frame(mechanism, values, changes=mistake.change).outputs()[output])
    except (Error, ArithmeticError, ValueError):
        return False
    return x.shape == y.shape and np.allclose(
        x, y, NEAR, NEAR * np.abs(x).max(initial=0, where=np.isfinite(x)), equal_nan=True
    )


# Writing


def head(importing: str, texts: Sequence[str]) -> str:
    """The imports of a file of such declarations, among them that of their class."""
    namespace = "from types import SimpleNamespace\n\n" if any("SimpleNamespace(" in text for text in texts) else ""
    flax = "from flax import nnx\n" if any("nnx." in text for text in texts) else ""
    own = list(dict.fromkeys(one for text in texts for one in helpers(text)))
    torch = "import torch\n" if own else ""
    return "\n\n".join([f"{namespace}{importing}\n{torch}{flax}\nimport attnspec", *own])


def _written(score: Score, name: str, remarks: Sequence[str]) -> str:
    text = score.candidate.text(snake(name), remarks)
    if score.words:
        words = ", ".join(f'"{c}": "{word}"' for c, word in score.words.items())
        text = text.removesuffix("\n)") + f"\n    conventions={{{words}}},\n)"
    return text


def snake(name: str) -> str:
    """The name of a class as one of a variable."""
    pairs = itertools.pairwise(f"{name} ")
    return "".join(f"{a}_" if a.islower() and b.isupper() else a for a, b in pairs).lower()
