"""What is known of a call beside the entries of its arrays."""

import numpy as np
import pytest

from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.diagnosis.conditions import Literal
from attnspec.diagnosis.facts import facts_of, read_densely
from attnspec.diagnosis.observations import Observation
from attnspec.judging.bench import Bench
from attnspec.judging.trial import Trial
from attnspec.mechanisms.loader import library
from attnspec.subjects.stand_ins import DefinitionSubject, ReferenceSubject


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


def test_an_array_that_is_read_as_if_contiguous_is_its_memory():
    x = np.arange(12.0).reshape(1, 2, 3, 2)
    assert x.swapaxes(1, 2).ravel().tolist() == read_densely(x, "transposed", 0).ravel().tolist()
    assert [0.0, 1.0, 2.0] == read_densely(x, "strided", 0).ravel()[:5:2].tolist()
    assert x.tolist() == read_densely(x, "offset", 0).tolist()
    assert read_densely(x, "contiguous", 0) is x


def test_of_a_case_that_was_not_called_no_convention_is_known_to_matter():
    assert Literal("settled", "empty_row").holds(facts_of(scenario("nothing_seen")))


@pytest.mark.parametrize(("label", "settled"), [("plain", True), ("nothing_seen", False)])
def test_whether_a_convention_matters_is_known_of_a_call(label, settled):
    m = library()["attention"]
    one = DefinitionSubject(m, "definition")
    trial = Trial(Bench(one, m, "float32", "cpu", m.words), scenario(label))
    facts = Observation(trial, trial.base, one.claims.grade("float32")).facts
    assert settled is Literal("settled", "empty_row").holds(facts)


@pytest.mark.parametrize(
    ("label", "shared", "apart"),
    [
        ("mask_of_keys", {"heads", "q_len"}, {"batch", "k_len"}),
        ("mask_for_each_head", set(), {"batch", "heads", "q_len", "k_len"}),
        ("mask_of_three_axes", {"batch"}, {"heads", "q_len", "k_len"}),
    ],
)
def test_along_which_axes_an_optional_input_is_broadcast(label, shared, apart):
    facts = facts_of(scenario(label))
    assert {("mask", axis) for axis in shared} == facts.shared
    assert {("mask", axis) for axis in apart} == facts.apart
    assert {"mask": 3} if label == "mask_of_three_axes" else {} == facts.axes


def test_what_is_so_of_some_lengths():
    m = library()["paged_attention"]
    claims = ReferenceSubject(m).claims
    drawn = plan(m, claims, PROFILES["quick"], 0, "float32").scenarios
    found = {s.case.label: (s.values["k_lens"].tolist(), facts_of(s).counted) for s in drawn}
    for lengths, counted in found.values():
        assert (len(set(lengths)) > 1) is (("k_lens", "unequal") in counted)
        assert (0 in lengths) is (("k_lens", "zero") in counted)
    assert ("k_lens", "page_size") not in found["whole_pages"][1]
    assert any(("k_lens", "page_size") in counted for _, counted in found.values())


def test_whether_some_entries_are_what_an_option_says():
    m = library()["cross_entropy"]
    drawn = plan(m, ReferenceSubject(m).claims, PROFILES["quick"], 0, "float32").scenarios
    found = [(s.values["ignore_index"] in s.values["targets"], facts_of(s).counted) for s in drawn]
    assert {True, False} == {some for some, _ in found}
    assert all(some is (("targets", "= ignore_index") in counted) for some, counted in found)


def test_which_sizes_have_to_be_multiples_of_others():
    assert {("heads", "kv_heads")} == facts_of(scenario("plain")).multiples
