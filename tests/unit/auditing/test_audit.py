"""The audit: red for every way in which the suite would not notice."""

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from attnspec import adapters, reference
from attnspec.adapters import Adapter
from attnspec.auditing import audit
from attnspec.auditing.audit import audited, tasks_of
from attnspec.auditing.correct import Bounds, Tried, controls, draws_of, told, tried
from attnspec.auditing.mechanism import CASES, _Audit, audited_mechanism, variants
from attnspec.auditing.mutation import Refutation
from attnspec.auditing.parts import Part
from attnspec.cases.profiles import Profile
from attnspec.cli import main
from attnspec.errors import Exit, SpecError, UsageError
from attnspec.judging.bench import Bench
from attnspec.judging.cells import Cell
from attnspec.judging.trial import Trial
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.evidence import Evidence
from attnspec.mechanisms.loader import NONE, library, load
from attnspec.numerics.grades import FP64
from attnspec.subjects.stand_ins import DefinitionSubject

SOFTMAX = """
mechanism: softmax
title: Softmax
version: 1
sources: ["A paper"]
summary: Exponentials divided by their sum.
sizes:
  n: choice(2, 5)
inputs:
  x: normal(2, n)
conventions:
  empty_row:
    zeros: A row of minus infinities gives zeros.
    nans: A row of minus infinities gives NaN.
requires:
  some: n > 0
definition:
  terms: exp(shift(x))
  total: sum(terms, keep = true)
  p: where(any(x > -infinity, -1)[..., none], terms / total, 0 if empty_row == zeros else nan)
outputs: [p]
examples:
  odds:
    given: x = [[0.0, 1.0986122886681098], [0.0, 0.0]]
    gives: p = [[0.25, 0.75], [0.5, 0.5]]
scenarios:
  plain: n = 3
  hidden: n = 3, x = where(range(n) >= 0, -infinity, normal(2, n))
  large: n = 3, x = 1000 + normal(2, n)
laws:
  sums_to_one:
    says: The entries of a row add up to one.
    when: all(x > -infinity)
    holds: sum(p) == 1
  shifted:
    says: Adding one number to every entry changes nothing.
    given: c = choice(1000, -1000)
    holds: p(x = x + c) == p
mistakes:
  base_two:
    says: Powers of two take the place of exponentials.
    change: terms = 2.0 ** shift(x)
  unnormalised:
    says: The exponentials are not divided by their sum.
    change: p = terms
  saturated:
    says: Entries beyond a hundred vanish.
    change: p = where(x > 100, 0, p)
rejects:
  no_entries:
    says: There is at least one entry.
    call: x = x[:, :0]
"""
HIDDEN = "  hidden: n = 3, x = where(range(n) >= 0, -infinity, normal(2, n))\n"


def edited(monkeypatch, *changes):
    """The audit of a small specification in which some text was replaced."""
    text = SOFTMAX
    for old, new in changes:
        assert 1 == text.count(old)
        text = text.replace(old, new)
    Path("softmax.yaml").write_text(text)
    monkeypatch.setattr("attnspec.auditing.mechanism.CASES", Profile("audit", covering=3, draws=0, admitted=2))
    mechanism = load([Path("softmax.yaml")])["softmax"]
    monkeypatch.setitem(library()._read, "softmax", mechanism)
    return audited_mechanism(mechanism)


def mistake(change):
    return "rejects:", f"  further:\n    says: It is another one.\n    change: {change}\nrejects:"


def law(text):
    return "mistakes:", f"  further:\n    says: It is another one.\n    {text}\nmistakes:"


