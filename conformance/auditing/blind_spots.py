"""The known mistakes that a check of one implementation could not notice, and why.

Each mistake is put in the place of the implementation: within its claims and limits, on the cases of a run that the
implementation itself answers, under the conventions that it follows. What passes there as correct would pass in it.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ..cases.applicability import undeclared
from ..cases.plans import beyond_limits, directed, plan
from ..cases.profiles import PROFILES, Profile
from ..cases.samples import Sample
from ..data.texts import told
from ..judging.bench import Bench
from ..judging.cells import Request
from ..judging.conventions import identified, words_of
from ..judging.engine import run
from ..judging.settling import Declined
from ..judging.trial import Faulted, Trial
from ..mechanisms.evidence import DTYPES, Evidence, evidence_of
from ..mechanisms.mechanism import Mechanism, Mistake
from ..subjects.stand_ins import DefinitionSubject
from ..subjects.subject import Subject


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run could notice of the mistakes of one mechanism in one dtype."""

    mechanism: str
    dtype: str
    known: int
    blind: Mapping[str, str]
    """The mistakes that it could not have noticed, each with the reason."""


def seen(
    subject: Subject, mechanism: Mechanism, dtype: str, device: str = "cpu", *, mistakes: Collection[str] = ()
) -> Seen:
    """What a quick run could notice of the mistakes of a mechanism, or of those that are named."""
    asked = [mistake for name, mistake in mechanism.mistakes.items() if name in mistakes or not mistakes]
    with warnings.catch_warnings(), subject.session():
        warnings.simplefilter("ignore")
        return _Place(subject, mechanism, dtype, PROFILES["quick"], device).seen(asked)


class _Place:
    """The place of one subject on one mechanism, in which a mistake is to be noticed."""

    def __init__(self, subject: Subject, mechanism: Mechanism, dtype: str, profile: Profile, device: str) -> None:
        self.subject, self.m, self.dtype, self.profile, self.device = subject, mechanism, dtype, profile, device
        self.refusal = undeclared(mechanism, subject.claims)

    @cached_property
    def claimed(self) -> set[str]:
        """The scenarios that the subject claims, whatever its limits are."""
        return {case.label for case in directed(self.m, self.subject.claims, 0)}

    @cached_property
    def limited(self) -> dict[str, list[str]]:
        """Those that lie beyond its limits, with these."""
        return beyond_limits(self.m, self.subject.claims, self.dtype)

    def seen(self, mistakes: Collection[Mistake]) -> Seen:
        if self.refusal is not None:
            blind = {mistake.name: self.refusal for mistake in mistakes}
            return Seen(self.m.name, self.dtype, len(mistakes), blind)
        found = identified(self.subject, self.m.stating, self.dtype, self.device)
        self.words = words_of(self.m, found)
        self.evidence = evidence_of(self.m) or Evidence("", {}, {})
        self.answered, self.refused = self.answers()
        blind = {x.name: self.why(x) for x in mistakes if not self.noticed(x, self.words)}
        return Seen(self.m.name, self.dtype, len(mistakes), blind)

    def answers(self) -> tuple[list[Sample], dict[str, str]]:
        """The cases of a run that the subject answers, and the others with what it says to them."""
        bench = Bench(self.subject, self.m, self.dtype, self.device, self.words)
        answered, refused = [], {}
        for block in plan(self.m, self.subject.claims, self.profile, 0, self.dtype).blocks():
            for sample in block:
                trial = Trial(bench, sample)
                try:
                    trial.reply(trial.base)
                except (Declined, Faulted) as answer:
                    refused[sample.case.label] = told(answer)
                else:
                    answered.append(sample)
        return answered, refused

    def noticed(self, mistake: Mistake, words: Mapping[str, str]) -> bool:
        """Whether a subject with this mistake is violated; the cases come first that are known to show it."""
        wrong = DefinitionSubject(self.m, mistake.name, mistake.change, conventions=words, dtypes=(self.dtype,))
        wrong.claims = replace(self.subject.claims, dtypes=(self.dtype,), conventions=wrong.words, grades={})
        telling = self.evidence.telling(mistake.name, self.dtype)
        first = [sample for sample in self.answered if sample.case.label in telling]
        for only, laws in ((first, frozenset({"definition"})), (self.answered, None)):
            request = Request(wrong, self.m, self.dtype, self.profile, laws=laws, only=only, first=True)
            if only and any(cell.bad and cell.level == "must" for cell in run(request).cells):
                return True
        return False

    def why(self, mistake: Mistake) -> str:
        """What keeps a mistake from being noticed."""
        telling = self.evidence.telling(mistake.name, self.dtype)
        for name, word in self.words.items():
            if word != self.m.words[name] and self.noticed(mistake, {**self.words, name: self.m.words[name]}):
                return f"does not show where {name} = {word}"
        if not telling:
            return "no scenario is known to show it"
        claimed = telling & self.claimed
        if not claimed:
            return self.unclaimed(telling)
        refused = [self.refused[label] for label in telling if label in self.refused]
        if refused:
            return f"the cases that show it are refused: {refused[0]}"
        if claimed <= set(self.limited):
            names = dict.fromkeys(name for label in self.limited if label in telling for name in self.limited[label])
            return f"beyond the limits of {' and '.join(names)}"
        if not self.evidence.shown_in(mistake.name, self.dtype):
            return f"within the rounding of {self.dtype}"
        return f"shows on none of the {len(self.answered)} cases that are answered"

    def unclaimed(self, telling: set[str]) -> str:
        """The options and inputs that all cases need that show a mistake, and that the subject does not take."""
        claims = self.subject.claims
        taken = claims.names - set(claims.fixed)
        settings = [{name for name in self.assigned(label) if name not in taken} for label in telling]
        optional = {*self.m.optional, *self.m.options}
        common = [name for name in (*self.m.optional, *self.m.options) if all(name in s & optional for s in settings)]
        missing = common or sorted({name for s in settings for name in s & optional})[:1]
        fixed = [f"{name} = {claims.fixed[name]}" for name in missing if name in claims.fixed]
        return f"takes {fixed[0]} only" if fixed else f"does not take {' or '.join(missing)}"

    def assigned(self, label: str) -> set[str]:
        name = label.partition("[")[0]
        setting, example = self.m.scenarios.get(name), self.m.examples.get(name)
        return {*(setting.assigned if setting else ()), *(example.given if example else ())}


def page(subject: Subject, found: Sequence[Seen]) -> Iterator[str]:
    """The lines of 'attnspec audit --for' for one subject."""
    for mechanism in dict.fromkeys(one.mechanism for one in found):
        own = [one for one in found if one.mechanism == mechanism]
        known, blind = own[0].known, dict[str, dict[str, list[str]]]()
        for one in own:
            for mistake, why in one.blind.items():
                blind.setdefault(why, {}).setdefault(mistake, []).append(one.dtype)
        ever = {mistake for one in own for mistake in one.blind}
        yield f"{subject.name}   {mechanism}   {known - len(ever)} of {known} known mistakes would be detected"
        for why, mistakes in sorted(blind.items(), key=lambda item: -len(item[1])):
            everything = len(mistakes) == known and all(len(dtypes) == len(own) for dtypes in mistakes.values())
            yield f"    {why}: all of them" if everything else f"    {why}:"
            for mistake, dtypes in () if everything else mistakes.items():
                where = "" if len(dtypes) == len(own) else f" in {' and '.join(sorted(dtypes, key=DTYPES.index))}"
                yield f"        {mistake}{where}   {subject.mechanism.beside(mechanism).mistakes[mistake].says}"
