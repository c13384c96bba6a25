"""The declaration of a class with weights: a mapping proposed from names and shapes, and tested on calls."""

from __future__ import annotations

import itertools
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..cases.plans import plan
from ..cases.profiles import PROFILES
from ..cases.samples import Sample
from ..errors import UsageError
from ..execution.survey import Survey
from ..judging.bench import Bench
from ..judging.judge import Kind, definition_law, judged
from ..judging.trial import Trial
from ..numerics.grades import looser
from ..runs.groups import library_of, supervisor_of
from ..runs.options import Options
from ..subjects.handed import helpers
from ..subjects.kinds import KINDS
from ..subjects.proposals import Candidate, candidates, extensions, guessed_by_order, roles
from ..subjects.subject import AdapterSubject
from ..subjects.targets import resolve

CASES, ALL = 8, 64
"""Cases on which a candidate is tried, and those on which candidates are that are right in all of them."""
WRONG = 2
"""Cases that are wrong after which it is not tried further."""
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


def declaration(path: Path, name: str, operator: str | None) -> tuple[str, list[str]]:
    """The declaration of a class of a file, and what is to be said of it."""
    operator = operator or operator_of(name)
    supervised = supervisor_of(Options())
    if supervised is None:
        raise UsageError("a class is built in a worker process, which this system does not have")
    survey = supervised.surveyed(path, name, roles(operator))
    found = candidates(operator, survey)
    scores = _scored(path, found)
    for says, place in SEVERAL.items():
        if any(score.says.startswith(says) for score in scores):
            scores = _scored(path, [replace(one, returns=place or repr(output_of(operator))) for one in found])
    if not any(score.holds for score in scores):
        changed = _scored(path, [max(scores, key=_share).candidate], changed=True)
        words = next((score.words for score in changed if score.holds), {})
        scores = [*scores, *changed] if not words else _scored(path, [score.candidate for score in scores], words=words)
    holding = _parted(path, [score for score in scores if score.holds])
    best = holding[0] if holding else _nearest(path, scores)
    doubts = _doubts(best, holding, len(found))
    if guessed_by_order(operator, survey):
        doubts.append("the names of parameters say nothing: their order is assumed to be queries, keys, values, output")
    best, left = _extended(path, best, survey) if holding else (best, [])
    count = len(best.candidate.weights)
    several = f"{count} weight{'s' * (count != 1)}"
    says = f"{name} is treated as {operator}: {several}, right in {best.held} of {best.tried} cases"
    text = _written(best, name, [*(f"uncertain: {doubt}" for doubt in doubts), *left])
    return text, [says, *(f"{name} is uncertain: {doubt}" for doubt in doubts), *(f"{name}: {one}" for one in left)]


def operator_of(name: str) -> str:
    """The operator that the name of a class says."""
    low = name.lower().replace("_", "")
    for operator in KINDS:
        if any(word in low for word in (operator.replace("_", ""), *NAMES[operator])):
            return operator
    raise UsageError(
        f"the name {name!r} does not say which operator it is; add --operator (with weights: {', '.join(KINDS)})"
    )


def _share(score: Score) -> float:
    return score.held / max(score.tried, 1)


def _parted(path: Path, holding: list[Score]) -> list[Score]:
    """Those that hold; where they differ in what is fixed, such as an epsilon, those that hold of all cases."""
    told = {tuple(score.candidate.fixed.items()) for score in holding}
    if len(told) < 2:
        return holding
    further = _scored(path, [score.candidate for score in holding], words=holding[0].words, cases=ALL)
    return [one for one in further if one.holds] or holding


def _nearest(path: Path, scores: Sequence[Score]) -> Score:
    """Where none holds, the one that is right in most cases; what may be fixed, such as an epsilon, by all cases."""
    best = max(scores, key=_share)
    alike = {str(s.candidate.fixed): s.candidate for s in scores if s.candidate.weights == best.candidate.weights}
    if len(alike) < 2:
        return best
    return max(_scored(path, [*alike.values()], words=best.words, cases=ALL), key=_share)


def output_of(operator: str) -> str:
    """The name of the first output of an operator."""
    return next(iter(library_of(Options())[operator].outputs))


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


def _extended(path: Path, best: Score, survey: Survey) -> tuple[Score, list[str]]:
    """The best with those masks and flags that its call takes as the operator has them, and what is left out."""
    left = []
    for name, wider in extensions(best.candidate, survey):
        merged = replace(
            best.candidate,
            options={**best.candidate.options, **wider.options},
            keywords={key: x for key, x in best.candidate.keywords.items() if key != name},
        )
        option = next(key for key, x in wider.options.items() if x == f'"{name}"')
        found = _scored(path, [merged], option=option, changed=True)
        score = max(found, key=_share)
        if score.holds:
            words = {**best.words, **{c: w for c, w in score.words.items() if score is not found[0]}}
            best = replace(best, candidate=merged, words=words)
        else:
            left.append(f"{name} is left out: passed as {option}, it is right in {score.held} of {score.tried} cases")
    return best, left


# Trying


def _scored(
    path: Path,
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
    options = Options()
    with tempfile.TemporaryDirectory(prefix="attnspec-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = Path(folder, f"{path.stem}_candidates.py")
        texts = [candidate.text(f"candidate_{at}") for at, candidate in enumerate(found)]
        start = f"import sys\n\nsys.path.insert(0, {str(path.resolve().parent)!r})\n"
        file.write_text("\n\n".join([start + head(path.stem, texts), *texts]) + "\n", "utf-8")
        subjects = resolve(str(file), supervisor=supervisor_of(options), known=library_of(options))
        return [
            score
            for candidate, subject in zip(found, subjects, strict=True)
            if isinstance(subject, AdapterSubject)
            for score in _scores(candidate, subject, option, words or {}, changed, cases)
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


def _score(candidate: Candidate, subject: AdapterSubject, words: Mapping[str, str], option: str, cases: int) -> Score:
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
        if tried - held >= WRONG or tried >= cases:
            break
    return Score(candidate, words, held, tried, says)


def _samples(subject: AdapterSubject, option: str) -> Iterator[Sample]:
    """Cases, among them those alone in which an option is given."""
    operator = subject.mechanism.stating
    default = operator.defaults.get(option)
    for sample in plan(operator, subject.claims, PROFILES["quick"], 0, DTYPE).one_by_one():
        if not option or not np.array_equal(np.asarray(sample.values[option], object), np.asarray(default, object)):
            yield sample


# Writing


def head(module: str, texts: Sequence[str]) -> str:
    """The imports of a file of such declarations."""
    namespace = "from types import SimpleNamespace\n\n" if any("SimpleNamespace(" in text for text in texts) else ""
    flax = "from flax import nnx\n" if any("nnx." in text for text in texts) else ""
    own = list(dict.fromkeys(one for text in texts for one in helpers(text)))
    torch = "import torch\n" if own else ""
    return "\n\n".join([f"{namespace}import {module}\n{torch}{flax}\nimport attnspec", *own])


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