def test_a_sound_specification_has_no_faults(monkeypatch):
    part = edited(monkeypatch)
    kills = {
        "base_two": ["definition"],
        "unnormalised": ["definition", "sums_to_one"],
        "saturated": ["definition", "sums_to_one", "shifted"],
    }
    found = {mistake: [refutation.law for refutation in kill] for mistake, kill in part.kills.items()}
    assert ([], kills) == (part.faults, found)
    assert ("definition", "sums_to_one", "shifted") == part.laws


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (mistake("terms = exp(shift(x))"), "the mutant of the mistake further survives"),
        (mistake("total = 1.000001 * total"), "the mutant of the mistake further survives in bfloat16"),
        (
            law("when: all(x > -infinity)\n    holds: p >= 0"),
            "the law further refutes no mistake, and is not marked as a contract",
        ),
        (law("holds: sum(p) == 2"), "further is false of the definition itself on odds, every convention at its first"),
        (law("when: n > 100\n    holds: p == 1"), "no case reaches the law further"),
        (("terms: exp(shift(x))", "terms: exp(2 * shift(x))"), "definition and reference differ in p on plain, every"),
        (("[0.25, 0.75]", "[0.25, 0.76]"), "example odds: the definition gives p = [[0.25"),
        (("[0.25, 0.75]", "[0.25, 0.76]"), "example odds: the reference gives p = [[0.25"),
        ((HIDDEN, ""), "nothing refutes a subject that declares empty_row = zeros and follows nans"),
        (("call: x = x[:, :0]", "when: n > 100\n    call: x = x[:, :0]"), "the reject no_entries: not_tested, no case"),
    ],
)
def test_what_the_suite_would_not_notice_is_a_fault(monkeypatch, change, fault):
    assert any(found.startswith(fault) for found in edited(monkeypatch, change).faults)


def test_a_contract_need_not_refute_anything(monkeypatch):
    part = edited(monkeypatch, law("contract: It is about the sign.\n    when: all(x > -infinity)\n    holds: p >= 0"))
    assert [] == part.faults
    assert "    refute nothing: further" in part.lines(table=True)


def test_a_mistake_may_show_under_another_word_alone(monkeypatch):
    part = edited(monkeypatch, mistake("p = terms / total if empty_row == zeros else 0 * terms"))
    assert [] == [fault for fault in part.faults if "survives" in fault and "in " not in fault]


def test_all_mistakes_are_tried_on_the_same_samples():
    m = library()["softmax"]
    audit = _Audit(m)
    one, other, under = (
        audit.scenarios(DefinitionSubject(m, "one", {}, conventions=words, dtypes=("float32",)), "float32", CASES)
        for words in (None, None, {"empty_row": "nans"})
    )
    assert (True, True) == (one is other and len(one) > 3, under is not one)


def test_bounds_are_computed_once_for_words_that_a_case_does_not_ask_for(monkeypatch):
    m = library()["attention"]
    audit, found = _Audit(m), {}
    for words in variants(m):
        bench = Bench(audit.subject(None, words, rounding=False), m, "float64", "cpu", words)
        for sample in audit.plan.scenarios[:3]:
            exact = audit.bounded(Trial(bench, sample), words)["out"]
            found.setdefault(sample.case.label, []).append(exact)
            alone = Frame(m, {**sample.values, **words}, grade=FP64, dtype="float64").outputs()["out"]
            assert (alone.value.tobytes(), np.array(alone.radius).tobytes()) == (
                exact.value.tobytes(),
                np.array(exact.radius).tobytes(),
            )
    different = [len({id(x) for x in outputs}) for outputs in found.values()]
    assert 1 < max(different) < len([*variants(m)])


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (lambda x, empty_row: np.exp(x) / np.exp(x).sum(-1, keepdims=True) / 2, "definition and reference differ in p"),
        (lambda x, empty_row: np.zeros((1, 1)), "definition and reference differ in p"),
        (lambda x, empty_row: np.full(x.shape, np.nan), "the reference does not notice base_two in the definition"),
        (lambda x, empty_row: np.exp(x), "example odds: the reference gives p = [[1.0, 3.0"),
    ],
)
def test_a_reference_that_is_wrong_is_a_fault(monkeypatch, wrong, fault):
    monkeypatch.setattr(reference, "softmax", wrong)
    assert any(found.startswith(fault) for found in edited(monkeypatch).faults)


