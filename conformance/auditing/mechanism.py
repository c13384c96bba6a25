"""The audit of one mechanism: its references, mistakes, laws, conventions and rejects."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..cases.drawing import unkept
from ..cases.plans import Plan, plan
from ..cases.profiles import Profile
from ..cases.samples import Sample
from ..errors import SpecError
from ..judging.bench import Bench
from ..judging.cells import Request
from ..judging.engine import run
from ..judging.judge import Kind, definition_law, judged
from ..judging.trial import Trial
from ..judging.verdicts import LAW_ENTRIES
from ..mechanisms.definition import Frame
from ..mechanisms.evidence import derived
from ..mechanisms.mechanism import Law, Mechanism, Mistake
from ..mechanisms.references import answered, has_reference
from ..numerics.grades import FP64
from ..numerics.numbers import Number, number
from ..subjects.stand_ins import DefinitionSubject, Unchanged, identical
from .mutation import RIGHT, Checks, Kill, kills
from .parts import Part
from .strays import strays

SHOWN = 4
"""Cases on which a mistake shows most that are tried before all others."""
DTYPES = ("float32", "bfloat16", "float16")
THOROUGH = 8
"""Cases that a law gets to refute a mistake on which has refuted none yet."""
CASES = Profile("audit", covering=10, draws=8, admitted=2)


def audited_mechanism(mechanism: Mechanism) -> Part:
    """The audit of one mechanism."""
    with warnings.catch_warnings(), unkept():
        warnings.simplefilter("ignore")
        audit = _Audit(mechanism)  # whose samples are kept for as long as it is there
        return audit.part()


def variants(mechanism: Mechanism) -> Iterator[dict[str, str]]:
    """The words of all conventions: the first ones, and then every other word by itself."""
    yield mechanism.words
    for convention, words in mechanism.conventions.items():
        for word in list(words)[1:]:
            yield {**mechanism.words, convention: word}


class _Audit:
    """The audit of one mechanism."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.m = mechanism
        self.laws: list[Law] = [definition_law(mechanism), *mechanism.laws.values()]
        self.part_ = Part(mechanism.name, laws=tuple(law.name for law in self.laws))
        claims = self.subject(None).claims
        self.plan = Plan(mechanism, claims, CASES, 0, "float64")
        self.seconds: dict[str, float] = {}
        """CPU time of the definition on each scenario."""
        self.cores: dict[str, list[str]] = {}
        """The scenarios that a smoke test rests on, by dtype, as the evidence stands."""

        self.checks = Checks()
        self.claimed: dict[tuple[str, ...], dict[str, Sample]] = {}
        """The scenarios of a run, by dtype and words: each mistake finds what others have computed from them."""
        self.unchanged: dict[tuple[str, ...], Unchanged] = {}
        """The definition on the last calls, by dtype and words."""

        self.witnessed = has_reference(mechanism)
        """Whether there is a reference; the operator of a further folder may have none but its definition."""

    def part(self) -> Part:
        if not self.witnessed:
            self.part_.notes.append("no reference: pass a file that has one with --reference FILE")
        self.examples()
        self.witnesses()
        self.mistakes()
        self.kept()
        self.conventions()
        self.rejects()
        return self.part_

    def fault(self, text: str) -> None:
        self.part_.faults.append(text)

    def subject(
        self, mistake: Mistake | None, words: Mapping[str, str] | None = None, **more: Any
    ) -> DefinitionSubject:
        name = "definition" if mistake is None else f"mistake:{self.m.address(mistake.name)}"
        return DefinitionSubject(self.m, name, mistake.change if mistake else None, conventions=words, **more)

    def samples(self, *, large: bool = False) -> list[Sample]:
        return [s for block in self.plan.blocks() for s in block if large or s.entries <= LAW_ENTRIES]

    # Two witnesses

    def examples(self) -> None:
        """The printed digits come out of the definition and of the reference."""
        for sample in self.plan.scenarios:
            example = self.m.examples.get(sample.case.scenario.removeprefix("example:"))
            if example is None or not sample.case.scenario.startswith("example:"):
                continue
            witnesses = {"definition": Frame(self.m, sample.values).outputs()}
            witnesses |= {"reference": self.reference(sample, {})} if self.witnessed else {}
            for witness, outputs in witnesses.items():
                for output, printed in example.gives.items():
                    given = np.asarray(outputs[output], float)
                    if given.shape != printed.value.shape or np.any(np.abs(given - printed.value) > printed.tolerance):
                        self.fault(f"example {example.name}: the {witness} gives {output} = {given.tolist()}")

    def reference(self, sample: Sample, words: Mapping[str, str]) -> dict[str, Any]:
        """The outputs of the reference; under words that it does not look at they are the same."""
        kept = sample.cache.get("reference", ())
        for asked, outputs in kept:
            if all(words.get(convention) == word for convention, word in asked.items()):
                return outputs
        every = {**self.m.words, **words}
        outputs, asked = answered(self.m, sample.values, every)
        known = {convention: every[convention] for convention in asked}
        sample.cache["reference"] = (*kept, (known, outputs))
        return outputs

    def witnesses(self) -> None:
        """Definition and reference agree on every case, under every word."""
        for words in variants(self.m):
            bench = self.bench(words)
            for sample in self.samples():
                started, trial = time.process_time(), Trial(bench, sample)
                if self.witnessed:
                    self.compare(trial, words)
                if words == self.m.words:
                    self.seconds[sample.case.label] = time.process_time() - started

    def bench(self, words: Mapping[str, str]) -> Bench:
        one = self.subject(None, words, rounding=False, unchanged=Unchanged())
        return Bench(one, self.m, "float64", "cpu", words)

    def compare(self, trial: Trial, words: Mapping[str, str]) -> None:
        sample, exact = trial.sample, self.bounded(trial, words)
        for name, other in self.reference(sample, words).items():
            if name in self.m.random or name not in self.m.outputs:
                continue
            known = exact[name] if isinstance(exact[name], Number) else Number(exact[name])
            twice = Number.within(known.value, 2 * np.asarray(known.radius) + 1e-300)
            if known.shape != np.shape(other) or (twice == np.asarray(other, float)).refuted:
                self.fault(f"definition and reference differ in {name} on {sample.case.label}, {_told(words, self.m)}")

    def bounded(self, trial: Trial, words: Mapping[str, str]) -> Mapping[str, Any]:
        """The outputs of the definition with their bounds; under words that it does not ask for they are the same."""
        kept = trial.sample.cache.get("bounded", ())
        for asked, outputs in kept:
            if all(words[convention] == word for convention, word in asked.items()):
                return outputs
        frame = trial.frames.on_case(FP64)
        outputs = frame.outputs()
        asked = {convention: words[convention] for convention in frame.turned_on if convention in words}
        trial.sample.cache["bounded"] = (*kept, (asked, outputs))
        return outputs

    # Mistakes

    def mistakes(self) -> None:
        found, wanted = self.kills(self.m.mistakes.values(), self.m.words, self.laws), self.m.words
        words = dict.fromkeys(found, wanted)
        for other in list(variants(self.m))[1:]:  # what survives may be wrong under another word only
            survivors = [mistake for mistake in self.m.mistakes.values() if not found[mistake.name].laws]
            if survivors:
                found |= self.kills(survivors, other, self.laws)
                words |= {mistake.name: other for mistake in survivors}
        self.part_.faults += strays(self.m, self.samples())
        self.evidence = derived(self.m, self.seconds_of_scenarios(), {name: k.errors for name, k in found.items()})
        for mistake in self.m.mistakes.values():
            kill = found[mistake.name]
            self.part_.kills[mistake.name] = kill.refutations
            if kill.laws:
                self.asked_of(mistake, words[mistake.name], kill)
            else:
                self.fault(f"the mutant of the mistake {mistake.name} survives")
        self.part_.evidence = self.evidence
        self.credits()

    def seconds_of_scenarios(self) -> dict[str, float]:
        """What the definition costs on each scenario; on the large ones, which were not timed, by their entries."""
        scenarios = {sample.case.label: sample for sample in self.plan.scenarios}
        timed = self.seconds.keys() & scenarios.keys()
        entries = sum(scenarios[label].entries for label in timed)
        rate = sum(self.seconds[label] for label in timed) / max(entries, 1)
        return {label: self.seconds.get(label, rate * sample.entries) for label, sample in scenarios.items()}

    def asked_of(self, mistake: Mistake, words: Mapping[str, str], kill: Kill) -> None:
        """What is asked of a mistake that some law refutes: the reference contradicts it, and every dtype shows it."""
        if self.witnessed and not self.noticed(mistake, words, kill.samples):
            self.fault(f"the reference does not notice {mistake.name} in the definition")
        for dtype in DTYPES:
            shared = self.unchanged.setdefault((dtype, *words.values()), Unchanged())
            wrong = self.subject(mistake, words, dtypes=(dtype,), unchanged=shared)
            if not self.violated(wrong, dtype, mistake, kill):
                self.fault(f"the mutant of the mistake {mistake.name} survives in {dtype}")

    def credits(self) -> None:
        """Every law refutes a mistake, under some words, or is a contract."""
        credited = {refutation.law for kill in self.part_.kills.values() for refutation in kill}
        idle = [law for law in self.laws[1:] if law.name not in credited and not law.contract]
        for words in variants(self.m):
            if not idle:
                return
            laws, mistakes = [self.laws[0], *idle], self.m.mistakes.values()
            for mistake, kill in kills(
                self.m, mistakes, words, laws, self.samples(), self.fault, self.checks, THOROUGH
            ).items():
                further = [r for r in kill.refutations if r.law in {law.name for law in idle}]
                self.part_.kills[mistake] += further
                idle = [law for law in idle if law.name not in {r.law for r in further}]
        for law in idle:
            self.fault(f"the law {law.name} refutes no mistake, and is not marked as a contract")

    def kills(self, mistakes: Collection[Mistake], words: Mapping[str, str], laws: Sequence[Law]) -> dict[str, Kill]:
        """What refutes each mistake on the scenarios.

        Other cases are for what survives these, and large ones, with the definition alone, for what survives all.
        """
        small = self.samples()
        found = {mistake.name: Kill() for mistake in mistakes}
        stages = [
            ([sample for sample in small if sample.case.scenario], laws),
            ([sample for sample in small if not sample.case.scenario], laws),
            ([sample for sample in self.samples(large=True) if sample.entries > LAW_ENTRIES], laws[:1]),
        ]
        for samples, asked in stages:
            left = [mistake for mistake in mistakes if not found[mistake.name].laws]
            if left and samples:
                found |= kills(self.m, left, words, asked, samples, self.fault, self.checks)
        return found

    def noticed(self, mistake: Mistake, words: Mapping[str, str], shown: Sequence[Sample]) -> bool:
        """Whether the reference contradicts a definition with the mistake in it; where it is wrong comes first.

        Of these cases the smallest come first, for references are slow on large ones.
        """
        others = (sample for sample in self.samples(large=True) if sample not in shown)
        for sample in itertools.chain(sorted(shown, key=lambda sample: sample.entries), others):
            try:
                wrong = Frame(self.m, {**sample.values, **words}, changes=mistake.change).outputs()
                right = self.reference(sample, words)
            except (SpecError, ValueError):  # what gives no result here is asked for elsewhere
                continue
            for name, output in wrong.items():
                x, expected = np.asarray(output, float), np.asarray(right[name], float)
                if x.shape != expected.shape:
                    return True
                scale = np.max(np.abs(np.where(np.isfinite(expected), expected, 0.0)), initial=0.0)
                with np.errstate(all="ignore"):
                    near = (x == expected) | (np.abs(x - expected) <= 1e-9 * scale)
                if not np.all(near | np.isnan(expected)):
                    return True
        return False

    def violated(self, wrong: DefinitionSubject, dtype: str, mistake: Mistake, kill: Kill) -> bool:
        """Whether the suite, run as users run it, finds a subject violated.

        Those scenarios come first that a smoke test rests on, and that tell the mistake; then those on which it shows
        most; then the laws that refute it, on all cases; and then any law.
        """
        profile = replace(CASES, covering=6, draws=4)
        scenarios = self.scenarios(wrong, dtype, profile)
        telling = self.evidence.telling(mistake.name, dtype)
        if dtype not in self.cores:
            self.cores[dtype] = self.evidence.core(scenarios, dtype)
        smoke = [scenarios[label] for label in self.cores[dtype] if label in telling]
        most = [scenarios[s.case.label] for s in kill.samples if s.case.label in scenarios][:SHOWN]
        first = ["definition" if kill.shown else kill.laws[0], "contract.precision"]
        for laws, only in ((first, smoke), (first, most), (kill.laws, None), (None, None)):
            if only == []:
                continue
            names = None if laws is None else frozenset(laws)
            result = run(Request(wrong, self.m, dtype, profile, laws=names, only=only or (), first=True))
            bad = next((cell for cell in result.cells if cell.bad and cell.level == "must"), None)
            if bad is not None:
                shown = bad.failure.found.case.label if bad.failure else ""
                if only is not smoke:
                    self.evidence = self.evidence.amended(mistake.name, dtype, {s.case.label for s in smoke}, shown)
                    self.cores.clear()
                return True
        return False

    def scenarios(self, wrong: DefinitionSubject, dtype: str, profile: Profile) -> dict[str, Sample]:
        """The scenarios of a run by their labels, which are the same for all mistakes under the same words."""
        key = (dtype, *wrong.words.values())
        if key not in self.claimed:
            found = plan(self.m, wrong.claims, profile, 0, dtype).scenarios
            self.claimed[key] = {sample.case.label: sample for sample in found}
        return self.claimed[key]

    # Laws

    def kept(self) -> None:
        """The definition keeps every law, under every word that tells on a case; and every law is reached."""
        reached: set[str] = set()
        for words in variants(self.m):
            bench, first = self.bench(words), words == self.m.words
            for sample in self.samples():
                tells = first or self.tells(words, sample)
                if not tells and sample.case.scenario == "" and len(reached) == len(self.laws):
                    continue
                trial = Trial(bench, sample)
                for law in self.laws:
                    if tells or law.name not in reached:
                        self.holds(trial, law, words, reached)
        for law in self.laws[self.m.undetermined :]:  # where nothing is determined, the definition is not a law
            if law.name not in reached:
                self.fault(f"no case reaches the law {law.name}")

    def tells(self, words: Mapping[str, str], sample: Sample) -> bool:
        """Whether the definition gives other outputs on a case under these words than under the first ones."""
        first, other = (Frame(self.m, {**sample.values, **own}).outputs() for own in (self.m.words, words))
        return any(not identical(x, other[name]) for name, x in first.items())

    def holds(self, trial: Trial, law: Law, words: Mapping[str, str], reached: set[str]) -> None:
        known = self.checks.get((trial.bench.words_key, trial.sample, law.name, RIGHT))
        if known is not None and known.kind is not Kind.REFUTED and known.kind is not Kind.FAULTED:
            reached.update([law.name] if known.kind is Kind.HELD else [])
            return
        try:
            outcome = judged(trial, law, [FP64])
        except SpecError as error:
            self.fault(f"{law.name} cannot be evaluated on {trial.sample.case.label}: {error}")
            reached.add(law.name)
            return
        if outcome.bad:
            where = f"{trial.sample.case.label}, {_told(words, self.m)}"
            self.fault(f"{law.name} is false of the definition itself on {where} {outcome.says}")
        if outcome.kind in (Kind.HELD, Kind.REFUTED):
            reached.add(law.name)

    # Conventions and rejects

    def conventions(self) -> None:
        """A subject that declares one word and follows another is found out, by this mechanism or by its kin."""
        if self.m.name != self.m.operator:
            return
        kin = self.m.kin
        for convention, words in self.m.conventions.items():
            for word in list(words)[1:]:
                if not any(self.found_out(m, convention, word) for m in kin) and not self.hair_apart(convention, word):
                    self.fault(
                        f"nothing refutes a subject that declares {convention} = {next(iter(words))} and follows {word}"
                    )

    def found_out(self, m: Mechanism, convention: str, word: str) -> bool:
        liar = DefinitionSubject(m, f"{convention} = {word}", conventions={convention: word}, dtypes=("float32",))
        liar.claims = replace(liar.claims, conventions=m.words)
        result = run(Request(liar, m, "float32", replace(CASES, covering=4, draws=0), first=True))
        return any(cell.bad and cell.level == "must" for cell in result.cells)

    def hair_apart(self, convention: str, word: str) -> bool:
        """Whether a word differs from the first one somewhere, but nowhere by more than rounding decides."""
        differ, other = False, {**self.m.words, convention: word}
        for sample in self.samples():
            x, y = (Frame(self.m, {**sample.values, **words}).outputs() for words in (self.m.words, other))
            bounded = Frame(self.m, {**sample.values, **other}, grade=FP64, dtype="float64").outputs()
            for name in x:
                if np.array_equal(x[name], y[name], equal_nan=True):
                    continue
                if (number(bounded[name], FP64) == x[name]).refuted:
                    return False
                differ = True
        return differ

    def rejects(self) -> None:
        """Every reject can be tried, and the definition refuses it."""
        result = run(
            Request(
                self.subject(None),
                self.m,
                "float32",
                replace(CASES, covering=0, draws=0),
                laws=frozenset(self.m.rejects),
            )
        )
        for cell in result.cells:
            if cell.verdict not in ("pass", "not_declared"):
                self.fault(f"the reject {cell.law}: {cell.verdict}, {cell.says}")


def _told(words: Mapping[str, str], mechanism: Mechanism) -> str:
    """What is not at its first word."""
    other = [f"{c} = {w}" for c, w in words.items() if mechanism.words[c] != w]
    return ", ".join(other) or "every convention at its first word"
