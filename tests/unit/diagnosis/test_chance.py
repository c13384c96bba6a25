"""Which outputs of a call depend on the numbers that a definition draws."""

from dataclasses import replace

import pytest

from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.cases.samples import Sample
from attnspec.diagnosis.chance import drawn
from attnspec.judging.bench import Bench
from attnspec.judging.trial import Trial
from attnspec.mechanisms.loader import library
from attnspec.subjects.stand_ins import DefinitionSubject


def trial(name, label, **options):
    m = library()[name]
    one = DefinitionSubject(m, "definition")
    plain = next(s for s in plan(m, one.claims, PROFILES["quick"], 0, "float32").scenarios if s.case.label == label)
    case = replace(plain.case, fixed={**plain.case.fixed, **options})
    return Trial(Bench(one, m, "float32", "cpu", m.words), Sample(m, case, "float32", claims=one.claims))


@pytest.mark.parametrize(
    ("name", "label", "options", "by_chance"),
    [
        ("dropout", "plain", {}, {"out"}),
        ("dropout", "plain", {"p": 0.0}, set()),
        ("dropout", "plain", {"training": False}, set()),
        ("attention_dropout", "plain", {}, {"out"}),
        ("speculative_sampling", "plain", {}, {"tokens", "accepted"}),
        ("speculative_sampling", "greedy", {}, set()),
        ("lightning_indexer", "plain", {}, set()),
    ],
)
def test_an_output_is_drawn_if_other_numbers_would_change_it(name, label, options, by_chance):
    one = trial(name, label, **options)
    assert by_chance == drawn(one, one.base)


def test_a_call_of_a_law_is_determined_where_its_options_make_it_so():
    one = trial("dropout", "plain")
    assert not drawn(one, one.settle({"p": 0.0}))
