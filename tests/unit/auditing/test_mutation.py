"""Mistakes that are tried together: what they share changes nothing of what refutes them."""

import numpy as np
import pytest

from attnspec.auditing import mutation
from attnspec.auditing.mutation import RIGHT, Checks, kills
from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES, Profile
from attnspec.judging.bench import Bench
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.judging.judge import Kind, definition_law
from attnspec.judging.trial import Trial
from attnspec.mechanisms.definition import Frame, reached
from attnspec.mechanisms.loader import library
from attnspec.subjects.stand_ins import DefinitionSubject, Unchanged

FEW = Profile("few", covering=3, draws=0, admitted=2)


def samples_of(m, dtype="float64", **claims):
    return plan(m, DefinitionSubject(m, "definition", **claims).claims, FEW, 0, dtype).scenarios


def outputs(subject, trial):
    reply = subject.call(trial.call(trial.base))
    return reply.fault and reply.fault.says, {name: x.tobytes() for name, x in reply.outputs.items()}


@pytest.mark.parametrize("name", ["softmax", "swiglu", "quantize", "beam_search", "causal_mask"])
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_a_mistake_that_shares_what_it_leaves_unchanged_returns_the_same(name, dtype):
    m, shared = library()[name], Unchanged()
    for sample in samples_of(m, dtype):
        for mistake in m.mistakes.values():
            alone = DefinitionSubject(m, "alone", mistake.change)
            together = DefinitionSubject(m, "together", mistake.change, unchanged=shared)
            trial = Trial(Bench(alone, m, dtype, "cpu", m.words), sample)
            assert outputs(alone, trial) == outputs(together, trial)


def test_a_mistake_that_does_not_show_is_answered_with_the_reply_of_the_definition():
    m, shared = library()["attention"], Unchanged()
    right = DefinitionSubject(m, "right", unchanged=shared)
    wrong = DefinitionSubject(m, "wrong", m.mistakes["cap_after_mask"].change, unchanged=shared)
    plain, capped = (next(s for s in samples_of(m) if s.case.label == name) for name in ("plain", "capped_and_masked"))
    for sample, same in ((plain, True), (capped, False)):
        trial = Trial(Bench(right, m, "float64", "cpu", m.words), sample)
        call = trial.call(trial.base)
        assert same == (right.call(call) is wrong.call(call))


def test_no_more_calls_are_kept_than_there_is_room_for():
    m, shared = library()["softmax"], Unchanged(room=2)
    right = DefinitionSubject(m, "right", unchanged=shared)
    for sample in samples_of(m):
        trial = Trial(Bench(right, m, "float64", "cpu", m.words), sample)
        right.call(trial.call(trial.base))
    assert 2 == len(shared._kept)


def test_what_a_change_reaches_are_the_lines_that_read_it():
    m = library()["swiglu"]
    assert {"x", *m.definition} >= reached(m, {"x": None}) >= {"x", m.outputs[0]}
    last = m.outputs[0]
    assert {last} == reached(m, {last: None})
    assert set(library()["beam_search"].outputs) <= reached(library()["beam_search"], {"log_probs": None})


def test_lines_that_no_change_reaches_are_those_of_the_unchanged_definition():
    m = library()["swiglu"]
    sample = samples_of(m)[0]
    whole = Frame(m, sample.values)
    whole.outputs()
    part = Frame(m, {}, unchanged=whole, reached={m.outputs[0]})
    part.outputs()
    assert [m.outputs[0]] == [name for name, x in part.memo.items() if x is not whole.memo[name]]
    assert np.array_equal(whole[m.outputs[0]], part[m.outputs[0]])


@pytest.mark.parametrize("name", ["softmax", "causal_mask", "dropout"])
def test_one_mistake_alone_is_refuted_by_the_same_laws(name):
    m, said = library()[name], []
    laws, samples = [definition_law(m), *m.laws.values()], samples_of(m)[:12]
    together = kills(m, m.mistakes.values(), m.words, laws, samples, said.append, Checks())
    for mistake in list(m.mistakes.values())[:4]:
        alone = kills(m, [mistake], m.words, laws, samples, said.append, Checks())
        assert together[mistake.name].laws == alone[mistake.name].laws
    assert [] == said


@pytest.mark.parametrize("name", ["softmax", "causal_mask"])
def test_what_was_checked_is_not_tried_again_and_gives_the_same(name, monkeypatch):
    m, checks = library()[name], Checks()
    laws, samples = [definition_law(m), *m.laws.values()], samples_of(m)[:8]
    asked = (m, m.mistakes.values(), m.words, laws, samples, pytest.fail)
    before = kills(*asked, checks)
    monkeypatch.setattr(mutation, "judged", lambda *_, **__: pytest.fail("a law is tried again"))
    after = kills(*asked, checks)
    assert {n: kill.refutations for n, kill in before.items()} == {n: kill.refutations for n, kill in after.items()}
    assert {n: kill.errors for n, kill in before.items()} == {n: kill.errors for n, kill in after.items()}


def test_a_law_is_known_on_the_definition_once_a_mistake_was_tried():
    m, checks = library()["softmax"], Checks()
    definition, sample = definition_law(m), samples_of(m)[0]
    kills(m, list(m.mistakes.values())[:1], m.words, [definition], [sample], pytest.fail, checks)
    assert Kind.HELD is checks[tuple(m.words.values()), sample, definition.name, RIGHT].kind


def test_a_run_may_end_at_its_first_violation():
    m = library()["softmax"]
    wrong = DefinitionSubject(m, "wrong", next(iter(m.mistakes.values())).change, dtypes=("float32",))
    whole, short = (run(Request(wrong, m, "float32", PROFILES["quick"], first=first)) for first in (False, True))
    assert (False, True) == (whole.partial, short.partial)
    assert 1 == sum(cell.bad for cell in short.cells) < sum(cell.bad for cell in whole.cells)


# What subjects share


def test_plans_of_other_claims_share_the_scenarios_that_they_have_in_common():
    m = library()["attention"]
    claims = DefinitionSubject(m, "definition").claims
    fewer = type(claims)(names=claims.names - {"sink"}, dtypes=claims.dtypes)
    one, other = ({s.case.label: s for s in plan(m, c, FEW, 0, "float64").scenarios} for c in (claims, fewer))
    assert one["plain"] is other["plain"]
    assert "sunk" in one
    assert "sunk" not in other


def test_a_value_is_shared_under_words_that_it_does_not_ask_for():
    m = library()["attention"]
    other = {**m.words, "causal_alignment": "top_left"}
    by_label = {s.case.label: s for s in samples_of(m)}
    causal = next(s for s in samples_of(library()["causal_mask"]) if s.values["causal"])
    for mechanism, sample, same in ((m, by_label["decode"], True), (library()["causal_mask"], causal, False)):
        found = []
        for words in (m.words, other):
            trial = Trial(
                Bench(DefinitionSubject(mechanism, "one", conventions=words), mechanism, "float64", "cpu", words),
                sample,
            )
            found.append(trial.frames.exact("out", trial.base))
        assert same == (found[0] is found[1])
