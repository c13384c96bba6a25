"""What is known of a call beside the entries of its arrays."""

import pytest

from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.diagnosis.facts import facts_of
from attnspec.mechanisms.loader import library
from attnspec.subjects.stand_ins import ReferenceSubject


def scenario(label):
    m = library()["attention"]
    claims = ReferenceSubject(m).claims
    return next(s for s in plan(m, claims, PROFILES["quick"], 0, "float32").scenarios if s.case.label == label)


def test_what_is_at_its_default_is_left_out():
    facts = facts_of(scenario("capped_and_masked"))
    assert {"softcap": 0.5} == {name: x for name, x in facts.options.items() if x is not None}
    assert {"mask": True, "bias": False, "sink": False} == facts.given
    assert (2, 1, 6) == (facts.sizes["batch"], facts.sizes["kv_heads"], facts.sizes["k_len"])


@pytest.mark.parametrize(
    ("label", "memory"),
    [
        ("plain", ("contiguous", "contiguous", "contiguous")),
        ("transposed", ("transposed", "transposed", "transposed")),
        ("mixed", ("contiguous", "transposed", "strided")),
        ("lone", ("contiguous", "contiguous", "transposed")),
        ("offset", ("contiguous", "contiguous", "contiguous")),
    ],
)
def test_how_each_input_lies_in_memory(label, memory):
    assert memory == tuple(facts_of(scenario(label)).memory.values())


def test_an_axis_of_one_leaves_a_transposed_input_contiguous():
    sample = scenario("transposed")
    values = {**sample.values, "q": sample.values["q"][:, :1]}
    assert "contiguous" == facts_of(sample, values).memory["q"]


def test_what_is_not_finite_is_known():
    m = library()["softmax"]
    claims = ReferenceSubject(m).claims
    found = {s.case.label: facts_of(s).finite for s in plan(m, claims, PROFILES["quick"], 0, "float32").scenarios}
    assert (True, False) == (found["large"], found["nothing_left"])