def test_a_law_that_cannot_be_evaluated_is_said_with_its_place(monkeypatch):
    said = r"further cannot be evaluated on plain: .*softmax\.yaml:\d+:12: IndexError: index 4 is out of bounds"
    assert any(re.match(said, fault) for fault in edited(monkeypatch, law("holds: p[..., 4] <= 1")).faults)


def test_a_call_that_the_definition_takes_is_no_reject(monkeypatch):
    with pytest.raises(SpecError, match=r"softmax\.no_entries: the definition does not refuse the call"):
        edited(monkeypatch, ("call: x = x[:, :0]", "call: x = x[:, :1]"))


def test_variants_change_one_word_at_a_time():
    found = list(variants(library()["attention"]))
    first, others = found[0], found[1:]
    assert library()["attention"].words == first
    assert {1} == {sum(first[name] != word for name, word in words.items()) for words in others}
    assert len(others) == sum(len(words) - 1 for words in library()["attention"].conventions.values())


def test_shipped_mechanisms_are_audited_in_processes_of_their_own(monkeypatch):
    monkeypatch.setattr(audit, "controls", lambda known, wanted: {})
    (part,) = audited(["alibi_bias"], workers=2)
    assert ("alibi_bias", []) == (part.name, part.faults)
    assert set(library()["alibi_bias"].mistakes) == set(part.kills)
    assert all(part.kills.values())


def test_an_unknown_mechanism_is_refused():
    with pytest.raises(UsageError, match="unknown mechanism 'sofmax'; did you mean 'softmax'"):
        list(audited(["sofmax"]))


# Correct variants


def softmax(x):
    with np.errstate(all="ignore"):
        terms = np.exp(x - np.maximum(x.max(-1, keepdims=True), -1e30))
        return terms / np.maximum(terms.sum(-1, keepdims=True), 1e-30)


def half(x):
    return softmax(x) / 2


@pytest.mark.parametrize(
    ("function", "accused"), [(softmax, []), (half, ["softmax.definition", "softmax.sums_to_one"])]
)
def test_a_correct_variant_that_is_accused_is_a_fault(monkeypatch, function, accused):
    adapter = Adapter("variant", "softmax", function, "numpy", conventions={"empty_row": "zeros"})
    monkeypatch.setattr(adapters, "_registered", [adapter])
    monkeypatch.setattr("attnspec.subjects.registered.families", lambda audited: [__name__])
    monkeypatch.setattr("attnspec.auditing.correct.CONTROLS", CASES)
    assert ({"softmax": ["variant"]}, {}) == (controls(library(), ["softmax"]), controls(library(), ["alibi"]))
    part, *bounds = told("softmax", ["variant"], [tried(["variant"], "softmax", draws_of(1, deep=False))])
    assert accused == [fault.split()[2] for fault in part.faults if "equal_shares" not in fault]
    assert len(accused) >= len(bounds)
    assert part.notes[0].startswith("correct variant, ")


def test_variants_are_told_together_wherever_they_were_tried():
    def one(cases, faults, law):
        bounds = Bounds()
        bounds.take(cell(law, "float32", 2, 7))
        return Tried(Counter(variant=cases), {"variant": faults}, bounds)

    part, bounds = told("softmax", ["variant"], [one(3, ["accused of share"], "share"), one(4, [], "ratio")])
    assert (["accused of share"], ["correct variant, 7 cases"]) == (part.faults, part.notes)
    assert ["softmax.share", "softmax.ratio"] == [fault.split()[2] for fault in bounds.faults]


def test_processes_share_all_that_is_audited():
    faults = [str(number) for number in range(70)]
    correct = {"attention": ["one", "other"], "softmax": ["third"]}
    tasks = tasks_of(library(), ["attention", "alibi", "softmax"], correct, {"attention": faults}, NONE, deep=False)
    own = {"mechanism": ("attention", "alibi", "softmax"), "correct": ("attention", "alibi", "softmax")}
    for kind, names in own.items():
        assert names == tuple(name or mechanism for each, mechanism, name in tasks if each == kind)
    assert faults == [name for key, task in tasks.items() if key[0] == "wrong" for name in task.arguments[0]]
    assert ("mechanism", "attention", "") == max(tasks, key=lambda key: tasks[key].seconds)


