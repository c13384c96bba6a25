"""A case is moved to the other side of a condition, and stays as it is otherwise."""

import itertools
from dataclasses import replace

import pytest

from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.diagnosis.conditions import Condition, Literal
from attnspec.diagnosis.facts import facts_of
from attnspec.diagnosis.steering import (
    beyond,
    enlarged,
    freed,
    imposed,
    neighbours,
    otherwise,
    otherwise_called,
    roomy,
    sized,
    steered,
)
from attnspec.mechanisms.loader import library
from attnspec.subjects.stand_ins import DefinitionSubject, ReferenceSubject

CLAIMS = ReferenceSubject(library()["attention"]).claims


def scenario(label):
    m = library()["attention"]
    return next(s for s in plan(m, CLAIMS, PROFILES["quick"], 0, "float32").scenarios if s.case.label == label)


LITERALS = [
    Literal("from", "k_len", 33),
    Literal("from", "heads", 5),
    Literal("up to", "q_len", 1),
    Literal("remainder", "k_len", (16, 1, 3)),
    Literal("less", "q_len", "k_len"),
    Literal("less", "kv_heads", "heads"),
    Literal("same", "head_dim", "value_dim"),
    Literal("other", "head_dim", "value_dim"),
    Literal("other", "q_len", "batch"),
    Literal("power", "heads", "kv_heads"),
    Literal("unpowered", "heads", "kv_heads"),
    Literal("not", "k_len", 8),
    Literal("given", "mask"),
    Literal("absent", "bias"),
    Literal("set", "causal", True),
    Literal("usual", "scale"),
    Literal("equal", "softcap", 0.5),
    Literal("below", "scale", 0),
    Literal("at most", "scale", 0),
    Literal("at least", "window_left", 2),
    Literal("scattered", "q"),
    Literal("memory", "k", "strided"),
    Literal("layout", "layout", "expanded"),
    Literal("regime", "regime", "ties"),
    Literal("shared", "mask", "heads"),
    Literal("apart", "mask", "batch"),
]


@pytest.mark.parametrize("label", ["plain", "capped_and_biased", "strided", "negative_scale"])
@pytest.mark.parametrize("literal", LITERALS, ids=lambda one: f"{one.kind} {one.name}")
def test_a_literal_is_made_true_and_false(literal, label):
    found = [steered(scenario(label), CLAIMS, literal, holds=holds) for holds in (True, False)]
    assert [True, False] == [literal.holds(facts_of(sample)) for sample in found]


def test_a_case_on_which_it_holds_already_is_left_alone():
    sample = scenario("plain")
    assert steered(sample, CLAIMS, Literal("absent", "mask"), holds=True) is sample


def test_several_literals_are_imposed_at_once():
    condition = Condition((Literal("given", "mask"), Literal("set", "causal", True), Literal("from", "k_len", 40)))
    found = imposed(scenario("plain"), CLAIMS, condition)
    assert (True, True, 40) == (facts_of(found).given["mask"], found.values["causal"], found.values["k_len"])


def test_what_cannot_be_is_no_case():
    assert imposed(scenario("plain"), CLAIMS, Condition((Literal("from", "k_len", 10**6),))) is None
    assert sized(scenario("plain"), CLAIMS, "heads", 4) is None


def test_options_have_each_of_their_values_in_turn():
    found = [facts_of(sample) for sample in itertools.islice(otherwise_called(scenario("plain"), CLAIMS), 60)]
    scales = [facts.options["scale"] for facts in found if facts.options["scale"] is not None]
    assert [1.0, 0.3, -0.5, 0.0] == scales
    assert any(facts.given["mask"] for facts in found[:3])


def test_a_size_next_to_a_threshold_may_be_none_that_can_be():
    m = library()["appended_attention"]
    claims = ReferenceSubject(m).claims
    known = {s.case.label: s for s in plan(m, claims, PROFILES["quick"], 0, "float32").scenarios}
    small = sized(known["one_token"], claims, "half", 2)
    assert beyond(small, claims, Literal("from", "head_dim", small.values["head_dim"])) is not None


