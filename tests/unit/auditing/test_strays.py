"""Whether the audit finds mistakes that are wrong on cases which do not touch what they are about."""

import re

import numpy as np
import pytest

from attnspec import reference
from attnspec.auditing.mechanism import audited_mechanism
from attnspec.auditing.strays import left_out, strays
from attnspec.cases.plans import Plan
from attnspec.cases.profiles import Profile
from attnspec.language.expressions import Expression
from attnspec.mechanisms.loader import library, load
from attnspec.mechanisms.mechanism import Mechanism
from attnspec.subjects.stand_ins import DefinitionSubject

FEW = Profile("few", covering=0, draws=0, admitted=1)

SCORES = """
mechanism: scores
title: Scores
version: 1
sources: ["A paper, 2020"]
summary: A capped score with a bias.
sizes:
  n: choice(2, 5)
inputs:
  x: normal(n)
  bias: maybe(normal(n), 0)
options:
  cap: maybe(2.0, none)
  far: choice(false, true)
requires:
  some: n > 0
definition:
  capped: x if cap == none else cap * x / (cap + abs(x))
  y: capped + bias + (1 if far else 0)
outputs: [y]
scenarios:
  plain: n = 3, cap = none, bias = 0, far = false, x = 1 + range(n)
  capped: n = 3, cap = 2.0, bias = 0, far = false, x = 0.05 + 0 * range(n)
  biased: n = 3, cap = none, bias = normal(n), far = false
  both: n = 3, cap = 2.0, bias = normal(n), far = false
  far: n = 3, cap = 2.0, bias = normal(n), far = true
mistakes:
  planted:
    says: Something is wrong.
    change: CHANGE
"""


def planted(tmp_path, change) -> Mechanism:
    path = tmp_path / "scores.yaml"
    path.write_text(SCORES.replace("CHANGE", change))
    return load([path])["scores"]


def said(m):
    return list(strays(m, Plan(m, DefinitionSubject(m, "definition").claims, FEW, 0, "float64").scenarios))


@pytest.mark.parametrize(
    ("change", "label"),
    [
        ("y = capped if cap == none else cap * (x + bias) / (cap + abs(x + bias))", "biased"),
        ("capped = capped + 1 if single(bias) else capped - 1", "plain"),
    ],
)
def test_what_asks_for_something_and_is_wrong_with_and_without_is_found(tmp_path, change, label):
    (fault,) = said(planted(tmp_path, change))
    assert re.search(f"the mistake planted asks for .* as on {label}", fault)


def test_what_leaves_out_an_option_beside_what_it_is_about_is_found(tmp_path):
    m = planted(tmp_path, "capped = min(x, 0.1)")
    assert ("cap",) == left_out(m, m.mistakes["planted"])
    (fault,) = said(m)
    assert "planted also leaves out cap, and is wrong on capped" in fault


def test_an_example_and_a_scenario_of_one_name_are_two_cases(tmp_path):
    example = "examples:\n  capped:\n    given: x = [1.0, 3.0]\n    gives: y = [1.0, 3.0]\n"
    path = tmp_path / "scores.yaml"
    path.write_text(SCORES.replace("CHANGE", "capped = x").replace("scenarios:", f"{example}scenarios:"))
    m = load([path])["scores"]
    cases = Plan(m, DefinitionSubject(m, "definition").claims, FEW, 0, "float64").scenarios
    assert 2 == [case.case.label for case in cases].count("capped")
    assert [] == list(strays(m, cases))


def test_the_definition_is_evaluated_once_for_all_mistakes(tmp_path, monkeypatch):
    path, evaluated = tmp_path / "scores.yaml", []
    changes = ("capped = x", "y = capped", "capped = min(x, 0.1)")
    mistakes = "".join(f"  m{i}:\n    says: Wrong.\n    change: {change}\n" for i, change in enumerate(changes))
    path.write_text(SCORES.split("  planted:", maxsplit=1)[0] + mistakes)
    m = load([path])["scores"]
    text = m.definition["capped"].text
    own = Expression.__call__
    counted = lambda self, env: (evaluated.append(self.text), own(self, env))[1]  # noqa: E731
    monkeypatch.setattr(Expression, "__call__", counted)
    said(m)
    cases = {"plain": 1, "capped": 2, "biased": 2, "both": 3, "far": 3}  # with all that is given, without some, ...
    assert 0 < evaluated.count(text) <= sum(cases.values())


def test_the_audit_of_a_mechanism_says_so(tmp_path, monkeypatch):
    m = planted(tmp_path, "capped = min(x, 0.1)")
    monkeypatch.setattr(reference, "scores", lambda x, bias=0, cap=None, far=False: scores(x, bias, cap, far), False)
    monkeypatch.setattr(reference, "__all__", [*reference.__all__, "scores"])
    assert any("also leaves out cap" in fault for fault in audited_mechanism(m).faults)


def scores(x, bias, cap, far):
    return (x if cap is None else cap * x / (cap + np.abs(x))) + bias + far


@pytest.mark.parametrize(
    "change",
    [
        "capped = x",
        "y = capped",
        "y = y if cap == none else cap * (x + bias) / (cap + abs(x + bias))",
        "capped = 0 if cap == none else capped",
        "far = not far",
        "capped = x / 2 if cap == none else cap * x / (cap + abs(x))",
        "y = y + (0 if cap == none or single(bias) else 1)",
        "cap = none",
    ],
)
def test_what_is_right_where_it_has_no_business_is_not_accused(tmp_path, change):
    assert [] == said(planted(tmp_path, change))


def test_an_input_that_is_always_given_is_never_left_out():
    m = library()["sunk_pages"]
    assert () == left_out(m, m.mistakes["ignored"])
    assert "sink" in m.definition["share"].uses