# The command


def test_the_audit_is_red_where_it_finds_a_fault(monkeypatch):
    monkeypatch.setattr(audit, "controls", lambda known, wanted: {})
    monkeypatch.setattr(audit, "faults_of", lambda known, wanted: {})
    edited(monkeypatch)
    green = CliRunner().invoke(main, ["audit", "--mechanism", "softmax", "-n", "1", "--table"])
    edited(monkeypatch, mistake("terms = exp(shift(x))"))
    red = CliRunner().invoke(main, ["audit", "--mechanism", "softmax", "-n", "1"])
    assert (Exit.CONFORMANT, Exit.VIOLATED) == (green.exit_code, red.exit_code)
    assert "softmax                3 laws, 3 mistakes   ok" in green.stdout.splitlines()
    assert re.search(r"^    unnormalised  definition   plain +1 +\d+\.\d ms +\de\+\d+$", green.stdout, re.MULTILINE)
    assert re.search(r"^ +sums_to_one  plain +1 +\d+\.\d ms +\de\+\d+$", green.stdout, re.MULTILINE)
    assert "    FAULT the mutant of the mistake further survives" in red.stdout.splitlines()
    assert green.stdout.splitlines()[-1].startswith("audit: no faults in ")
    assert red.stdout.splitlines()[-1].startswith("audit: 1 faults in ")


def test_a_part_is_told_with_its_faults():
    refutations = [Refutation("definition", "plain", 1, 0.0021, 3e14), Refutation("share", "large", 12, 0.1, np.inf)]
    kills = {"base_two": refutations, "other": []}
    part = Part("softmax", kills, ("definition", "share", "ratio"), ["no good"])
    assert ["softmax                3 laws, 2 mistakes", "    FAULT no good"] == list(part.lines(table=False))
    assert list(part.lines(table=True))[1:6] == [
        "    mistake   law         case   checks       CPU  x bound",
        "    base_two  definition  plain       1    2.1 ms    3e+14",
        "              share       large      12  100.0 ms      inf",
        "    other     -",
        "    refute nothing: ratio",
    ]


def test_what_hangs_on_a_single_scenario_is_told_in_the_table():
    evidence = Evidence("digest", {"plain": 1.0, "long": 2.0}, {"base_two": "44", "late": "04"})
    part = Part("softmax", {"base_two": [], "late": []}, (), evidence=evidence)
    assert "    shown by one scenario alone: late (long)" == list(part.lines(table=True))[-1]


def cell(law, dtype, cases, vacuous):
    return Cell("variant", "softmax", "softmax", law, "must", dtype, "cpu", "pass", cases, vacuous=vacuous)


def test_bounds_that_mostly_say_nothing_are_a_fault_in_the_finest_dtype_and_told_of_the_others():
    bounds = Bounds()
    for law, counts in {"share": (9, 1), "ratio": (2, 7)}.items():
        bounds.take(cell(law, "float32", *counts))
        bounds.take(cell(law, "bfloat16", 3, 6))
    (part,) = bounds.part("softmax")
    assert ["those of softmax.ratio say nothing in float32 on 7 of 9 cases"] == part.faults
    assert ["mostly too wide in bfloat16 for softmax.share, softmax.ratio"] == part.notes
    assert [] == list(Bounds().part("softmax"))


def test_the_processes_of_an_audit_end_with_it(monkeypatch):
    ended = []
    monkeypatch.setattr(audit.orphans, "end_with_parent", lambda: ended.append(True))
    freeze = SimpleNamespace(freeze=lambda: None, set_threshold=lambda *_: None)
    monkeypatch.setattr(audit, "gc", freeze)
    ending = []
    monkeypatch.setattr(audit, "atexit", SimpleNamespace(register=ending.append))
    audit._settle(NONE)
    assert [True] == ended
    assert [freeze.freeze] == ending  # no garbage is searched for when there is nobody left to use its memory