def test_a_case_that_is_freed_has_no_rows_of_its_scenario_that_are_bound_to_a_size():
    m = library()["appended_attention"]
    claims = ReferenceSubject(m).claims
    known = {s.case.label: s for s in plan(m, claims, PROFILES["quick"], 0, "float32").scenarios}
    literal = Literal("from", "capacity", 3)
    assert beyond(known["one_token"], claims, literal) is None
    assert 2 == beyond(freed(known["one_token"], claims), claims, literal).values["capacity"]


def test_neighbours_differ_in_one_option_input_or_size():
    plain = scenario("plain")
    found = [facts_of(sample) for sample in neighbours(plain, CLAIMS)]
    assert any(facts.given["mask"] and facts.sizes["k_len"] == plain.values["k_len"] for facts in found)
    assert any(facts.options["causal"] for facts in found)
    assert any(facts.sizes["q_len"] == 1 for facts in found)
    assert all(sum(facts.given.values()) + sum(x is not None for x in facts.options.values()) <= 1 for facts in found)


def test_a_roomy_case_has_two_of_nothing():
    assert (3, 5) == tuple(roomy(scenario("transposed"), CLAIMS).values[name] for name in ("batch", "q_len"))


def test_a_literal_about_what_a_mechanism_does_not_have_moves_nothing():
    assert steered(scenario("plain"), CLAIMS, Literal("given", "k_scale"), holds=True) is None


def test_where_no_case_of_a_mechanism_is_beyond_a_literal_one_of_its_operator_is():
    m = library()["grouped_query"]
    sample = next(s for s in plan(m, CLAIMS, PROFILES["quick"], 0, "float32").scenarios if s.mechanism is m)
    literal = Literal("less", "kv_heads", "heads")
    assert steered(sample, CLAIMS, literal, holds=False) is None
    found = beyond(sample, CLAIMS, literal)
    assert ("attention", True) == (found.mechanism.name, found.values["heads"] == found.values["kv_heads"])


def test_an_option_that_is_to_be_given_has_each_of_its_values():
    found = otherwise(scenario("plain"), CLAIMS, Literal("usual", "scale"))
    assert [0.0, -0.5, 0.3, 1.0] == [sample.values["scale"] for sample in found]
    assert [] == [*otherwise(scenario("plain"), CLAIMS, Literal("absent", "mask"))]


def test_each_size_is_one_larger_in_turn_as_far_as_it_may_be():
    sample = scenario("plain")
    names = [name for name in sample.mechanism.sizes if name != "heads"]  # which follow from those of keys
    found = [
        {name for name in names if other.values[name] != sample.values[name]} for other in enlarged(sample, CLAIMS)
    ]
    assert {"q_len", "k_len", "head_dim", "value_dim"} <= {name for one in found for name in one}
    assert all(len(one) <= 2 for one in found)


def test_what_may_be_given_with_another_option_alone_is_given_with_it():
    m = library()["quantized_output"]
    claims = DefinitionSubject(m, "definition").claims
    plain = next(s for s in plan(m, claims, PROFILES["quick"], 0, "float32").scenarios if s.case.label == "plain")
    found = steered(plain, claims, Literal("given", "v_scale"), holds=True)
    assert ("kv_as_given", "e4m3fn") == (plain.values["kv_dtype"], found.values["kv_dtype"])
    fixed = replace(claims, fixed={"kv_dtype": "kv_as_given"})
    assert steered(plain, fixed, Literal("given", "v_scale"), holds=True) is None


@pytest.mark.parametrize(("label", "kind"), [("with_state", "given"), ("plain", "absent")])
def test_an_optional_input_is_given_or_left_out_with_another_that_it_has_to_go_with(label, kind):
    m = library()["wkv4"]
    claims = ReferenceSubject(m).claims
    sample = next(s for s in plan(m, claims, PROFILES["quick"], 0, "float32").scenarios if s.case.label == label)
    given = facts_of(beyond(sample, claims, Literal(kind, "past"))).given
    assert [kind == "absent"] * 2 == [given["past"], given["lse"]]
