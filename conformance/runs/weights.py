"""The declaration of a class with weights: a mapping proposed from names and shapes, and tested on calls."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from ..errors import Error, TargetError, UsageError
from ..execution.supervisor import Supervisor
from ..execution.survey import Survey
from ..mechanisms.library import Library
from ..subjects.kinds import KINDS
from ..subjects.masks import contrary, extensions, further, option_of, said, without_empty_rows
from ..subjects.plainness import is_plain
from ..subjects.proposals import candidates, guessed_by_order
from .mappings import ALL, OFTEN, Class, Score, mistaken, recognised, scored

SEVERAL = {"the module returned ": "0", "returned an output ": ""}
"""What a fault says where a class returns more than its output, and where that is; by name where nothing is said."""
NAMES = {
    "multi_head": ("attention", "mha", "gqa", "mqa", "attn"),
    "rotary_self_attention": (),
    "swiglu": ("swiglu", "feedforward", "mlp", "ffn"),
    "feed_forward": ("geglu", "reglu"),
    "rms_norm": ("rmsnorm",),
    "layer_norm": ("layernorm",),
    "transformer_block": ("block", "decoderlayer", "transformerlayer"),
    "decoder": ("transformer", "gpt", "llama", "languagemodel", "causallm"),
}
"""What the names of classes say."""
WORDED = 8
"""The best candidates that are tried under other words of conventions where none is right."""
ALONE = ("rmsnorm", "swiglu")
"""Names that mean one thing alone, so that what has one is wrong if it computes another."""
EXACT = {"multi_head": ("head",)}
"""Names that say it by themselves alone."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """A class with the mapping of its weights that agrees best with its operator."""

    name: str
    score: Score
    doubts: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """What its call takes beside, and why it is left out."""
    recognised: bool = True
    """Whether it computes its operator: it is right in many cases, wrong in all as a known mistake is, or speaks of
    nothing else.

    One that does none of these may compute something else, such as attention with positions of its own.
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
        best = sorted(scores, key=lambda score: -score.share)[:WORDED]
        changed = scored(kind, [score.candidate for score in best], changed=True)
        words = next((score.words for score in changed if score.holds), {})
        scores = [*scores, *changed] if not words else scored(kind, [score.candidate for score in scores], words=words)
    holding = [score for score in scores if score.holds]
    holding = _parted(kind, [score for score in holding if score.candidate.call == holding[0].candidate.call])
    best, known = (holding[0], True) if holding else recognised(kind, _nearest(kind, scores), scores)
    doubts = _doubts(best, holding, len(found))
    if guessed_by_order(kind.operator, survey):
        doubts.append("the names of parameters say nothing: their order is assumed to be queries, keys, values, output")
    best, left = _extended(kind, best, survey) if holding else (best, [])
    return Mapped(kind.name, best, tuple(doubts), tuple(left), known)


def likeliest(
    path: Path,
    name: str,
    supervised: Supervisor,
    known: Library,
    operators: Sequence[str],
    surveys: Mapping[str, Survey] = MappingProxyType({}),
) -> tuple[Class, Mapped]:
    """A class with its mapping: of some operators, that with which it agrees best; `surveys` are those that are known.

    Where it is none of them, the error is that of the last, which asks for least.
    """
    found, errors = list[tuple[Class, Mapped]](), list[Error]()
    for each in operators:
        kind = Class(path, name, each, supervised, known)
        try:
            found.append((kind, mapped(kind, surveys.get(each) or kind.survey())))
        except (TargetError, UsageError) as error:
            errors.append(error)
            continue
        if found[-1][1].score.holds:
            return found[-1]
    if not found:
        raise errors[-1]
    if best := next((one for one in found if one[1].recognised), None):
        return best
    told = [one for one in found if is_plain(path, name, one[0].operator)]
    kind, nearest = (told or found)[0]
    return kind, replace(nearest, recognised=bool(told) or name.lower().replace("_", "") in ALONE)


WIDER = {"multi_head": ("rotary_self_attention",), "swiglu": ("feed_forward",)}
"""What else a name may mean: attention with rotary positions, and a feed-forward with biases or another function."""


def operators_of(name: str) -> list[str]:
    """The operators that the name of a class may mean, the plainest first."""
    first = operator_of(name)
    return [first, *WIDER.get(first, ())]


def operator_of(name: str) -> str:
    """The operator that the name of a class says."""
    low = name.lower().replace("_", "")
    for operator in KINDS:
        if low in EXACT.get(operator, ()) or any(word in low for word in (operator.replace("_", ""), *NAMES[operator])):
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
    """The best with those masks and flags that its call takes, and what of them is left out.

    One that is wrong by all forms that it may have is passed if all cases are those of a known mistake.
    """
    left = []
    for name in further(best.candidate, survey):
        option = option_of(name)
        if best.candidate.call or option in best.candidate.options:
            left.append(f"{name} is left out: another {option} is passed")
            continue
        tried = _tried(kind, best, name)
        known = tried[-1] if tried[-1].holds else mistaken(kind, tried, option) or _contrary(kind, best, name)
        if known is None:
            score = _best(tried)
            fares = f"it is right in {score.held} of {score.tried} cases" if score.tried else "no case has it"
            left.append(f"{name} is left out: passed as {option}, {fares}")
            continue
        best = replace(best, candidate=known.candidate, words={**best.words, **known.words})
        left += [f"{name} is {form}" for form in filter(None, [said(known.candidate, name)])]
    return best, left


def _tried(kind: Class, best: Score, name: str) -> list[Score]:
    """How the forms of a parameter fare, up to the first by which it is right; if none is, without empty rows, too."""
    option, tried = option_of(name), list[Score]()
    for wider in extensions(best.candidate, name):
        tried.append(_best(scored(kind, [wider], option=option, words=best.words, changed=True)))
        if tried[-1].holds:
            return tried
    nearest = _best(tried)
    if option == "mask" and nearest.share > OFTEN:
        tried += scored(kind, [without_empty_rows(nearest.candidate)], option=option, words=best.words)
    return tried


def _contrary(kind: Class, best: Score, name: str) -> Score | None:
    """The best with a mask that it reads the wrong way, passed as its name says; None where it does not."""
    for meant, opposite in contrary(best.candidate, name):
        if any(score.holds for score in scored(kind, [opposite], option="mask", words=best.words, changed=True)):
            return replace(best, candidate=meant)
    return None


# Writing


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
